#include "worker/data/channels_first.h"

#include <algorithm>
#include <vector>

#include "common/base/check.h"

namespace monsoon {
namespace {

template <typename T>
void Reorder(size_t pixels, size_t channels, std::span<T> samples) {
  const size_t values = pixels * channels;
  CHECK(values > 0 && samples.size() % values == 0);
  std::vector<T> sample(values);
  for (auto begin = samples.begin(); begin != samples.end();
       begin += static_cast<ptrdiff_t>(values)) {
    std::copy_n(begin, values, sample.begin());
    for (size_t channel = 0; channel < channels; ++channel) {
      for (size_t pixel = 0; pixel < pixels; ++pixel) {
        begin[static_cast<ptrdiff_t>(channel * pixels + pixel)] =
            sample[pixel * channels + channel];
      }
    }
  }
}

}  // namespace

void ToChannelsFirst(size_t pixels, size_t channels, std::span<uint8_t> samples) {
  Reorder(pixels, channels, samples);
}

void ToChannelsFirst(size_t pixels, size_t channels, std::span<float> samples) {
  Reorder(pixels, channels, samples);
}

}  // namespace monsoon
