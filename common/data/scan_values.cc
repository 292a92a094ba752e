#include "common/data/scan_values.h"

#include "common/data/source_kind.h"

namespace monsoon {

absl::Status ScanValues(const Dataset& dataset, const DataContext& context,
                        const DatasetInfo& info) {
  const SourceKind* const kind = FindSource(dataset.source_case());
  return kind == nullptr || kind->scan == nullptr ? absl::OkStatus()
                                                  : kind->scan(dataset, context, info);
}

}  // namespace monsoon
