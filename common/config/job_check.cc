#include "common/config/job_check.h"

#include <limits>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/config/model.h"
#include "common/config/optimizer_check.h"
#include "common/config/sandblaster_check.h"
#include "common/data/dataset_info.h"
#include "common/model/parameter_layout.h"

namespace monsoon {
namespace {

constexpr uint32_t kMaxBatch = 1 << 20;
constexpr uint32_t kMaxStripeKib = 1024;
// Seconds and epochs that no job reaches; catches slipped units and infinities.
constexpr double kMaxAmount = 1e9;

std::string ShapeText(const auto& shape) {
  return absl::StrCat("[", absl::StrJoin(shape, ", "), "]");
}

class JobCheck {
 public:
  JobCheck(const Job& job, Reporter* reporter) : job_(job), reporter_(reporter) {}

  void Run(bool check_data_files) {
    if (!job_.name().empty() && !IsValidName(job_.name())) {
      Error("name", absl::StrCat("\"", job_.name(), "\" is not a name"),
            "use up to 64 letters, digits, '_' and '-'");
    }
    // Where model_file could not be read, that is the error.
    std::optional<ParameterLayout> layout;
    if (job_.has_model()) {
      layout = CheckModel(job_.model(), "model", reporter_);
    } else if (job_.model_file().empty()) {
      Error("model", "the job has no model", "add model_file: \"...\" or model { ... }");
    }
    CheckBatch();
    CheckMode();
    CheckStop();
    CheckEvaluation();
    if (job_.stripe_kib() > kMaxStripeKib) {
      Error("stripe_kib", absl::StrCat(job_.stripe_kib(), " is more than ", kMaxStripeKib));
    }
    if (!DivergencePolicy::Action_IsValid(job_.divergence().action())) {
      Error("divergence.action", "unknown action");
    }
    if (!Job::Precision_IsValid(job_.compute_precision())) {
      Error("compute_precision", "unknown precision");
    }
    CheckScale("train", job_.train());
    CheckScale("test", job_.test());
    if (!job_.has_train() && !job_.sandblaster().has_synthetic()) {
      Error("train", "the job has no training data", "add train { idx { ... } }");
    }
    if (check_data_files) {
      CheckData(layout);
    } else {
      CheckSources();
    }
  }

 private:
  void Error(const std::string& field, const std::string& message,
             const std::string& suggestion = "") {
    reporter_->Error(field, message, suggestion);
  }

  void CheckBatch() {
    const uint32_t batch = job_.batch_size();
    if (batch == 0 && job_.sandblaster().has_synthetic()) {
      return;
    }
    if (batch == 0) {
      Error("batch_size", "must be at least 1", "as in batch_size: 64");
    } else if (batch > kMaxBatch) {
      Error("batch_size", absl::StrCat(batch, " is more than ", kMaxBatch));
    } else if (job_.block_examples() % batch != 0) {
      const uint64_t rounded = (uint64_t{job_.block_examples()} / batch + 1) * batch;
      Error("block_examples",
            absl::StrCat(job_.block_examples(), " is not a multiple of batch_size (", batch, ")"),
            absl::StrCat("write block_examples: ", rounded));
    }
    if (job_.evaluation().batch_size() > kMaxBatch) {
      Error("evaluation.batch_size",
            absl::StrCat(job_.evaluation().batch_size(), " is more than ", kMaxBatch));
    }
  }

  void CheckMode() {
    if (!job_.has_downpour() && !job_.has_sandblaster()) {
      Error("downpour", "the job has no mode",
            "add downpour { optimizer { ... } } or sandblaster { }");
    }
    if (job_.has_downpour()) {
      CheckDownpour(job_.downpour(), "downpour", reporter_);
    }
    if (job_.has_sandblaster()) {
      CheckSandblaster(job_, reporter_);
    }
  }

  // In [0, kMaxAmount]; false for NaN.
  void CheckAmount(const std::string& field, double value) {
    if (!(value >= 0.0 && value <= kMaxAmount)) {
      Error(field, absl::StrCat(value, " is outside 0 .. ", kMaxAmount));
    }
  }

  void CheckStop() {
    if (job_.has_sandblaster() && !job_.has_downpour()) {
      return;  // refused as a whole
    }
    const Stop& stop = job_.stop();
    CheckAmount("stop.epochs", stop.epochs());
    CheckAmount("stop.seconds", stop.seconds());
    const double target = stop.target_accuracy();
    if (!(target >= 0.0 && target <= 1.0)) {
      std::string suggestion;
      if (target > 1.0 && target <= 100.0) {
        suggestion = absl::StrCat("write target_accuracy: ", target / 100.0);
      }
      Error("stop.target_accuracy", absl::StrCat(target, " is outside (0, 1]"), suggestion);
      return;
    }
    const bool other_end = stop.epochs() != 0.0 || stop.steps() != 0 || stop.seconds() != 0.0;
    if (target == 0.0 && !other_end) {
      Error("stop", "the job would never end: it has no stop condition", "add stop { epochs: 10 }");
    }
    if (target > 0.0 && !job_.has_test()) {
      Error("stop.target_accuracy", "it needs test data to measure accuracy on",
            "add test { idx { ... } }");
    } else if (target > 0.0 && !other_end && job_.evaluation().every_epochs() == 0.0) {
      Error("stop.target_accuracy", "it is never checked: evaluation is only at the end",
            "add evaluation { every_epochs: 1 }");
    }
  }

