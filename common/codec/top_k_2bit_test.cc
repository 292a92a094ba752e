// TOP_K_2BIT through TensorCodec, as its users have it.
#include <algorithm>
#include <cfloat>
#include <cmath>
#include <cstring>
#include <initializer_list>
#include <limits>
#include <numeric>
#include <vector>

#include "common/base/random.h"
#include "common/codec/tensor_codec.h"
#include "common/testing/status_matchers.h"

namespace monsoon {
namespace {

using ::testing::HasSubstr;
using testing::StatusIs;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr size_t kChunk = 4096;

std::unique_ptr<TensorCodec> Codec(double share) {
  auto codec = TensorCodec::Create(TOP_K_2BIT, share);
  EXPECT_TRUE(codec.ok()) << codec.status();
  return *std::move(codec);
}

std::vector<std::byte> Encoded(const TensorCodec& codec, const std::vector<float>& in) {
  // Not zeros: every byte is written.
  std::vector<std::byte> bytes(codec.EncodedBytes(in.size()), std::byte{0xa5});
  codec.Encode(in, bytes);
  return bytes;
}

std::vector<float> Decoded(const std::vector<std::byte>& bytes, size_t floats) {
  std::vector<float> out(floats, -1.0f);
  EXPECT_OK(TensorCodec::Find(TOP_K_2BIT)->Decode(bytes, out));
  return out;
}

std::vector<float> RoundTrip(double share, const std::vector<float>& in) {
  return Decoded(Encoded(*Codec(share), in), in.size());
}

absl::Status Refusal(const std::vector<std::byte>& bytes, size_t floats) {
  std::vector<float> out(floats);
  return TensorCodec::Find(TOP_K_2BIT)->Decode(bytes, out);
}

std::vector<std::byte> Bytes(std::initializer_list<int> values) {
  std::vector<std::byte> bytes;
  for (const int value : values) bytes.push_back(static_cast<std::byte>(value));
  return bytes;
}

// A record of one chunk, bit after bit.
std::vector<std::byte> Record(float low, float high, const std::vector<uint32_t>& entries,
                              bool padding = false) {
  std::vector<std::byte> bytes(8 + (14 * entries.size() + 7) / 8);
  std::memcpy(bytes.data(), &low, sizeof(low));
  std::memcpy(bytes.data() + 4, &high, sizeof(high));
  for (size_t bit = 0; bit < 8 * (bytes.size() - 8); ++bit) {
    const bool set = bit < 14 * entries.size() ? (entries[bit / 14] >> bit % 14 & 1) != 0 : padding;
    if (set) bytes[8 + bit / 8] |= static_cast<std::byte>(1 << bit % 8);
  }
  return bytes;
}

std::vector<float> Normal(size_t n, uint64_t seed) {
  const PhiloxStream stream(seed, StreamKind::kTest);
  std::vector<float> values(n);
  for (size_t i = 0; i < n; ++i) values[i] = stream.Normal(i);
  return values;
}

// Signs, and sizes over forty powers of two.
std::vector<float> Wild(size_t n, uint64_t seed) {
  const PhiloxStream stream(seed, StreamKind::kTest);
  std::vector<float> values = Normal(n, seed);
  for (size_t i = 0; i < n; ++i) {
    values[i] = std::ldexp(values[i], static_cast<int>(stream.Below(2 * n + i, 40)) - 25);
  }
  return values;
}

// The indices of the k largest, of equals the first.
std::vector<size_t> Largest(const std::vector<float>& in, size_t k) {
  std::vector<size_t> order(in.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order,
                           [&](size_t a, size_t b) { return std::fabs(in[a]) > std::fabs(in[b]); });
  order.resize(k);
  return order;
}

// Of the magnitudes from `begin` to `end`, around their mean.
double SquaredError(const std::vector<double>& magnitudes, size_t begin, size_t end) {
  double mean = 0, error = 0;
  for (size_t i = begin; i < end; ++i) mean += magnitudes[i] / static_cast<double>(end - begin);
  for (size_t i = begin; i < end; ++i) error += (magnitudes[i] - mean) * (magnitudes[i] - mean);
  return error;
}

// The least that two magnitudes can lose of what is sent: every split, one after the other.
double LeastSquaredError(const std::vector<float>& in, const std::vector<size_t>& sent) {
  std::vector<double> magnitudes;
  for (const size_t i : sent) magnitudes.push_back(std::fabs(double{in[i]}));
  double least = SquaredError(magnitudes, 0, magnitudes.size());
  for (size_t split = 1; split < magnitudes.size(); ++split) {
    least = std::min(least, SquaredError(magnitudes, 0, split) +
                                SquaredError(magnitudes, split, magnitudes.size()));
  }
  return least;
}

TEST(TopK2BitTest, KnownBytes) {
  const auto codec = Codec(0.5);
  // Of 3, 1, 4 and 5, and the first 1: {1} and {3, 4, 5} lose 2, {1, 3} and {4, 5} 2.5.
  const std::vector<float> eight = {0.5, -3, 1, 0, 4, -1, 0.25, 5};
  const std::vector<std::byte> bytes = Encoded(*codec, eight);
  EXPECT_EQ(bytes, Bytes({0, 0, 0x80, 0x3f, 0, 0, 0x80, 0x40,  //
                          0x01, 0xb0, 0x00, 0x40, 0x00, 0x1d, 0x40}));
  EXPECT_EQ(bytes, Record(1, 4, {0x3001, 0x0002, 0x1004, 0x1007}));
  EXPECT_EQ(Decoded(bytes, 8), (std::vector<float>{0, -4, 1, 0, 4, 0, 0, 4}));
  EXPECT_EQ(Encoded(*codec, {-2.5}), Record(0, 2.5, {0x3000}));
  // Two chunks of one entry each, and two bits of padding.
  std::vector<float> in(kChunk + 2, 0.0f);
  in[kChunk - 1] = -2;
  in[kChunk + 1] = 0.5;
  EXPECT_EQ(Encoded(*Codec(1e-9), in), Bytes({0, 0, 0, 0, 0, 0, 0, 0x40, 0xff, 0x3f,  //
                                              0, 0, 0, 0, 0, 0, 0, 0x3f, 0x01, 0x10}));
  EXPECT_EQ(RoundTrip(1e-9, in), in);
}

TEST(TopK2BitTest, SizesAreAsDeclared) {
  // 14 bits of 1/64 of the values, and 8 bytes, of each 4096: 0.0293 bytes a value.
  EXPECT_EQ(Codec(1.0 / 64)->EncodedBytes(kChunk), 120u);
  EXPECT_EQ(Codec(1.0 / 64)->EncodedBytes(64 * kChunk), 64 * 120u);
  EXPECT_EQ(Codec(1.0 / 64)->EncodedBytes(kChunk + 65), 120u + 12);  // 2 entries
  EXPECT_EQ(Codec(0.01)->EncodedBytes(kChunk), 8u + 72);             // 41 entries
  EXPECT_EQ(Codec(0.5)->EncodedBytes(kChunk), 8u + 3584);
  EXPECT_EQ(Codec(1e-9)->EncodedBytes(1), 10u);
  EXPECT_EQ(Codec(0.5)->EncodedBytes(0), 0u);
}

// Which values, and with the least error that two magnitudes allow.
TEST(TopK2BitTest, EqualsASortAndEverySplit) {
  for (const size_t n : {1u, 2u, 10u, 999u, 4095u, 4096u, 4097u, 10000u}) {
    for (const size_t whole : {1u, 5u, 64u, 1000u, 2048u}) {
      for (const bool normal : {false, true}) {
        std::vector<float> in = normal ? Normal(n, n) : Wild(n, n);
        for (size_t i = 0; i < n; i += 3) in[i] = i % 2 == 0 ? 1.5f : -1.5f;  // many equals
        const std::vector<float> out = RoundTrip(static_cast<double>(whole) / kChunk, in);
        for (size_t begin = 0; begin < n; begin += kChunk) {
          const auto from = static_cast<ptrdiff_t>(begin);
          const auto to = static_cast<ptrdiff_t>(std::min(n, begin + kChunk));
          const std::vector<float> chunk(in.begin() + from, in.begin() + to);
          const size_t k = (whole * chunk.size() + kChunk - 1) / kChunk;
          const std::vector<size_t> sent = Largest(chunk, k);
          std::vector<float> rest(out.begin() + from, out.begin() + to);
          double error = 0;
          for (const size_t i : sent) {
            ASSERT_GT(rest[i] * chunk[i], 0.0f) << "the sign of " << begin + i;
            error += std::pow(double{rest[i]} - chunk[i], 2);
            rest[i] = 0;
          }
          ASSERT_EQ(rest, std::vector<float>(chunk.size(), 0.0f));
          const double largest = std::fabs(chunk[sent[0]]);
          ASSERT_LE(error, LeastSquaredError(chunk, sent) * (1 + 1e-6) +
                               1e-12 * largest * largest * static_cast<double>(k))
              << n << " values, " << whole << " of a chunk";
        }
      }
    }
  }
}

TEST(TopK2BitTest, TwoMagnitudesArriveAsTheyAre) {
  std::vector<float> in(1000, 0.0f);
  for (size_t i = 0; i < in.size(); i += 4) in[i] = i % 8 == 0 ? 0.1f : -7e-6f;
  EXPECT_EQ(RoundTrip(0.25, in), in);
  in.assign(100, -0.3f);
  const std::vector<float> out = RoundTrip(0.5, in);
  EXPECT_EQ(std::ranges::count(out, -0.3f), 50);
}

TEST(TopK2BitTest, TheSameValuesGiveTheSameBytes) {
  const std::vector<float> in = Wild(9000, 5);
  const auto first = Encoded(*Codec(0.03), in);
  EXPECT_EQ(Encoded(*Codec(0.03), in), first);
  // Not shares of their own: both are rounded up to 123 of 4096.
  EXPECT_EQ(Encoded(*Codec(123.0 / 4096), in), first);
}

TEST(TopK2BitTest, ZerosTinyHugeAndNotFinite) {
  EXPECT_EQ(RoundTrip(0.5, {0, 0, 0}), (std::vector<float>{0, 0, 0}));
  EXPECT_EQ(RoundTrip(0.5, {1e-45f, 0, 0}), (std::vector<float>{1e-45f, 0, 0}));
  EXPECT_EQ(RoundTrip(0.5, {FLT_MAX, -FLT_MAX, 1, 0}),
            (std::vector<float>{FLT_MAX, -FLT_MAX, 0, 0}));
  std::vector<float> huge(kChunk, FLT_MAX);
  for (size_t i = 1; i < kChunk; ++i) huge[i] = std::nextafter(huge[i - 1], 0.0f);
  for (const float value : RoundTrip(0.5, huge)) ASSERT_TRUE(std::isfinite(value));
  for (const float bad : {kInf, -kInf, std::nanf(""), -std::nanf("")}) {
    for (const double share : {1e-9, 0.01, 0.5}) {
      std::vector<float> in(2 * kChunk, 1e30f);
      in[kChunk + 70] = bad;
      const std::vector<float> out = RoundTrip(share, in);
      for (size_t i = 0; i < in.size(); ++i) {
        ASSERT_EQ(std::isfinite(out[i]), i != kChunk + 70) << i;
      }
    }
  }
  // With none that is finite, and through the residual.
  const auto codec = Codec(0.5);
  std::vector<float> residual(4, 0.0f), scratch(4);
  std::vector<std::byte> bytes(codec->EncodedBytes(4));
  codec->EncodeWithFeedback(std::vector<float>{kInf, std::nanf(""), -kInf, 1}, residual, scratch,
                            bytes);
  EXPECT_EQ(std::ranges::count_if(Decoded(bytes, 4), [](float x) { return !std::isfinite(x); }), 2);
}

TEST(TopK2BitTest, TheLengthTellsTheShare) {
  for (const size_t n : {1u, 3u, 100u, 4095u, 4096u, 5000u, 8200u}) {
    const TensorCodec& any = *TensorCodec::Find(TOP_K_2BIT);
    std::vector<bool> known(any.EncodedBytes(n) + 20, false);
    for (size_t whole = 1; whole <= kChunk / 2; ++whole) {
      known[Codec(static_cast<double>(whole) / kChunk)->EncodedBytes(n)] = true;
    }
    for (size_t bytes = 0; bytes < known.size(); ++bytes) {
      ASSERT_EQ(any.CheckLength(bytes, n).ok(), known[bytes]) << bytes << " bytes for " << n;
    }
    EXPECT_FALSE(any.CheckLength(SIZE_MAX, n).ok());
    const std::vector<float> in = Normal(n, n);
    for (const double share : {1e-9, 0.003, 0.07, 0.5}) {
      const auto codec = Codec(share);
      const std::vector<std::byte> bytes = Encoded(*codec, in);
      std::vector<float> out(n);
      ASSERT_OK(codec->Decode(bytes, out));
      ASSERT_EQ(Decoded(bytes, n), out);
    }
  }
}

TEST(TopK2BitTest, RefusesAWrongLength) {
  for (const int more : {-1, 1}) {
    const size_t bytes = Codec(0.01)->EncodedBytes(kChunk) + static_cast<size_t>(more);
    EXPECT_THAT(Refusal(std::vector<std::byte>(bytes), kChunk),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(" bytes ")));
  }
  EXPECT_THAT(Refusal({}, 4), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("0 bytes")));
}

