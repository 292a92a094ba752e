// Turns samples of [height, width, channels] into [channels, height, width].
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace monsoon {

// `samples` holds whole samples of `pixels` * `channels` values, which are
// reordered in place, one sample at a time.
void ToChannelsFirst(size_t pixels, size_t channels, std::span<uint8_t> samples);
void ToChannelsFirst(size_t pixels, size_t channels, std::span<float> samples);

}  // namespace monsoon