  void CheckEvaluation() {
    CheckAmount("evaluation.every_epochs", job_.evaluation().every_epochs());
    if (job_.has_evaluation() && !job_.has_test()) {
      Error("evaluation", "there is no test data to evaluate on", "add test { idx { ... } }");
    }
  }

  void CheckScale(const std::string& field, const Dataset& data) {
    for (const auto& [name, value] : {std::pair<const char*, double>{".mean", data.mean()},
                                      std::pair<const char*, double>{".scale", data.scale()}}) {
      if (!(value >= -std::numeric_limits<float>::max() &&
            value <= std::numeric_limits<float>::max())) {
        Error(field + name, absl::StrCat(value, " is not a finite float32"));
      }
    }
    if (!(data.synthetic().noise() >= 0.0 &&
          data.synthetic().noise() <= std::numeric_limits<float>::max())) {
      Error(field + ".synthetic.noise",
            absl::StrCat(data.synthetic().noise(), " is not a finite number of at least 0"));
    }
  }

  // What can be said of the data sets without their files.
  void CheckSources() {
    for (const auto& [field, has, data] :
         {std::tuple<std::string, bool, const Dataset*>{"train", job_.has_train(), &job_.train()},
          std::tuple<std::string, bool, const Dataset*>{"test", job_.has_test(), &job_.test()}}) {
      if (has && (data->source_case() == Dataset::SOURCE_NOT_SET ||
                  data->source_case() == Dataset::kSynthetic)) {
        Describe(field, *data);
      }
    }
  }

  std::optional<DatasetInfo> Describe(const std::string& field, const Dataset& data) {
    std::vector<DatasetError> errors;
    absl::StatusOr<DatasetInfo> info = DescribeDataset(data, &errors);
    for (const DatasetError& error : errors) {
      Error(error.field.empty() ? field : JoinPath(field, error.field),
            std::string(error.status.message()));
    }
    return info.ok() ? std::optional(*std::move(info)) : std::nullopt;
  }

  void CheckData(const std::optional<ParameterLayout>& layout) {
    std::optional<DatasetInfo> train, test;
    if (job_.has_train()) {
      train = CheckOne("train", job_.train(), layout);
    }
    if (job_.has_test()) {
      test = CheckOne("test", job_.test(), layout);
    }
    if (train) {
      CheckExamples(job_, train->examples, reporter_);
    }
    if (train && test && !layout && train->sample_elements() != 0 && test->sample_elements() != 0 &&
        train->sample_elements() != test->sample_elements()) {
      Error("test", absl::StrCat("test samples are ", ShapeText(test->sample_shape),
                                 ", training samples are ", ShapeText(train->sample_shape)));
    }
  }

  std::optional<DatasetInfo> CheckOne(const std::string& field, const Dataset& data,
                                      const std::optional<ParameterLayout>& layout) {
    const std::optional<DatasetInfo> info = Describe(field, data);
    if (!info || !layout) {
      return info;
    }
    const std::vector<uint32_t>& input = layout->layers().front().input_shape;
    uint64_t inputs = 1;
    for (const uint32_t extent : input) {
      inputs *= extent;
    }
    const std::string source = data.source_case() == Dataset::kIdx   ? ".idx"
                               : data.source_case() == Dataset::kNpy ? ".npy"
                                                                     : ".synthetic";
    if (info->sample_elements() != 0 && info->sample_elements() != inputs) {
      Error(absl::StrCat(field, source, ".images"),
            absl::StrCat("samples are ", ShapeText(info->sample_shape), " (",
                         info->sample_elements(), " values), the model's input_shape is ",
                         ShapeText(input), " (", inputs, ")"));
    }
    const bool synthetic = data.source_case() == Dataset::kSynthetic;
    const std::string labels = absl::StrCat(field, source, synthetic ? ".classes" : ".labels");
    const absl::StatusOr<uint64_t> classes = CountClasses(data);
    if (!classes.ok()) {
      Error(labels, std::string(classes.status().message()));
    } else if (*classes > layout->output_units()) {
      Error(labels, absl::StrCat("there are ", *classes, " classes (labels 0 .. ", *classes - 1,
                                 "), the model has ", layout->output_units(), " outputs"));
    }
    return info;
  }

  const Job& job_;
  Reporter* reporter_;
};

}  // namespace

void CheckExamples(const Job& job, uint64_t examples, Reporter* reporter) {
  if (job.batch_size() > examples && job.batch_size() <= kMaxBatch) {
    reporter->Error("batch_size", absl::StrCat("a batch of ", job.batch_size(),
                                               " is larger than the training data of ", examples));
  }
  if (job.has_sandblaster() && !job.sandblaster().has_synthetic()) {
    CheckSandblasterBatch(job, examples, reporter);
  }
}

void CheckJob(const Job& job, bool check_data_files, Reporter* reporter) {
  JobCheck(job, reporter).Run(check_data_files);
}

}  // namespace monsoon
