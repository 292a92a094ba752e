#include "common/data/dataset_info.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/data/source_kind.h"

namespace monsoon {
namespace {

absl::StatusOr<const SourceKind*> KindOf(const Dataset& dataset) {
  if (dataset.source_case() == Dataset::SOURCE_NOT_SET) {
    return absl::InvalidArgumentError(absl::StrCat("names no source: set one of ", SourceNames()));
  }
  const SourceKind* const kind = FindSource(dataset.source_case());
  if (kind == nullptr) {
    return absl::UnimplementedError(
        absl::StrCat("this source is not built in; there are ", SourceNames()));
  }
  return kind;
}

}  // namespace

uint64_t DatasetInfo::sample_elements() const {
  uint64_t elements = sample_shape.empty() ? 0 : 1;
  for (const uint64_t length : sample_shape) {
    elements *= length;
  }
  return elements;
}

absl::StatusOr<DatasetInfo> DescribeDataset(const Dataset& dataset, const DataContext& context,
                                            std::vector<DatasetError>* errors) {
  Problems problems(errors);
  const absl::StatusOr<const SourceKind*> kind = KindOf(dataset);
  if (!kind.ok()) {
    problems.Add("", kind.status());
    return kind.status();
  }
  DatasetInfo info = (*kind)->describe(dataset, context, &problems);
  RETURN_IF_ERROR(problems.first());
  if (dataset.limit() != 0) {
    info.examples = std::min<uint64_t>(info.examples, dataset.limit());
  }
  return info;
}

absl::StatusOr<uint64_t> CountClasses(const Dataset& dataset, const DataContext& context) {
  ASSIGN_OR_RETURN(const SourceKind* const kind, KindOf(dataset));
  return kind->count_classes(dataset, context);
}

bool HasFiles(const Dataset& dataset) {
  const SourceKind* const kind = FindSource(dataset.source_case());
  return kind != nullptr && kind->visit_paths != nullptr;
}

void VisitPaths(Dataset* dataset, absl::FunctionRef<void(std::string*)> visit) {
  const SourceKind* const kind = FindSource(dataset->source_case());
  if (kind != nullptr && kind->visit_paths != nullptr) {
    kind->visit_paths(dataset, visit);
  }
}

}  // namespace monsoon
