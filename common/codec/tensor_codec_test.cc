#include "common/codec/tensor_codec.h"

#include <algorithm>
#include <bit>
#include <cfloat>
#include <cmath>
#include <cstring>
#include <initializer_list>
#include <limits>
#include <numeric>
#include <vector>

#include "common/base/random.h"
#include "common/codec/wire_formats.h"
#include "common/testing/status_matchers.h"

namespace monsoon {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::StatusIs;

constexpr float kInf = std::numeric_limits<float>::infinity();

std::unique_ptr<TensorCodec> Codec(WireFormat format, double share = 0.1) {
  auto codec = TensorCodec::Create(format, share);
  EXPECT_TRUE(codec.ok()) << codec.status();
  return *std::move(codec);
}

std::vector<std::byte> Encoded(const TensorCodec& codec, const std::vector<float>& in) {
  std::vector<std::byte> bytes(codec.EncodedBytes(in.size()));
  codec.Encode(in, bytes);
  return bytes;
}

std::vector<float> Decoded(const TensorCodec& codec, const std::vector<std::byte>& bytes,
                           size_t floats) {
  std::vector<float> out(floats, -1.0f);
  EXPECT_TRUE(codec.Decode(bytes, out).ok());
  return out;
}

std::vector<float> RoundTrip(WireFormat format, const std::vector<float>& in) {
  const auto codec = Codec(format);
  return Decoded(*codec, Encoded(*codec, in), in.size());
}

// Signs, and sizes over forty powers of two.
std::vector<float> Wild(size_t n, uint64_t seed) {
  const PhiloxStream stream(seed, StreamKind::kTest);
  std::vector<float> values(n);
  for (size_t i = 0; i < n; ++i) {
    values[i] = std::ldexp(stream.Normal(i), static_cast<int>(stream.Below(2 * n + i, 40)) - 25);
  }
  return values;
}

uint16_t Half(WireFormat format, float value) {
  const std::vector<std::byte> bytes = Encoded(*Codec(format), {value});
  uint16_t half;
  std::memcpy(&half, bytes.data(), sizeof(half));
  return half;
}

float Value(WireFormat format, uint16_t half) {
  std::vector<std::byte> bytes(2);
  std::memcpy(bytes.data(), &half, sizeof(half));
  return Decoded(*Codec(format), bytes, 1)[0];
}

// From the definition, in double.
double Float16ByDefinition(uint16_t half) {
  const int exponent = (half >> 10) & 31;
  const double fraction = (half & 1023) / 1024.0;
  const double magnitude =
      exponent == 0 ? std::ldexp(fraction, -14) : std::ldexp(1 + fraction, exponent - 15);
  return (half & 0x8000) != 0 ? -magnitude : magnitude;
}

TEST(HalfTest, KnownValues) {
  EXPECT_EQ(Half(BFLOAT16, 1.0f), 0x3f80);
  EXPECT_EQ(Half(BFLOAT16, -2.5f), 0xc020);
  EXPECT_EQ(Half(FLOAT16, 1.0f), 0x3c00);
  EXPECT_EQ(Half(FLOAT16, -2.5f), 0xc100);
  EXPECT_EQ(Half(FLOAT16, 65504.0f), 0x7bff);
  EXPECT_EQ(Half(FLOAT16, 0x1p-24f), 0x0001);
  EXPECT_EQ(Half(FLOAT16, 0x1p-25f), 0x0000);         // a tie, to even
  EXPECT_EQ(Half(FLOAT16, 0x1.8p-24f), 0x0002);       // a tie, to even
  EXPECT_EQ(Half(FLOAT16, 1.0f + 0x1p-11f), 0x3c00);  // a tie, to even
  EXPECT_EQ(Half(FLOAT16, 1.0f + 0x3p-11f), 0x3c02);  // a tie, to even
  EXPECT_EQ(Half(BFLOAT16, 1.0f + 0x1p-8f), 0x3f80);
  EXPECT_EQ(Half(BFLOAT16, 1.0f + 0x3p-8f), 0x3f82);
}

TEST(HalfTest, FiniteStaysFiniteAndTheOthersStayWhatTheyAre) {
  for (const WireFormat format : {BFLOAT16, FLOAT16}) {
    const float largest = format == FLOAT16 ? 65504.0f : 0x1.fep127f;
    EXPECT_EQ(RoundTrip(format, {FLT_MAX, -FLT_MAX, kInf, -kInf}),
              (std::vector<float>{largest, -largest, kInf, -kInf}));
    EXPECT_TRUE(std::isnan(RoundTrip(format, {std::nanf("")})[0]));
    EXPECT_TRUE(std::isnan(RoundTrip(format, {std::bit_cast<float>(0x7f800001u)})[0]));
  }
  EXPECT_EQ(RoundTrip(FLOAT16, {65519.0f, 65520.0f, 1e6f}), std::vector<float>(3, 65504.0f));
}

TEST(HalfTest, EveryFloat16IsItsDefinitionAndComesBack) {
  for (uint32_t half = 0; half < 0x10000; ++half) {
    if ((half & 0x7c00) == 0x7c00) {
      continue;  // infinities and NaN
    }
    const float value = Value(FLOAT16, static_cast<uint16_t>(half));
    ASSERT_EQ(value, Float16ByDefinition(static_cast<uint16_t>(half))) << half;
    ASSERT_EQ(Half(FLOAT16, value), half);
    ASSERT_EQ(Half(BFLOAT16, Value(BFLOAT16, static_cast<uint16_t>(half))), half);
  }
}

// No representable neighbour is nearer.
TEST(HalfTest, RoundsToNearest) {
  for (const WireFormat format : {BFLOAT16, FLOAT16}) {
    for (const float x : Wild(20000, 7)) {
      if (std::fabs(x) > 65000) continue;
      const uint16_t half = Half(format, x);
      const double error = std::fabs(double{Value(format, half)} - x);
      for (const int step : {-1, 1}) {
        if ((half & 0x7fff) == 0 && step < 0) continue;
        const float neighbour = Value(format, static_cast<uint16_t>(half + step));
        ASSERT_LE(error, std::fabs(double{neighbour} - x)) << x;
      }
    }
  }
}

TEST(Int8Test, IsWithinHalfAStepOfItsBlock) {
  for (const size_t n : {1u, 255u, 256u, 257u, 1000u}) {
    const std::vector<float> in = Wild(n, n);
    const std::vector<float> out = RoundTrip(INT8, in);
    for (size_t begin = 0; begin < n; begin += 256) {
      const size_t end = std::min<size_t>(n, begin + 256);
      double largest = 0;
      for (size_t i = begin; i < end; ++i) largest = std::max(largest, std::fabs(double{in[i]}));
      for (size_t i = begin; i < end; ++i) {
        ASSERT_LE(std::fabs(double{in[i]} - out[i]), largest / 254 * 1.00001) << i;
        if (std::fabs(in[i]) == largest) {
          ASSERT_NEAR(out[i], in[i], largest * 1e-6);
        }
      }
    }
  }
}

TEST(Int8Test, ZerosTinyAndNotFinite) {
  EXPECT_EQ(RoundTrip(INT8, {0, 0, 0}), (std::vector<float>{0, 0, 0}));
  EXPECT_EQ(RoundTrip(INT8, {1e-44f, -1e-44f}), (std::vector<float>{0, 0}));
  for (const float bad : {kInf, -kInf, std::nanf("")}) {
    std::vector<float> in(300, 1.0f);
    in[299] = bad;
    const std::vector<float> out = RoundTrip(INT8, in);
    EXPECT_EQ(out[0], 1.0f);
    EXPECT_FALSE(std::isfinite(out[299]));
  }
}

std::vector<std::byte> Bytes(std::initializer_list<int> values) {
  std::vector<std::byte> bytes;
  for (const int value : values) bytes.push_back(static_cast<std::byte>(value));
  return bytes;
}

// One value at a time, whatever loops the compiler makes of the codec's.
std::vector<std::byte> Int4ByDefinition(const std::vector<float>& in) {
  const size_t blocks = (in.size() + 255) / 256;
  std::vector<std::byte> bytes(4 * blocks + (in.size() + 1) / 2);
  for (size_t block = 0; block < blocks; ++block) {
    const size_t end = std::min(in.size(), 256 * (block + 1));
    float largest = 0;
    for (size_t i = 256 * block; i < end; ++i) largest = std::max(largest, std::fabs(in[i]));
    const float scale = largest / 7;
    std::memcpy(bytes.data() + 4 * block, &scale, sizeof(scale));
    const float inverse = 1 / scale;
    for (size_t i = 256 * block; i < end; ++i) {
      const float product = in[i] * inverse;
      const int q = static_cast<int>(std::nearbyint(product)) & 15;
      bytes[4 * blocks + i / 2] |= static_cast<std::byte>(i % 2 == 0 ? q : q << 4);
    }
  }
  return bytes;
}

TEST(Int4Test, KnownBytes) {
  const auto codec = Codec(INT4);
  // The scale is 1; ties go to even.
  const std::vector<std::byte> seven = Encoded(*codec, {7, -7, 3.5, 2.5, -0.5, 1.5, -6.6f});
  EXPECT_EQ(seven, Bytes({0, 0, 0x80, 0x3f, 0x97, 0x24, 0x20, 0x09}));
  EXPECT_EQ(Decoded(*codec, seven, 7), (std::vector<float>{7, -7, 4, 2, 0, 2, -7}));
  EXPECT_EQ(Encoded(*codec, {-3.5}), Bytes({0, 0, 0, 0x3f, 0x09}));
  // Both scales, then both blocks' values.
  std::vector<float> in(258, 0.0f);
  in[0] = 7;
  in[256] = -3.5;
  in[257] = 1.25;
  std::vector<std::byte> expected(2 * 4 + 129);
  std::ranges::copy(Bytes({0, 0, 0x80, 0x3f, 0, 0, 0, 0x3f, 0x07}), expected.begin());
  expected.back() = std::byte{0x29};
  EXPECT_EQ(Encoded(*codec, in), expected);
}

TEST(Int4Test, BytesAreThoseOfTheDefinition) {
  for (const size_t n : {1u, 2u, 3u, 31u, 255u, 256u, 257u, 511u, 1000u, 4097u}) {
    const std::vector<float> in = Wild(n, n);
    ASSERT_EQ(Encoded(*Codec(INT4), in), Int4ByDefinition(in)) << n;
  }
}

TEST(Int4Test, IsWithinHalfAScaleOfItsBlock) {
  for (const size_t n : {1u, 2u, 255u, 256u, 257u, 513u, 1000u}) {
    const std::vector<float> in = Wild(n, n);
    const std::vector<float> out = RoundTrip(INT4, in);
    for (size_t begin = 0; begin < n; begin += 256) {
      const size_t end = std::min<size_t>(n, begin + 256);
      double largest = 0;
      for (size_t i = begin; i < end; ++i) largest = std::max(largest, std::fabs(double{in[i]}));
      for (size_t i = begin; i < end; ++i) {
        ASSERT_LE(std::fabs(double{in[i]} - out[i]), largest / 14 * 1.00001) << i;
        if (std::fabs(in[i]) == largest) {
          ASSERT_NEAR(out[i], in[i], largest * 1e-6);
        }
      }
    }
  }
}

TEST(Int4Test, ZerosTinyHugeAndNotFinite) {
  EXPECT_EQ(RoundTrip(INT4, {0, 0, 0}), (std::vector<float>{0, 0, 0}));
  EXPECT_EQ(RoundTrip(INT4, {1e-44f, -1e-44f}), (std::vector<float>{0, 0}));
  // A scale that is subnormal.
  EXPECT_EQ(RoundTrip(INT4, {0x7p-127f, -0x1p-127f, 0x3.8p-127f}),
            (std::vector<float>{0x7p-127f, -0x1p-127f, 0x4p-127f}));
  EXPECT_EQ(RoundTrip(INT4, {FLT_MAX, -FLT_MAX, 1}), (std::vector<float>{FLT_MAX, -FLT_MAX, 0}));
  float huge = FLT_MAX;
  for (int i = 0; i < 100; ++i) {
    huge = std::nextafter(huge, 0.0f);
    ASSERT_TRUE(std::isfinite(RoundTrip(INT4, {huge})[0])) << i;
  }
  for (const float bad : {kInf, -kInf, std::nanf("")}) {
    std::vector<float> in(299, 1.0f);
    in[298] = bad;
    const std::vector<float> out = RoundTrip(INT4, in);
    EXPECT_EQ(out[0], 1.0f);
    EXPECT_FALSE(std::isfinite(out[298]));
  }
}

TEST(Int4Test, EveryValueOfAByte) {
  for (int low = 0; low < 16; ++low) {
    for (int high = 0; high < 16; ++high) {
      std::vector<float> out(2);
      const absl::Status status =
          Codec(INT4)->Decode(Bytes({0, 0, 0, 0x3f, (high << 4) | low}), out);
      if (low == 8 || high == 8) {
        ASSERT_THAT(status, StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("-8")));
        continue;
      }
      ASSERT_OK(status);
      ASSERT_THAT(out, ElementsAre(0.5f * static_cast<float>(low < 8 ? low : low - 16),
                                   0.5f * static_cast<float>(high < 8 ? high : high - 16)));
    }
  }
}

