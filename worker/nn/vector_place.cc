#include "worker/nn/vector_place.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "common/memory/aligned_floats.h"

namespace monsoon {
namespace {

class HostFloats : public PlacedFloats {
 public:
  explicit HostFloats(AlignedFloats floats)
      : PlacedFloats(floats.span()), floats_(std::move(floats)) {}

 private:
  AlignedFloats floats_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<PlacedFloats>> HostPlace::Allocate(size_t floats, float fill) {
  AlignedFloats made = AlignedFloats::Uninitialized(floats);
  made.Fill(fill);
  return std::make_unique<HostFloats>(std::move(made));
}

void HostPlace::Fill(std::span<float> to, float value) { std::ranges::fill(to, value); }

void HostPlace::Add(std::span<const float> from, std::span<float> to) {
  CHECK_EQ(from.size(), to.size());
  for (size_t i = 0; i < from.size(); ++i) {
    to[i] += from[i];
  }
}

void HostPlace::Copy(std::span<const float> from, std::span<float> to) {
  CHECK_EQ(from.size(), to.size());
  std::ranges::copy(from, to.begin());
}

void HostPlace::Apply(const OptimizerKernel& kernel, uint64_t k, std::span<float> w,
                      std::span<float> state, std::span<const float> g, std::span<float> moved,
                      bool fresh) {
  kernel.ApplyAndTell(k, w, state, g, moved, fresh);
}

}  // namespace monsoon
