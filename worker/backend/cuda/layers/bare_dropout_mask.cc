// FillDropoutMask for builds without Abseil, where worker/nn/dropout_mask.cc
// does not compile: what the reference layers of the tests there compare with.
// kernels_test shows under Bazel that the two are equal.
#include "worker/backend/cuda/kernels/philox.h"
#include "worker/nn/dropout_mask.h"

namespace monsoon {

void FillDropoutMask(const StepKey& key, uint32_t layer, double rate, std::span<float> mask) {
  const cuda::DropoutLayer drawn{cuda::kDropoutStream | layer, static_cast<uint64_t>(rate * 0x1p32),
                                 static_cast<float>(1.0 / (1.0 - rate))};
  const size_t values = key.samples.empty() ? mask.size() : mask.size() / key.samples.size();
  for (size_t i = 0; i < mask.size(); ++i) {
    if (key.samples.empty()) {
      const uint64_t step = cuda::DropoutKey(key.seed, cuda::kDropoutStream | key.worker, key.step);
      mask[i] = cuda::DropoutFactor(drawn, step, drawn.stream, static_cast<uint32_t>(i));
    } else {
      const uint64_t sample =
          cuda::DropoutKey(key.seed, cuda::kSampleDropoutStream, key.samples[i / values]);
      mask[i] = cuda::DropoutFactor(drawn, sample, cuda::kSampleDropoutStream | layer,
                                    static_cast<uint32_t>(i % values));
    }
  }
}

}  // namespace monsoon