TEST(Int4Test, RefusesWhatNoEncodingHas) {
  const auto codec = Codec(INT4);
  std::vector<float> three(3);
  EXPECT_OK(codec->Decode(Bytes({0, 0, 0x80, 0x3f, 0x21, 0x03}), three));
  EXPECT_THAT(codec->Decode(Bytes({0, 0, 0x80, 0x3f, 0x21, 0x13}), three),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("the last of 3 values")));
  EXPECT_THAT(codec->Decode(Bytes({0, 0, 0x80, 0xbf, 0x21, 0x03}), three),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("block 0 has scale -1")));
  std::vector<std::byte> bytes(codec->EncodedBytes(600));
  std::vector<float> out(600);
  EXPECT_OK(codec->Decode(bytes, out));
  bytes[12 + 299] = std::byte{0x80};
  EXPECT_THAT(codec->Decode(bytes, out),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("block 2 has a value of -8")));
}

// However many pushes there were, what has not arrived is half a scale at most.
TEST(Int4Test, TheSumOfPushesIsTheSumOfGradients) {
  constexpr size_t kFloats = 701;
  const auto codec = Codec(INT4);
  std::vector<float> residual(kFloats, 0.0f), scratch(kFloats);
  std::vector<double> in(kFloats, 0.0), arrived(kFloats, 0.0);
  std::vector<std::byte> bytes(codec->EncodedBytes(kFloats));
  for (int push = 0; push < 300; ++push) {
    const PhiloxStream stream(static_cast<uint64_t>(push), StreamKind::kTest);
    std::vector<float> gradient(kFloats);
    for (size_t i = 0; i < kFloats; ++i) {
      // Half of them far below half a scale, and always the same.
      gradient[i] = i % 2 == 0 ? stream.Normal(i) : 0.003f;
    }
    codec->EncodeWithFeedback(gradient, residual, scratch, bytes);
    const std::vector<float> out = Decoded(*codec, bytes, kFloats);
    for (size_t i = 0; i < kFloats; ++i) {
      in[i] += gradient[i];
      arrived[i] += out[i];
      float scale;
      std::memcpy(&scale, bytes.data() + 4 * (i / 256), sizeof(scale));
      ASSERT_LE(std::fabs(in[i] - arrived[i]), 0.5 * scale + 1e-4) << i << " of push " << push;
    }
  }
}

