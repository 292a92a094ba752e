#include "common/codec/top_k.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status.h"
#include "common/codec/largest.h"

namespace monsoon {
namespace {

constexpr size_t kEntryBytes = sizeof(uint32_t) + sizeof(float);

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
  std::byte* index = out.data();
  std::byte* entry = out.data() + k * sizeof(uint32_t);
  ForLargest(in, k, [&](size_t i) {
    const auto at = static_cast<uint32_t>(i);
    std::memcpy(index, &at, sizeof(at));
    std::memcpy(entry, &in[i], sizeof(float));
    index += sizeof(at);
    entry += sizeof(float);
  });
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
