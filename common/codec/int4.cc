#include "common/codec/int4.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status.h"
#include "common/codec/block_quantiser.h"

namespace monsoon {
namespace {

constexpr int kSteps = 7;

using Block = std::array<int8_t, kBlockFloats>;

size_t Pairs(size_t floats) { return floats / 2 + floats % 2; }

// The loops below vectorise: bytes on both sides, no branches.

void Pack(const Block& q, size_t pairs, uint8_t* out) {
  for (size_t i = 0; i < pairs; ++i) {
    out[i] = static_cast<uint8_t>((q[2 * i] & 0x0f) | (q[2 * i + 1] << 4));
  }
}

void Unpack(const uint8_t* in, size_t pairs, Block* q) {
  // (x ^ 8) - 8 extends the sign of a half.
  for (size_t i = 0; i < pairs; ++i) {
    (*q)[2 * i] = static_cast<int8_t>(((in[i] & 0x0f) ^ 0x08) - 0x08);
    (*q)[2 * i + 1] = static_cast<int8_t>(((in[i] >> 4) ^ 0x08) - 0x08);
  }
}

int8_t Least(const Block& q, size_t values) {
  int8_t least = 0;
  for (size_t i = 0; i < values; ++i) {
    least = std::min(least, q[i]);
  }
  return least;
}

}  // namespace

size_t Int4Codec::EncodedBytes(size_t floats) const {
  return sizeof(float) * Blocks(floats) + Pairs(floats);
}

void Int4Codec::Encode(std::span<const float> in, std::span<std::byte> out) const {
  CHECK_EQ(out.size(), EncodedBytes(in.size()));
  std::byte* const scales = out.data();
  auto* const pairs = reinterpret_cast<uint8_t*>(out.data() + sizeof(float) * Blocks(in.size()));
  for (size_t block = 0; block < Blocks(in.size()); ++block) {
    const size_t begin = block * kBlockFloats;
    const auto floats = in.subspan(begin, std::min(kBlockFloats, in.size() - begin));
    Block q{};
    const float scale = QuantiseBlock(floats, kSteps, q.data());
    std::memcpy(scales + block * sizeof(float), &scale, sizeof(scale));
    Pack(q, Pairs(floats.size()), pairs + begin / 2);
  }
}

absl::Status Int4Codec::Decode(std::span<const std::byte> in, std::span<float> out) const {
  RETURN_IF_ERROR(CheckLength(in.size(), out.size()));
  if (out.size() % 2 != 0 && (in.back() >> 4) != std::byte{0}) {
    return absl::InvalidArgumentError(
        absl::StrCat("the last of ", out.size(), " values is not followed by 0"));
  }
  const auto* const pairs =
      reinterpret_cast<const uint8_t*>(in.data() + sizeof(float) * Blocks(out.size()));
  Block q{};
  for (size_t block = 0; block < Blocks(out.size()); ++block) {
    float scale;
    std::memcpy(&scale, in.data() + block * sizeof(float), sizeof(scale));
    // One that is not finite tells of a gradient that is not: what it gives is judged as
    // values are, as in every format.
    if (scale < 0.0f) {
      return absl::InvalidArgumentError(absl::StrCat("block ", block, " has scale ", scale));
    }
    const size_t begin = block * kBlockFloats;
    const auto floats = out.subspan(begin, std::min(kBlockFloats, out.size() - begin));
    Unpack(pairs + begin / 2, Pairs(floats.size()), &q);
    if (Least(q, floats.size()) < -kSteps) {
      return absl::InvalidArgumentError(
          absl::StrCat("block ", block, " has a value of -8 scales; -", kSteps, " is the least"));
    }
    for (size_t i = 0; i < floats.size(); ++i) {
      floats[i] = scale * static_cast<float>(q[i]);
    }
  }
  return absl::OkStatus();
}

}  // namespace monsoon
