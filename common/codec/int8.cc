#include "common/codec/int8.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "common/base/check.h"
#include "common/base/status.h"
#include "common/codec/block_quantiser.h"

namespace monsoon {
namespace {

constexpr float kSteps = 127.0f;

}  // namespace

size_t Int8Codec::EncodedBytes(size_t floats) const {
  return floats + sizeof(float) * Blocks(floats);
}

void Int8Codec::Encode(std::span<const float> in, std::span<std::byte> out) const {
  CHECK_EQ(out.size(), EncodedBytes(in.size()));
  std::byte* const scales = out.data();
  auto* const values = reinterpret_cast<int8_t*>(out.data() + sizeof(float) * Blocks(in.size()));
  for (size_t block = 0; block < Blocks(in.size()); ++block) {
    const size_t begin = block * kBlockFloats;
    const auto floats = in.subspan(begin, std::min(kBlockFloats, in.size() - begin));
    const float scale = QuantiseBlock(floats, kSteps, values + begin);
    std::memcpy(scales + block * sizeof(float), &scale, sizeof(scale));
  }
}

absl::Status Int8Codec::Decode(std::span<const std::byte> in, std::span<float> out) const {
  RETURN_IF_ERROR(CheckLength(in.size(), out.size()));
  const auto* const values =
      reinterpret_cast<const int8_t*>(in.data() + sizeof(float) * Blocks(out.size()));
  for (size_t block = 0; block < Blocks(out.size()); ++block) {
    float scale;
    std::memcpy(&scale, in.data() + block * sizeof(float), sizeof(scale));
    const size_t begin = block * kBlockFloats;
    const size_t end = std::min(out.size(), begin + kBlockFloats);
    for (size_t i = begin; i < end; ++i) {
      out[i] = scale * static_cast<float>(values[i]);
    }
  }
  return absl::OkStatus();
}

}  // namespace monsoon