TEST(TopK2BitTest, RefusesIndicesThatAreNoSet) {
  const auto decode = [](std::vector<uint32_t> entries) {
    return Refusal(Record(1, 2, entries), 6);
  };
  EXPECT_OK(decode({0, 5}));
  EXPECT_OK(decode({0x1003, 0x3004, 0x2005}));
  EXPECT_THAT(decode({2, 0x3002}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("chunk 0: entry 1 of 2 has "
                                                                     "index 2")));
  EXPECT_THAT(decode({0x1003, 1, 4}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("index 1")));
  EXPECT_THAT(decode({1, 6}), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("index 6")));
  EXPECT_THAT(decode({4095}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("index 4095")));
  // A whole chunk has all of them, and the chunk behind it is judged by itself.
  std::vector<std::byte> two = Record(1, 2, {4095});
  const std::vector<std::byte> second = Record(1, 2, {0});
  two.insert(two.end(), second.begin(), second.end());
  EXPECT_OK(Refusal(two, kChunk + 1));
  two[18] = std::byte{1};
  EXPECT_THAT(Refusal(two, kChunk + 1),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("chunk 1: entry 0 of 1")));
}

TEST(TopK2BitTest, RefusesMagnitudesThatNoEncodingHas) {
  const auto decode = [](float low, float high) { return Refusal(Record(low, high, {0}), 1); };
  EXPECT_OK(decode(0, 0));
  EXPECT_OK(decode(2, 2));
  for (const auto& [low, high] :
       {std::pair{-1.0f, 2.0f}, std::pair{-2.0f, -1.0f}, std::pair{2.0f, 1.0f},
        std::pair{0.0f, -kInf}, std::pair{std::nanf(""), -1.0f}, std::pair{kInf, 1.0f}}) {
    EXPECT_THAT(decode(low, high),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("magnitudes")))
        << low << " " << high;
  }
}

