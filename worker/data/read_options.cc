#include "worker/data/read_options.h"

#include <span>

#include "absl/strings/str_cat.h"
#include "common/data/sample_shape.h"

namespace monsoon {

absl::Status CheckOrder(const std::string& path, const std::vector<uint64_t>& shape,
                        const ReadOptions& options) {
  const std::span<const uint64_t> sample = std::span(shape).subspan(1);
  const absl::Status status = CheckSampleShape(sample, options.layout, options.input_shape);
  if (status.ok()) {
    return status;
  }
  const std::string hint = SampleShapeHint(sample, options.layout, options.input_shape);
  return absl::InvalidArgumentError(
      absl::StrCat(path, ": ", status.message(), hint.empty() ? "" : "; ", hint));
}

}  // namespace monsoon
