#include "common/codec/top_k_2bit.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status.h"
#include "common/codec/largest.h"

namespace monsoon {
namespace {

constexpr int kIndexBits = 12;
constexpr size_t kChunkFloats = size_t{1} << kIndexBits;
constexpr size_t kMostEntries = kChunkFloats / 2;
constexpr uint32_t kHigh = 1u << kIndexBits;
constexpr uint32_t kNegative = kHigh << 1;
constexpr int kEntryBits = kIndexBits + 2;
constexpr uint32_t kInfinity = 0x7f800000u;

struct Levels {
  float low = 0;
  float high = 0;
};

// How many of a chunk's values are sent, where a whole chunk sends `whole`.
size_t Entries(size_t whole, size_t floats) {
  return (whole * floats + kChunkFloats - 1) / kChunkFloats;
}

size_t ChunkBytes(size_t entries) {
  return entries == 0 ? 0 : sizeof(Levels) + (entries * kEntryBits + 7) / 8;
}

size_t StripeBytes(size_t whole, size_t floats) {
  return floats / kChunkFloats * ChunkBytes(whole) +
         ChunkBytes(Entries(whole, floats % kChunkFloats));
}

// The least `whole` that gives so many bytes or more; kMostEntries at most. Where several
// give the same bytes they also give the same entries.
size_t FindWhole(size_t bytes, size_t floats) {
  size_t low = 1;
  size_t high = kMostEntries;
  while (low < high) {
    const size_t middle = (low + high) / 2;
    if (StripeBytes(middle, floats) < bytes) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

float Mean(double sum, size_t count) {
  return count == 0 ? 0.0f : static_cast<float>(sum / static_cast<double>(count));
}

struct Split {
  Levels levels;
  size_t low = 0;  // so many are low; fewer than all
};

// Of magnitudes in ascending order.
Split FindSplit(std::span<const uint32_t> sorted) {
  const auto value = [&](size_t i) { return double{std::bit_cast<float>(sorted[i])}; };
  const auto finite =
      static_cast<size_t>(std::ranges::lower_bound(sorted, kInfinity) - sorted.begin());
  double total = 0;
  for (size_t i = 0; i < finite; ++i) {
    total += value(i);
  }
  if (finite < sorted.size()) {
    return {{Mean(total, finite), std::bit_cast<float>(sorted.back())}, finite};
  }
  // The squared error is the sum of the squares less sum^2 / count of either part, so the
  // best split has the most of the latter. Equal values stay together.
  double most = total * total / static_cast<double>(finite);
  double below = 0;
  double low_sum = 0;
  size_t low = 0;
  for (size_t i = 1; i < finite; ++i) {
    below += value(i - 1);
    const double above = total - below;
    const double gain =
        below * below / static_cast<double>(i) + above * above / static_cast<double>(finite - i);
    if (sorted[i - 1] < sorted[i] && gain > most) {
      most = gain;
      low_sum = below;
      low = i;
    }
  }
  // Not total - low_sum, whose rounding could leave the range of the values.
  double high_sum = 0;
  for (size_t i = low; i < finite; ++i) {
    high_sum += value(i);
  }
  return {{Mean(low_sum, low), Mean(high_sum, finite - low)}, low};
}

// Bits from the lowest of the first byte on.
class BitWriter {
 public:
  explicit BitWriter(std::byte* out) : out_(out) {}

  void Write(uint32_t entry) {
    waiting_ |= entry << bits_;
    for (bits_ += kEntryBits; bits_ >= 8; bits_ -= 8) {
      *out_++ = static_cast<std::byte>(waiting_ & 0xff);
      waiting_ >>= 8;
    }
  }

  // The end of what was written, padded to a byte.
  std::byte* Finish() {
    if (bits_ > 0) {
      *out_++ = static_cast<std::byte>(waiting_);
    }
    return out_;
  }

 private:
  std::byte* out_;
  uint32_t waiting_ = 0;
  int bits_ = 0;  // of waiting_; below 8 between two calls
};

class BitReader {
 public:
  explicit BitReader(const std::byte* in) : in_(in) {}

  uint32_t Read() {
    for (; bits_ < kEntryBits; bits_ += 8) {
      waiting_ |= std::to_integer<uint32_t>(*in_++) << bits_;
    }
    const uint32_t entry = waiting_ & ((1u << kEntryBits) - 1);
    waiting_ >>= kEntryBits;
    bits_ -= kEntryBits;
    return entry;
  }

  // What is left of the last byte that was read.
  uint32_t Padding() const { return waiting_; }

 private:
  const std::byte* in_;
  uint32_t waiting_ = 0;
  int bits_ = 0;
};

// Returns the end of what it wrote.
std::byte* EncodeChunk(std::span<const float> in, size_t entries, std::byte* out) {
  std::array<uint16_t, kMostEntries> indices;
  std::array<uint32_t, kMostEntries> magnitudes;
  size_t count = 0;
  ForLargest(in, entries, [&](size_t i) {
    indices[count] = static_cast<uint16_t>(i);
    magnitudes[count++] = Magnitude(in[i]);
  });
  CHECK_EQ(count, entries);
  const std::span<uint32_t> sorted = std::span(magnitudes).first(entries);
  std::ranges::sort(sorted);
  const Split split = FindSplit(sorted);
  const uint32_t least_high = sorted[split.low];
  std::memcpy(out, &split.levels, sizeof(Levels));
  BitWriter writer(out + sizeof(Levels));
  for (size_t i = 0; i < entries; ++i) {
    const float value = in[indices[i]];
    writer.Write(indices[i] | (Magnitude(value) >= least_high ? kHigh : 0) |
                 (std::signbit(value) ? kNegative : 0));
  }
  return writer.Finish();
}

absl::Status DecodeChunk(const std::byte* in, size_t entries, std::span<float> out) {
  Levels levels;
  std::memcpy(&levels, in, sizeof(levels));
  // As in INT4, ones that are not finite are no error here: what they give is judged as
  // values are.
  if (levels.low < 0.0f || levels.high < 0.0f || levels.high < levels.low) {
    return absl::InvalidArgumentError(absl::StrCat("magnitudes ", levels.low, " and ", levels.high,
                                                   "; they are 0 or more and ascend"));
  }
  const std::array<float, 4> values = {levels.low, levels.high, -levels.low, -levels.high};
  BitReader reader(in + sizeof(levels));
  uint32_t least = 0;  // that the next index may be
  for (size_t i = 0; i < entries; ++i) {
    const uint32_t entry = reader.Read();
    const uint32_t index = entry % kChunkFloats;
    if (index < least || index >= out.size()) {
      return absl::InvalidArgumentError(absl::StrCat("entry ", i, " of ", entries, " has index ",
                                                     index, "; indices ascend below ", out.size()));
    }
    least = index + 1;
    out[index] = values[entry >> kIndexBits];
  }
  if (reader.Padding() != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("the last of ", entries, " entries is not followed by 0"));
  }
  return absl::OkStatus();
}

}  // namespace

TopK2BitCodec::TopK2BitCodec(double share)
    : whole_(std::clamp<size_t>(
          static_cast<size_t>(std::ceil(share * static_cast<double>(kChunkFloats))), 1,
          kMostEntries)) {}

size_t TopK2BitCodec::EncodedBytes(size_t floats) const { return StripeBytes(whole_, floats); }

absl::Status TopK2BitCodec::CheckLength(size_t bytes, size_t floats) const {
  if (const size_t next = StripeBytes(FindWhole(bytes, floats), floats); next != bytes) {
    return absl::InvalidArgumentError(absl::StrCat(bytes, " bytes are no whole entries in each of ",
                                                   (floats + kChunkFloats - 1) / kChunkFloats,
                                                   " chunks; ", next, " would be"));
  }
  return absl::OkStatus();
}

void TopK2BitCodec::Encode(std::span<const float> in, std::span<std::byte> out) const {
  CHECK_EQ(out.size(), EncodedBytes(in.size()));
  std::byte* end = out.data();
  for (size_t begin = 0; begin < in.size(); begin += kChunkFloats) {
    const auto chunk = in.subspan(begin, std::min(kChunkFloats, in.size() - begin));
    end = EncodeChunk(chunk, Entries(whole_, chunk.size()), end);
  }
  CHECK(end == out.data() + out.size());
}

absl::Status TopK2BitCodec::Decode(std::span<const std::byte> in, std::span<float> out) const {
  RETURN_IF_ERROR(CheckLength(in.size(), out.size()));
  const size_t whole = FindWhole(in.size(), out.size());
  std::ranges::fill(out, 0.0f);
  const std::byte* next = in.data();
  for (size_t begin = 0; begin < out.size(); begin += kChunkFloats) {
    const auto chunk = out.subspan(begin, std::min(kChunkFloats, out.size() - begin));
    const size_t entries = Entries(whole, chunk.size());
    if (const absl::Status status = DecodeChunk(next, entries, chunk); !status.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat("chunk ", begin / kChunkFloats, ": ", status.message()));
    }
    next += ChunkBytes(entries);
  }
  return absl::OkStatus();
}

}  // namespace monsoon
