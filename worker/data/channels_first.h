// Turns samples of [height, width, channels] into [channels, height, width].
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace monsoon {

// `samples` holds whole samples of `pixels` * `channels` values, which are
// reordered in place, one sample at a time.
void ToChannelsFirst(size_t pixels, size_t channels, std::vector<uint8_t>* samples);
void ToChannelsFirst(size_t pixels, size_t channels, std::vector<float>* samples);

}  // namespace monsoon