TEST(TopKTest, KeepsTheLargestAndOfEqualsTheFirst) {
  const auto codec = Codec(TOP_K, 0.3);
  const std::vector<float> in = {1, -7, 2, 2, 0, -2, 5, 0.5, 2, -1};
  const std::vector<std::byte> bytes = Encoded(*codec, in);
  EXPECT_EQ(bytes.size(), 24u);
  EXPECT_EQ(Decoded(*codec, bytes, in.size()), (std::vector<float>{0, -7, 2, 0, 0, 0, 5, 0, 0, 0}));
}

TEST(TopKTest, EqualsASort) {
  for (const size_t n : {1u, 10u, 999u, 5000u}) {
    for (const double share : {0.001, 0.1, 0.25, 0.5}) {
      std::vector<float> in = Wild(n, n);
      for (size_t i = 0; i < n; i += 3) in[i] = i % 2 == 0 ? 1.0f : -1.0f;  // many equals
      const auto codec = Codec(TOP_K, share);
      std::vector<size_t> order(n);
      std::iota(order.begin(), order.end(), 0);
      std::ranges::stable_sort(
          order, [&](size_t a, size_t b) { return std::fabs(in[a]) > std::fabs(in[b]); });
      std::vector<float> expected(n, 0.0f);
      for (size_t i = 0; i < codec->EncodedBytes(n) / 8; ++i) expected[order[i]] = in[order[i]];
      ASSERT_EQ(Decoded(*codec, Encoded(*codec, in), n), expected) << n << " " << share;
    }
  }
}