TEST(TopK2BitTest, RefusesSetPadding) {
  for (const size_t k : {1u, 2u, 3u, 4u, 5u}) {
    std::vector<uint32_t> entries(k);
    std::iota(entries.begin(), entries.end(), 0x3000);
    EXPECT_OK(Refusal(Record(1, 2, entries), 16));
    const absl::Status status = Refusal(Record(1, 2, entries, true), 16);
    if (k == 4) {
      EXPECT_OK(status);  // 56 bits have no padding
    } else {
      EXPECT_THAT(status, StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("followed by 0")));
    }
  }
}

// However many pushes there were, what has not arrived stays bounded, and is the residual.
TEST(TopK2BitTest, TheSumOfPushesIsTheSumOfGradients) {
  constexpr size_t kFloats = 5001;
  const auto codec = Codec(1.0 / 16);
  std::vector<float> residual(kFloats, 0.0f), scratch(kFloats);
  std::vector<double> in(kFloats, 0.0), arrived(kFloats, 0.0);
  std::vector<std::byte> bytes(codec->EncodedBytes(kFloats));
  constexpr int kPushes = 400;
  for (int push = 0; push < kPushes; ++push) {
    std::vector<float> gradient = Normal(kFloats, static_cast<uint64_t>(push));
    // Half of them small, and always the same.
    for (size_t i = 0; i < kFloats; i += 2) gradient[i] = 0.1f;
    codec->EncodeWithFeedback(gradient, residual, scratch, bytes);
    const std::vector<float> out = Decoded(bytes, kFloats);
    for (size_t i = 0; i < kFloats; ++i) {
      in[i] += gradient[i];
      arrived[i] += out[i];
      ASSERT_NEAR(arrived[i] + residual[i], in[i], 1e-3) << i << " of push " << push;
    }
  }
  for (size_t i = 0; i < kFloats; i += 2) {
    ASSERT_GT(arrived[i], 0.6 * 0.1 * kPushes) << i;
  }
}

}  // namespace
}  // namespace monsoon
