#include "common/config/sample_check.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/config/test_figures_check.h"

namespace monsoon {

void SampleCheck::CheckIds(const std::string& set, const std::string& samples, const Dataset& data,
                           const DatasetInfo& info) const {
  if (std::ranges::none_of(job_.model().layer(), &Layer::has_embedding)) {
    return;
  }
  if (data.has_synthetic()) {
    Error(samples, "made samples are Gaussian, an embedding reads ids", "name files of ids");
  } else if (info.type == ElementType::kUint8) {
    Error(samples, "bytes are divided by 255, an embedding reads ids", "add raw: true");
  } else if (data.mean() != 0.0 || (data.scale() != 0.0 && data.scale() != 1.0)) {
    Error(set, "mean and scale change ids, which an embedding reads", "leave them out");
  } else if (job_.standardise()) {
    Error("standardise", "it changes ids, which an embedding reads", "leave it out");
  }
}

void SampleCheck::CheckAnswers(const std::string& field, const DatasetInfo& info,
                               absl::FunctionRef<absl::StatusOr<uint64_t>()> count_classes) const {
  const std::vector<uint32_t>& output = layout_.layers().back().output_shape;
  const uint64_t steps = output.size() == 2 ? output[0] : 1;
  const uint64_t outputs = layout_.output_units();
  const Loss loss = job_.model().loss();
  if (info.targets > 0) {
    CheckTargets(field, info, steps * outputs);
    return;
  }
  if (info.labels != steps) {
    Error(field,
          absl::StrCat("there are ", info.labels, " labels a sample, the model has ", steps));
    return;
  }
  if (loss == MEAN_SQUARED_ERROR && outputs > 1) {
    Error(field, absl::StrCat("there are labels, MEAN_SQUARED_ERROR of ", outputs,
                              " outputs needs as many targets a sample"));
    return;
  }
  const absl::StatusOr<uint64_t> classes = count_classes();
  if (!classes.ok()) {
    Error(field, std::string(classes.status().message()));
    return;
  }
  const uint64_t told_apart = loss == BINARY_CROSS_ENTROPY && outputs == 1 ? 2 : outputs;
  if (loss != MEAN_SQUARED_ERROR && *classes > told_apart) {
    Error(field, absl::StrCat("there are ", *classes, " classes (labels 0 .. ", *classes - 1,
                              "), the model has ", outputs, " outputs"));
  }
}

void SampleCheck::CheckTargets(const std::string& field, const DatasetInfo& info,
                               uint64_t wanted) const {
  const Loss loss = job_.model().loss();
  if (loss != BINARY_CROSS_ENTROPY && loss != MEAN_SQUARED_ERROR) {
    Error(field, "there are targets, the loss is of labels", "give them");
  } else if (info.targets != wanted) {
    Error(field, absl::StrCat("there are ", info.targets, " targets a sample, the model has ",
                              wanted, " outputs"));
  } else if (job_.model().loss_settings().class_weight_size() > 0) {
    Error(field, "there are targets, loss_settings.class_weight is of labels",
          "give labels, or a weight for each sample");
  } else if (loss == BINARY_CROSS_ENTROPY && wanted > 1 && absl::StartsWith(field, "test")) {
    RefuseAccuracies(job_, "several targets a sample tell no accuracy", reporter_);
  }
}

}  // namespace monsoon