TEST(TopKTest, AnyShareCanBeDecoded) {
  const std::vector<float> in = Wild(100, 1);
  const auto codec = Codec(TOP_K, 0.07);
  const std::vector<std::byte> bytes = Encoded(*codec, in);
  EXPECT_EQ(Decoded(*TensorCodec::Find(TOP_K), bytes, 100), Decoded(*codec, bytes, 100));
  EXPECT_OK(codec->CheckLength(8 * 50, 100));
  EXPECT_THAT(codec->CheckLength(8 * 51, 100),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("1 to 50 entries")));
  EXPECT_THAT(codec->CheckLength(0, 100),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("0")));
}

TEST(TopKTest, NotFiniteIsAlwaysAmongThem) {
  std::vector<float> in(100, 1e30f);
  in[70] = std::nanf("");
  const auto codec = Codec(TOP_K, 0.01);
  EXPECT_TRUE(std::isnan(Decoded(*codec, Encoded(*codec, in), 100)[70]));
}

TEST(TopKTest, RefusesIndicesThatAreNoSet) {
  const auto codec = Codec(TOP_K, 0.5);
  std::vector<float> out(4);
  const auto decode = [&](uint32_t first, uint32_t second) {
    std::vector<std::byte> bytes(16);
    std::memcpy(bytes.data(), &first, 4);
    std::memcpy(bytes.data() + 4, &second, 4);
    return codec->Decode(bytes, out);
  };
  EXPECT_OK(decode(0, 3));
  EXPECT_THAT(decode(2, 2), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("index 2")));
  EXPECT_THAT(decode(3, 1), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("index 1")));
  EXPECT_THAT(decode(1, 4), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("index 4")));
  EXPECT_THAT(decode(UINT32_MAX, 0),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("entry 0")));
}

