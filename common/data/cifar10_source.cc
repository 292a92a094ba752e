// CIFAR-10's binary version as a source.
#include "common/base/status.h"
#include "common/data/cifar10_records.h"
#include "common/data/source_kind.h"

namespace monsoon {
namespace {

DatasetInfo Describe(const Dataset& dataset, const DataContext& context, Problems* problems) {
  DatasetInfo info;
  if (dataset.cifar10().file().empty()) {
    problems->Add("cifar10.file", absl::InvalidArgumentError("no file is named"));
    return info;
  }
  const absl::StatusOr<std::vector<ContentFile>> files =
      OpenCifar10(dataset.cifar10(), context.access.roots);
  if (!files.ok()) {
    problems->Add("cifar10.file", files.status());
    return info;
  }
  for (const ContentFile& file : *files) {
    CheckResidence(dataset, file.path, file.compressed, problems);
  }
  info.examples = ContentBytes(*files) / kCifar10RecordBytes;
  info.sample_shape = {3, 32, 32};
  info.bytes = info.examples * kCifar10Values;
  info.type = dataset.raw() ? ElementType::kInteger : ElementType::kUint8;
  return info;
}

// Reads the files to the end.
absl::StatusOr<uint64_t> CountLabels(const Dataset& dataset, const DataContext& context) {
  ASSIGN_OR_RETURN(const std::vector<ContentFile> files,
                   OpenCifar10(dataset.cifar10(), context.access.roots));
  Cifar10Labels labels(files, context.access.quoting);
  RETURN_IF_ERROR(
      StreamContent(files, context.access.roots, 0, ContentBytes(files),
                    [&](std::span<const uint8_t> bytes) { return labels.Look(bytes); }));
  return labels.classes();
}

absl::Status Scan(const Dataset& dataset, const DataContext& context, const DatasetInfo&) {
  return CountLabels(dataset, context).status();
}

void VisitFiles(Dataset* dataset, absl::FunctionRef<void(std::string*)> visit) {
  visit(dataset->mutable_cifar10()->mutable_file());
}

}  // namespace

const SourceKind kCifar10SourceKind = {.source = Dataset::kCifar10,
                                       .name = "cifar10",
                                       .samples = "file",
                                       .labels = "file",
                                       .describe = &Describe,
                                       .count_classes = &CountLabels,
                                       .scan = &Scan,
                                       .visit_paths = &VisitFiles};

}  // namespace monsoon
