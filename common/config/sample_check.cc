#include "common/config/sample_check.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/shorten.h"
#include "common/config/test_figures_check.h"
#include "common/data/class_order.h"
#include "common/data/number_text.h"
#include "common/data/sample_shape.h"

namespace monsoon {
namespace {

// How answers of the source that `field` names come to be labels.
std::string LabelsAdvice(const std::string& field) {
  if (absl::StrContains(field, ".npy.") || absl::StrContains(field, ".npz.")) {
    return "floats are targets; write labels as integers, labels.astype(numpy.int64)";
  }
  if (absl::StrContains(field, ".csv.")) {
    return "name the class's column in label, not in target";
  }
  return absl::StrContains(field, ".libsvm.") ? "leave out regression" : "give labels";
}

}  // namespace

bool SampleCheck::CheckShape(const std::string& samples, const Dataset& data,
                             const DatasetInfo& info) const {
  const std::vector<uint32_t>& input = layout_.layers().front().input_shape;
  if (info.sample_elements() == 0) {
    return true;  // as the model asks
  }
  const absl::Status shape = CheckSampleShape(info.sample_shape, data.layout(), input);
  if (shape.ok()) {
    return true;
  }
  std::string hint = SampleShapeHint(info.sample_shape, data.layout(), input);
  if (!info.feature_names.empty()) {
    constexpr size_t kShown = 200;
    hint = absl::StrCat("the features are the columns ",
                        Shorten(absl::StrJoin(info.feature_names, ", "), kShown),
                        "; list those that are meant: feature: [...]");
  }
  Error(samples, std::string(shape.message()), hint);
  return false;
}

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
  if (loss == MEAN_SQUARED_ERROR && job_.train().class_name_size() == 0) {
    const auto is_number = [](const std::string& word) { return IsFloat(word); };
    const auto number = std::ranges::find_if(info.class_names, is_number);
    if (number != info.class_names.end()) {
      Error(field,
            absl::StrCat("labels such as ", *number,
                         " are no class numbers, and so words that are numbered in their order"),
            "for MEAN_SQUARED_ERROR of numbers name their column in target");
      return;
    }
  }
  const absl::StatusOr<uint64_t> classes = count_classes();
  if (!classes.ok()) {
    Error(field, std::string(classes.status().message()));
    return;
  }
  const uint64_t told_apart = loss == BINARY_CROSS_ENTROPY && outputs == 1 ? 2 : outputs;
  if (loss != MEAN_SQUARED_ERROR && *classes > told_apart) {
    const std::string odd = OddClassName(info.class_names);
    Error(field,
          absl::StrCat("there are ", *classes, " classes (labels 0 .. ", *classes - 1,
                       odd.empty() ? "" : absl::StrCat("; numbers, and ", Quoted(odd)),
                       "), the model has ", outputs, outputs == 1 ? " output" : " outputs"),
          absl::StrCat(
              "give the last layer ", *classes, " outputs",
              *classes == told_apart + 1 ? ", or subtract 1 from labels that begin with 1" : ""));
  }
}

void SampleCheck::CheckTargets(const std::string& field, const DatasetInfo& info,
                               uint64_t wanted) const {
  const Loss loss = job_.model().loss();
  if (loss != BINARY_CROSS_ENTROPY && loss != MEAN_SQUARED_ERROR) {
    Error(field, "there are targets, the loss is of labels", LabelsAdvice(field));
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