TEST(TensorCodecTest, SizesAreAsDeclared) {
  EXPECT_EQ(Codec(FLOAT32)->EncodedBytes(1000), 4000u);
  EXPECT_EQ(Codec(BFLOAT16)->EncodedBytes(1000), 2000u);
  EXPECT_EQ(Codec(FLOAT16)->EncodedBytes(1000), 2000u);
  EXPECT_EQ(Codec(INT8)->EncodedBytes(1000), 1016u);
  EXPECT_EQ(Codec(INT4)->EncodedBytes(1000), 516u);
  EXPECT_EQ(Codec(INT4)->EncodedBytes(257), 137u);
  EXPECT_EQ(Codec(INT4)->EncodedBytes(0), 0u);
  EXPECT_EQ(Codec(TOP_K, 0.01)->EncodedBytes(1000), 80u);
  EXPECT_EQ(Codec(TOP_K, 1e-9)->EncodedBytes(1000), 8u);
  EXPECT_EQ(Codec(TOP_K_2BIT, 1.0 / 64)->EncodedBytes(3 * 4096), 360u);
}

TEST(TensorCodecTest, RefusesAWrongLengthAndUnknownFormats) {
  for (const WireFormat format : {FLOAT32, BFLOAT16, FLOAT16, INT8, TOP_K, INT4}) {
    const auto codec = Codec(format);
    for (const int more : {-1, 1}) {
      std::vector<float> out(64);
      const std::vector<std::byte> bytes(codec->EncodedBytes(64) + static_cast<size_t>(more));
      EXPECT_THAT(codec->Decode(bytes, out),
                  StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(" bytes ")));
    }
  }
  EXPECT_EQ(TensorCodec::Find(static_cast<WireFormat>(17)), nullptr);
  EXPECT_THAT(TensorCodec::Create(static_cast<WireFormat>(17), 0.1).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("17")));
  for (const double share : {0.0, -1.0, 0.6, std::nan("")}) {
    for (const WireFormat format : {TOP_K, TOP_K_2BIT}) {
      EXPECT_THAT(TensorCodec::Create(format, share).status(),
                  StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("top_k_share")));
    }
  }
}

