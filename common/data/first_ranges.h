// What the first samples of a data set hold: enough to see that its features differ in scale.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "common/data/data_context.h"
#include "common/data/dataset_info.h"
#include "proto/dataset.pb.h"

namespace monsoon {

struct ValueRange {
  double least = 0.0;
  double most = 0.0;

  double span() const { return most - least; }
};

// Of each value of a sample, as the files hold it, over at most `samples` samples. `info` is what
// DescribeDataset said. Empty for a source whose samples have no values in files, or one (bytes,
// images) whose values are all alike. Blocks on the disk; errors as of a scan.
absl::StatusOr<std::vector<ValueRange>> FirstRanges(const Dataset& dataset,
                                                    const DataContext& context,
                                                    const DatasetInfo& info, uint64_t samples);

}  // namespace monsoon
