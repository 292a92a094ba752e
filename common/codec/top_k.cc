#include "common/codec/top_k.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status.h"

namespace monsoon {
namespace {

constexpr size_t kEntryBytes = sizeof(uint32_t) + sizeof(float);
// Magnitudes are first sorted by these upper bits: exponent and three more.
constexpr int kLowBits = 20;

// Ordered as the magnitudes; infinity and NaN come above all others.
uint32_t Magnitude(float value) { return std::bit_cast<uint32_t>(value) & 0x7fffffffu; }

// The k-th largest magnitude of `in`, and how many of exactly that one belong
// to the k largest.
struct Threshold {
  uint32_t magnitude = 0;
  size_t equals = 0;
};

Threshold FindThreshold(std::span<const float> in, size_t k) {
  std::array<uint32_t, 1u << (31 - kLowBits)> counts{};
  for (const float value : in) {
    ++counts[Magnitude(value) >> kLowBits];
  }
  size_t above = 0;
  size_t bin = counts.size() - 1;
  while (above + counts[bin] < k) {
    above += counts[bin--];
  }
  std::vector<uint32_t> candidates;
  candidates.reserve(counts[bin]);
  for (const float value : in) {
    if (Magnitude(value) >> kLowBits == bin) {
      candidates.push_back(Magnitude(value));
    }
  }
  const size_t rank = k - above;  // among them, from 1
  const auto at = candidates.begin() + static_cast<ptrdiff_t>(rank - 1);
  std::nth_element(candidates.begin(), at, candidates.end(), std::greater<>());
  const size_t larger = static_cast<size_t>(
      std::count_if(candidates.begin(), at, [at](uint32_t m) { return m > *at; }));
  return {*at, rank - larger};
}

}  // namespace

size_t TopKCodec::Count(size_t floats) const {
  const auto wanted = static_cast<size_t>(std::ceil(share_ * static_cast<double>(floats)));
  return std::clamp<size_t>(wanted, std::min<size_t>(floats, 1), floats);
}

size_t TopKCodec::EncodedBytes(size_t floats) const { return kEntryBytes * Count(floats); }

absl::Status TopKCodec::CheckLength(size_t bytes, size_t floats) const {
  const size_t most = std::max<size_t>(1, floats / 2 + floats % 2);
  if (bytes == 0 || bytes % kEntryBytes != 0 || bytes / kEntryBytes > most) {
    return absl::InvalidArgumentError(
        absl::StrCat(bytes, " bytes are not 1 to ", most, " entries of ", kEntryBytes));
  }
  return absl::OkStatus();
}

void TopKCodec::Encode(std::span<const float> in, std::span<std::byte> out) const {
  CHECK_EQ(out.size(), EncodedBytes(in.size()));
  const size_t k = Count(in.size());
  if (k == 0) {
    return;
  }
  const Threshold threshold = FindThreshold(in, k);
  std::byte* index = out.data();
  std::byte* entry = out.data() + k * sizeof(uint32_t);
  size_t equals = 0;
  for (size_t i = 0; i < in.size(); ++i) {
    const uint32_t magnitude = Magnitude(in[i]);
    if (magnitude < threshold.magnitude ||
        (magnitude == threshold.magnitude && equals++ >= threshold.equals)) {
      continue;
    }
    const auto at = static_cast<uint32_t>(i);
    std::memcpy(index, &at, sizeof(at));
    std::memcpy(entry, &in[i], sizeof(float));
    index += sizeof(at);
    entry += sizeof(float);
  }
  CHECK(entry == out.data() + out.size());
}

absl::Status TopKCodec::Decode(std::span<const std::byte> in, std::span<float> out) const {
  RETURN_IF_ERROR(CheckLength(in.size(), out.size()));
  const size_t k = in.size() / kEntryBytes;
  std::ranges::fill(out, 0.0f);
  uint64_t least = 0;  // that the next index may be
  for (size_t i = 0; i < k; ++i) {
    uint32_t index;
    std::memcpy(&index, in.data() + i * sizeof(index), sizeof(index));
    if (index < least || index >= out.size()) {
      return absl::InvalidArgumentError(absl::StrCat("entry ", i, " of ", k, " has index ", index,
                                                     "; indices ascend below ", out.size()));
    }
    least = uint64_t{index} + 1;
    std::memcpy(&out[index], in.data() + k * sizeof(index) + i * sizeof(float), sizeof(float));
  }
  return absl::OkStatus();
}

}  // namespace monsoon