TEST(TensorCodecTest, ParametersTravelInWhatNeedsNoFeedback) {
  for (const WireFormat format : {FLOAT32, BFLOAT16, FLOAT16, INT8}) {
    EXPECT_TRUE(TensorCodec::CarriesParameters(format)) << WireFormat_Name(format);
  }
  for (const WireFormat format : {TOP_K, INT4, TOP_K_2BIT, static_cast<WireFormat>(17)}) {
    EXPECT_FALSE(TensorCodec::CarriesParameters(format)) << format;
  }
}

TEST(TensorCodecTest, StatisticsTravelWhereEachValueIsRoundedByItself) {
  for (const WireFormat format : {FLOAT32, BFLOAT16, FLOAT16}) {
    EXPECT_TRUE(TensorCodec::CarriesStatistics(format)) << WireFormat_Name(format);
  }
  for (const WireFormat format : {INT8, TOP_K, INT4, TOP_K_2BIT, static_cast<WireFormat>(17)}) {
    EXPECT_FALSE(TensorCodec::CarriesStatistics(format)) << format;
  }
}

TEST(TensorCodecTest, Float32IsTheSameBits) {
  const std::vector<float> in = Wild(1000, 3);
  EXPECT_EQ(RoundTrip(FLOAT32, in), in);
}

// What arrives and what is kept is all that went in.
TEST(TensorCodecTest, FeedbackLosesNothing) {
  constexpr size_t kFloats = 700;
  constexpr int kPushes = 50;
  for (const FormatTraits& traits : WireFormats()) {
    const WireFormat format = traits.format;
    const auto codec = Codec(format, 0.05);
    std::vector<float> residual(kFloats, 0.0f), scratch(kFloats);
    std::vector<double> in(kFloats, 0.0), arrived(kFloats, 0.0);
    std::vector<std::byte> bytes(codec->EncodedBytes(kFloats));
    for (int push = 0; push < kPushes; ++push) {
      const PhiloxStream stream(static_cast<uint64_t>(push), StreamKind::kTest);
      std::vector<float> gradient(kFloats);
      for (size_t i = 0; i < kFloats; ++i) gradient[i] = stream.Normal(i);
      codec->EncodeWithFeedback(gradient, residual, scratch, bytes);
      const std::vector<float> out = Decoded(*codec, bytes, kFloats);
      for (size_t i = 0; i < kFloats; ++i) {
        in[i] += gradient[i];
        arrived[i] += out[i];
      }
    }
    double left_out = 0;
    for (size_t i = 0; i < kFloats; ++i) {
      ASSERT_NEAR(arrived[i] + residual[i], in[i], 1e-4) << WireFormat_Name(format);
      left_out = std::max(left_out, std::fabs(double{residual[i]}));
    }
    if (format == FLOAT32) {
      EXPECT_EQ(left_out, 0);
    } else if (traits.takes_share) {
      EXPECT_GT(left_out, 0.1);  // something was really left out
    }
  }
}

}  // namespace
}  // namespace monsoon
