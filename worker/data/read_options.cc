#include "worker/data/read_options.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/data/sample_shape.h"

namespace monsoon {

ReadOptions ReadOptions::Of(const Dataset& dataset, const DataContext& context) {
  return {.limit = dataset.limit(),
          .normalisation = {.mean = dataset.mean(),
                            .scale = dataset.scale() == 0 ? 1.0 : dataset.scale(),
                            .raw = dataset.raw()},
          .layout = dataset.layout(),
          .residence = dataset.residence(),
          .context = context};
}

uint64_t ReadOptions::Kept(uint64_t all) const { return limit == 0 ? all : std::min(limit, all); }

absl::Status CheckOrder(const std::string& path, std::span<const uint64_t> shape,
                        const ReadOptions& options) {
  const std::vector<uint32_t>& input = options.context.input_shape;
  const absl::Status status = CheckSampleShape(shape, options.layout, input);
  if (status.ok()) {
    return status;
  }
  const std::string hint = SampleShapeHint(shape, options.layout, input);
  return absl::InvalidArgumentError(
      absl::StrCat(path, ": ", status.message(), hint.empty() ? "" : "; ", hint));
}

}  // namespace monsoon
