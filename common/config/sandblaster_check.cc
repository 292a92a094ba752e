#include "common/config/sandblaster_check.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "common/config/job_limits.h"
#include "common/config/range_check.h"
#include "common/settings/number_rule.h"
#include "proto/downpour.pb.h"

namespace monsoon {
namespace {

constexpr double kConjugateC2 = 0.1;  // at most; as in coordinator/lbfgs

void CheckLineSearch(const Sandblaster& sandblaster, Reporter* reporter) {
  const LineSearch& search = sandblaster.line_search();
  const std::string path = "sandblaster.line_search";
  const double c1 = NumberOrUnset(search, "c1");
  const double c2 = NumberOrUnset(search, "c2");
  // From 1/2 on a quadratic's minimum would be refused.
  const bool c1_ok = c1 > 0.0 && c1 < 0.5;
  const bool c2_ok = c2 > 0.0 && c2 < 1.0;
  if (!c1_ok) {
    reporter->Error(path + ".c1", absl::StrCat(c1, " is outside (0, 0.5)"));
  }
  if (!c2_ok) {
    reporter->Error(path + ".c2", absl::StrCat(c2, " is outside (0, 1)"));
  }
  if (c1_ok && c2_ok && c1 >= c2) {
    // At the one that was written.
    const bool at_c1 = search.c1() != 0.0;
    reporter->Error(at_c1 ? path + ".c1" : path + ".c2",
                    absl::StrCat("c1 (", c1, ") must be below c2 (", c2, ")"),
                    absl::StrCat("the usual values are c1: ", NumberOrUnset(LineSearch(), "c1"),
                                 " c2: ", NumberOrUnset(LineSearch(), "c2")));
  }
  if (c1_ok && sandblaster.algorithm() == Sandblaster::NONLINEAR_CG && c1 >= kConjugateC2) {
    reporter->Error(path + ".c1", absl::StrCat(c1, " is not below 0.1, the c2 of NONLINEAR_CG"));
  }
}

void CheckChunks(const Job& job, Reporter* reporter) {
  const Sandblaster& sandblaster = job.sandblaster();
  const uint32_t chunk = sandblaster.chunk_examples();
  const uint32_t batch = job.batch_size();
  if (IsInRange(sandblaster, "chunk_examples") && batch != 0 && chunk % batch != 0) {
    reporter->Error("sandblaster.chunk_examples",
                    absl::StrCat(chunk, " is not a multiple of batch_size (", batch, ")"),
                    absl::StrCat("write chunk_examples: ", (uint64_t{chunk} / batch + 1) * batch));
  }
}

// What belongs to the other mode, or needs it.
void CheckBeside(const Job& job, Reporter* reporter) {
  const Sandblaster& sandblaster = job.sandblaster();
  if (sandblaster.evaluate_every_iterations() != 0 && !job.has_test()) {
    reporter->Error("sandblaster.evaluate_every_iterations", "there is no test data to evaluate on",
                    "add test { idx { ... } }");
  }
  if (sandblaster.target_accuracy() != 0.0 &&
      (!job.has_test() || sandblaster.evaluate_every_iterations() == 0)) {
    reporter->Error("sandblaster.target_accuracy",
                    "it is checked after runs over the test set during the training, and the job "
                    "has none",
                    "add test { ... } and sandblaster.evaluate_every_iterations");
  }
  if (job.has_downpour()) {
    if (job.downpour().workers() != sandblaster.workers()) {
      reporter->Error(
          "sandblaster.workers",
          absl::StrCat(sandblaster.workers(), " is not downpour.workers (",
                       job.downpour().workers(), "): both parts of a chain have the same workers"),
          absl::StrCat("write workers: ", job.downpour().workers()));
    }
    return;
  }
  if (job.has_stop()) {
    reporter->Error("stop", "it ends Downpour SGD, and Sandblaster ends by itself",
                    "remove it; sandblaster.max_iterations is the limit, and "
                    "sandblaster.target_accuracy ends it earlier");
  }
  if (job.evaluation().every_epochs() != 0.0) {
    reporter->Error("evaluation.every_epochs",
                    "it counts epochs of Downpour SGD, and the job has none",
                    "write evaluate_every_iterations inside sandblaster { }");
  }
}

void CheckPrecision(const Job& job, Reporter* reporter) {
  const Job::Precision precision = job.compute_precision();
  if (precision == Job::BFLOAT16 || precision == Job::FLOAT16) {
    reporter->Error("compute_precision",
                    absl::StrCat(Job::Precision_Name(precision),
                                 " is for Downpour SGD: Sandblaster's line search needs the digits "
                                 "of float32 products"),
                    "write FLOAT32, or TF32 with a gradient_tolerance of 1e-3 or more");
  }
}

// F must be one function of the parameters.
void CheckLayers(const Model& model, Reporter* reporter) {
  for (int i = 0; i < model.layer_size(); ++i) {
    const Layer& layer = model.layer(i);
    if (!layer.has_dropout() && !layer.has_augment()) {
      continue;
    }
    const std::string kind = layer.has_dropout() ? "dropout" : "augment";
    reporter->Error(absl::StrCat("model.layer[", i, "].", kind),
                    absl::StrCat("Sandblaster minimises one function of the parameters, and ", kind,
                                 " draws another one at each step"),
                    "remove the layer, or sandblaster { } and train with downpour { } alone");
  }
}

}  // namespace

void CheckSandblaster(const Job& job, Reporter* reporter) {
  const Sandblaster& sandblaster = job.sandblaster();
  CheckPrecision(job, reporter);
  CheckLineSearch(sandblaster, reporter);
  CheckChunks(job, reporter);
  CheckBeside(job, reporter);
  CheckLayers(job.model(), reporter);
  if (sandblaster.l2_weights_only() && sandblaster.l2() == 0.0) {
    reporter->Error("sandblaster.l2_weights_only", "means nothing without l2");
  }
}

void CheckSandblasterBatch(const Job& job, uint64_t examples, Reporter* reporter) {
  const Sandblaster& sandblaster = job.sandblaster();
  const uint64_t sample = sandblaster.sample_examples();
  if (sample > examples) {
    reporter->Error(
        "sandblaster.sample_examples",
        absl::StrCat("a sample of ", sample, " is larger than the training data of ", examples),
        "leave it out to take all");
    return;
  }
  const uint64_t batch = sample != 0 ? sample : examples;
  const uint64_t chunk =
      sandblaster.chunk_examples() != 0 ? sandblaster.chunk_examples() : job.batch_size();
  const uint64_t run = sandblaster.chunks_per_contribution();
  // Automatic runs are as long as needed.
  if (chunk == 0 || run == 0) {
    return;
  }
  const uint64_t chunks = (batch + chunk - 1) / chunk;
  const uint64_t contributions = (chunks + run - 1) / run;
  if (contributions > kMaxContributions) {
    reporter->Error(
        "sandblaster.chunks_per_contribution",
        absl::StrCat(chunks, " chunks in runs of ", run, " make ", contributions,
                     " contributions, the limit is ", kMaxContributions),
        absl::StrCat("write at least chunks_per_contribution: ",
                     (chunks + kMaxContributions - 1) / kMaxContributions, ", or leave it out"));
  }
}

}  // namespace monsoon
