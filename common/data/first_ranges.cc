#include "common/data/first_ranges.h"

#include <algorithm>

#include "common/base/status.h"
#include "common/data/source_kind.h"

namespace monsoon {

absl::StatusOr<std::vector<ValueRange>> FirstRanges(const Dataset& dataset,
                                                    const DataContext& context,
                                                    const DatasetInfo& info, uint64_t samples) {
  const SourceKind* const kind = FindSource(dataset.source_case());
  const uint64_t values = info.sample_elements();
  std::vector<ValueRange> ranges;
  if (kind == nullptr || kind->first_values == nullptr || info.type == ElementType::kUint8 ||
      values == 0) {
    return ranges;
  }
  ranges.resize(values);
  uint64_t seen = 0;
  RETURN_IF_ERROR(
      kind->first_values(dataset, context, std::min(samples, info.examples), [&](double value) {
        ValueRange& range = ranges[seen % values];
        range.least = seen < values ? value : std::min(range.least, value);
        range.most = seen < values ? value : std::max(range.most, value);
        ++seen;
      }));
  return ranges;
}

}  // namespace monsoon
