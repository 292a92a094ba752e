#include "common/data/image_folder_source.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/status.h"
#include "common/data/class_order.h"
#include "common/data/source_kind.h"
#include "common/data/training_classes.h"

namespace monsoon {
namespace {

constexpr char kOnDisk[] = "images are decoded once, and then kept in memory";

DatasetInfo Describe(const Dataset& dataset, const DataContext& context, Problems* problems) {
  DatasetInfo info;
  const absl::StatusOr<std::vector<uint32_t>> shape = ImageShape(context.input_shape);
  if (!shape.ok()) {
    problems->Add("image_folder", shape.status());
  }
  if (dataset.image_folder().path().empty()) {
    problems->Add("image_folder.path", absl::InvalidArgumentError("no folder is named"));
    return info;
  }
  if (dataset.residence() == Dataset::ON_DISK) {
    problems->Add("residence", absl::InvalidArgumentError(kOnDisk));
  }
  absl::StatusOr<ImageFolder> folder = ListImages(dataset, context);
  if (!folder.ok()) {
    problems->Add("image_folder.path", folder.status());
  }
  if (!problems->first().ok()) {
    return info;
  }
  info.examples = folder->files.size();
  info.sample_shape.assign(context.input_shape.begin(), context.input_shape.end());
  info.classes = static_cast<uint32_t>(folder->class_names.size());
  info.class_names = std::move(folder->class_names);
  info.bytes = info.examples * context.input_values();
  info.type = dataset.raw() ? ElementType::kInteger : ElementType::kUint8;
  return info;
}

absl::StatusOr<uint64_t> CountFolders(const Dataset& dataset, const DataContext& context) {
  ASSIGN_OR_RETURN(const ImageFolder folder, ListImages(dataset, context));
  return folder.class_names.size();
}

// Decodes them all.
absl::Status Scan(const Dataset& dataset, const DataContext& context, const DatasetInfo&) {
  ASSIGN_OR_RETURN(const ImageFolder folder, ListImages(dataset, context));
  ASSIGN_OR_RETURN(const std::vector<uint32_t> shape, ImageShape(context.input_shape));
  std::vector<uint8_t> pixels(context.input_values());
  absl::Status first;
  size_t wrong = 0;
  for (const std::string& file : folder.files) {
    const absl::Status read = ReadImage(file, context.access.roots, shape, pixels);
    if (!read.ok() && wrong++ == 0) {
      first = read;
    }
  }
  if (wrong < 2) {
    return first;
  }
  return Annotate(
      first, absl::StrCat(wrong, " of ", folder.files.size(), " images cannot be read, the first"));
}

void VisitFolder(Dataset* dataset, absl::FunctionRef<void(std::string*)> visit) {
  visit(dataset->mutable_image_folder()->mutable_path());
}

}  // namespace

absl::StatusOr<ImageFolder> ListImages(const Dataset& dataset, const DataContext& context) {
  if (context.unlabelled) {
    return ListUnlabelledImages(dataset.image_folder().path(), dataset.limit(),
                                context.access.roots);
  }
  std::vector<std::string> names(dataset.class_name().begin(), dataset.class_name().end());
  if (context.training && context.training->has_image_folder()) {
    DataContext of_training = context;
    of_training.training.reset();
    ASSIGN_OR_RETURN(ImageFolder folder, ListImages(*context.training, of_training));
    if (!names.empty() && names != folder.class_names) {
      return absl::InvalidArgumentError(absl::StrCat(
          dataset.image_folder().path(), ": class_name differs from the training set's classes ",
          absl::StrJoin(folder.class_names, ", "), "; leave it out, or give it to train too"));
    }
    names = std::move(folder.class_names);
  }
  absl::StatusOr<std::optional<std::vector<std::string>>> classes =
      TrainingClasses(dataset, context);
  if (!classes.ok()) {
    return Annotate(classes.status(), dataset.image_folder().path());
  }
  if (classes->has_value() && !(*classes)->empty()) {
    names = *std::move(*classes);
  } else if (classes->has_value() && names.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(dataset.image_folder().path(),
                     ": its folders are classes by name, the training set's labels are numbers; "
                     "class_name: [...] of train says which is which"));
  }
  if (names.empty()) {
    ASSIGN_OR_RETURN(names, ClassFolders(dataset.image_folder().path(), context.access.roots));
    if (dataset.class_order() == Dataset::UNTOLD) {
      RETURN_IF_ERROR(Annotate(CheckSameOrderBefore(names), dataset.image_folder().path()));
    }
    SortClassNames(&names);
  }
  return ListImages(dataset.image_folder(), names, dataset.limit(), context.access.roots);
}

const SourceKind kImageFolderSourceKind = {.source = Dataset::kImageFolder,
                                           .name = "image_folder",
                                           .samples = "path",
                                           .labels = "path",
                                           .describe = &Describe,
                                           .count_classes = &CountFolders,
                                           .scan = &Scan,
                                           .visit_paths = &VisitFolder};

}  // namespace monsoon
