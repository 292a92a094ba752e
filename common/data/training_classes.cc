#include "common/data/training_classes.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/shorten.h"
#include "common/base/status.h"
#include "common/data/source_kind.h"

namespace monsoon {
namespace {

// Bytes of a list of names.
constexpr size_t kShown = 200;

}  // namespace

absl::StatusOr<std::optional<std::vector<std::string>>> TrainingClasses(
    const Dataset& dataset, const DataContext& context) {
  if (!context.training || context.training->source_case() == dataset.source_case()) {
    return std::nullopt;
  }
  const Dataset& training = *context.training;
  if (training.source_case() == Dataset::SOURCE_NOT_SET || training.has_joiners()) {
    return std::nullopt;
  }
  std::vector<std::string> names(training.class_name().begin(), training.class_name().end());
  if (names.empty() && (training.has_csv() || training.has_image_folder())) {
    DataContext of_training = context;
    of_training.training.reset();
    of_training.unlabelled = false;
    Problems problems(nullptr);
    DatasetInfo info =
        FindSource(training.source_case())->describe(training, of_training, &problems);
    RETURN_IF_ERROR(problems.first());
    names = std::move(info.class_names);
  }
  const std::vector<std::string> own(dataset.class_name().begin(), dataset.class_name().end());
  if (!names.empty() && !own.empty() && own != names) {
    return absl::InvalidArgumentError(absl::StrCat(
        "class_name differs from the training set's classes ",
        Shorten(absl::StrJoin(names, ", "), kShown), "; leave it out, or give it to train too"));
  }
  return names;
}

}  // namespace monsoon
