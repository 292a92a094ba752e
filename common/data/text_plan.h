// Which bytes the samples of a text are (TextFiles of proto/dataset.proto).
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "common/data/content_files.h"
#include "common/data/data_context.h"
#include "proto/dataset.pb.h"

namespace monsoon {

struct TextPlan {
  std::vector<ContentFile> files;
  // Of all files' bytes: [begin, end).
  uint64_t begin = 0;
  uint64_t end = 0;
  uint64_t window = 0;        // ids of a sample; the labels are the bytes behind each
  uint64_t sample_bytes = 0;  // both: window + 1, or window where nobody knows labels
  uint64_t stride = 0;        // sample i begins at begin + i * stride
  uint64_t samples = 0;

  uint64_t bytes() const { return end - begin; }
};

// InvalidArgument where there is no window, the share is not within [0, 1], or the text is too
// short for one sample or has 2^32 of them; both numbers are told.
absl::StatusOr<TextPlan> PlanText(const TextFiles& source, const DataContext& context);

}  // namespace monsoon
