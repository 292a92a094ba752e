#include "ps_server/client/push_encoder.h"

#include <cmath>
#include <limits>

#include "common/model/parameter_layout.h"
#include "common/testing/status_matchers.h"
#include "proto/downpour.pb.h"

namespace monsoon {
namespace {

using ::testing::Each;

// Two shards of two stripes with 32 floats each.
ShardMap Map() { return *ShardMap::Create(128, 2, 128); }

PushEncoder Encoder(WireFormat format) {
  return PushEncoder(Map(), FragmentMap::Whole(Map()), format, *TensorCodec::Create(format, 0.25));
}

std::vector<float> Content(const PushEncoder& encoder, uint32_t shard, uint32_t stripe) {
  std::vector<float> out(32);
  EXPECT_OK(
      TensorCodec::Find(encoder.format())->Decode(encoder.Bytes(shard, stripe, stripe + 1), out));
  return out;
}

TEST(PushEncoderTest, Float32IsTheGradientItself) {
  PushEncoder encoder = Encoder(FLOAT32);
  std::vector<float> gradient(128);
  for (size_t i = 0; i < gradient.size(); ++i) gradient[i] = static_cast<float>(i);
  encoder.Encode(1, gradient);
  EXPECT_EQ(encoder.StripeBytes(1, 0), 128u);
  const std::span<const std::byte> bytes = encoder.Bytes(1, 0, 2);
  EXPECT_EQ(bytes.size(), 256u);
  EXPECT_EQ(bytes.data(), std::as_bytes(std::span(gradient)).data() + 256);
}

TEST(PushEncoderTest, OfValuesNothingLeavesWithTheNextPush) {
  PushEncoder encoder(Map(), FragmentMap::Whole(Map()), BFLOAT16,
                      *TensorCodec::Create(BFLOAT16, 0.25), {{32, 34}});
  encoder.Encode(1, std::vector<float>(128, 1.003f));
  EXPECT_THAT(Content(encoder, 0, 1), Each(1.0f));
  encoder.Encode(2, std::vector<float>(128, 1.003f));  // to 1.0078, with what was left
  std::vector<float> content = Content(encoder, 0, 1);
  EXPECT_EQ(content[1], 1.0f);
  EXPECT_GT(content[2], 1.0f);
}

TEST(PushEncoderTest, WhatThePusherHasEncodedLeavesAsItIsWithItsAbsentTensors) {
  PushEncoder encoder = Encoder(BFLOAT16);
  const std::vector<uint16_t> halves(128, 0x3f80);
  const TensorSlice absent{4, {40, 48}};
  encoder.UseEncoded(std::as_bytes(std::span(halves)), {&absent, 1});
  EXPECT_TRUE(encoder.as_it_is());
  EXPECT_THAT(Content(encoder, 0, 1), Each(1.0f));
  EXPECT_THAT(encoder.absent(), ::testing::ElementsAre(4u));
  encoder.Encode(1, std::vector<float>(128, 2.0f));
  EXPECT_THAT(Content(encoder, 0, 1), Each(2.0f));
  EXPECT_THAT(encoder.absent(), ::testing::IsEmpty());
}

// What waits for an absent tensor must not leave with a push whose record counts nothing of it.
TEST(PushEncoderTest, TheResidualOfAnAbsentTensorWaits) {
  const TensorSlice absent{4, {40, 48}};
  for (const WireFormat format : {BFLOAT16, INT8, INT4, TOP_K}) {
    SCOPED_TRACE(WireFormat_Name(format));
    std::vector<float> gradient(128);
    for (size_t i = 0; i < gradient.size(); ++i) {
      gradient[i] = 1.0f + 0.003f * static_cast<float>(i % 31);
    }
    std::vector<float> nothing(128, 0.0f);
    PushEncoder encoder = Encoder(format);
    encoder.Encode(1, gradient);
    std::vector<float> left(8);  // of the tensor's first push
    for (size_t i = 0; i < 8; ++i) {
      left[i] = gradient[40 + i] - Content(encoder, 0, 1)[8 + i];
    }
    std::vector<float> other = nothing;
    other[40] = 3.0f;  // counts nothing
    encoder.Encode(2, other, {&absent, 1});
    EXPECT_THAT(encoder.absent(), ::testing::ElementsAre(4u));
    encoder.Encode(2, other, {&absent, 1});  // tried again
    std::vector<float> sum(8, 0.0f);
    for (uint64_t sequence = 3; sequence < 60; ++sequence) {
      encoder.Encode(sequence, nothing);
      EXPECT_TRUE(encoder.absent().empty());
      for (size_t i = 0; i < 8; ++i) {
        sum[i] += Content(encoder, 0, 1)[8 + i];
      }
    }
    for (size_t i = 0; i < 8; ++i) {
      EXPECT_NEAR(sum[i], left[i], 1e-3f) << i;
    }
  }
}

TEST(PushEncoderTest, OfARefusedFloat32FragmentNothingIsKept) {
  Fragments halves;
  halves.set_count(2);
  halves.set_order(Fragments::BY_STRIPE);
  Model model;
  ModelTensor* const tensor = model.add_tensor();
  tensor->set_name("w");
  tensor->add_shape(128);
  const FragmentMap fragments =
      *FragmentMap::Create(halves, *ParameterLayout::Create(model), Map());
  PushEncoder encoder(Map(), fragments, FLOAT32, *TensorCodec::Create(FLOAT32, 0));
  encoder.Encode(1, std::vector<float>(128, 3.0f));
  const uint32_t first = fragments.Of(0, 0) == encoder.fragment() ? 0 : 1;
  encoder.Refused(0, first);
  encoder.Encode(2, std::vector<float>(128, 0.0f));
  encoder.Encode(3, std::vector<float>(128, 1.0f));
  EXPECT_THAT(Content(encoder, 0, first), Each(1.0f));
}

TEST(PushEncoderTest, WhatIsLeftOutLeavesWithALaterPush) {
  for (const WireFormat format : {TOP_K, TOP_K_2BIT}) {
    PushEncoder encoder = Encoder(format);
    // Eight of a stripe's values fit a push: four pushes send 32 values of 1.
    encoder.Encode(1, std::vector<float>(128, 1.0f));
    std::vector<float> sum = Content(encoder, 0, 1);
    for (uint64_t push = 2; push <= 4; ++push) {
      encoder.Encode(push, std::vector<float>(128, 0.0f));
      const std::vector<float> content = Content(encoder, 0, 1);
      for (size_t i = 0; i < sum.size(); ++i) sum[i] += content[i];
    }
    EXPECT_THAT(sum, Each(1.0f));
  }
}

// e = decay e + g; what is sent leaves e: SparseLoCo's algorithm 1 by hand. Of each 32 floats the 8
// largest leave.
TEST(PushEncoderTest, AShareOfWhatIsLeftOutLeavesWithALaterPush) {
  const FragmentMap whole = FragmentMap::Whole(Map());
  PushEncoder encoder(Map(), whole, TOP_K, *TensorCodec::Create(TOP_K, 0.25), {}, 0.5);
  std::vector<float> gradient(128, 0.0f);
  for (size_t i = 0; i < 32; ++i) gradient[i] = i < 8 ? 8.0f : i < 16 ? 4.0f : 0.0f;
  encoder.Encode(1, gradient);
  EXPECT_EQ(Content(encoder, 0, 0)[0], 8.0f);
  EXPECT_EQ(Content(encoder, 0, 0)[8], 0.0f);
  // A push of its own sequence decays nothing a second time.
  encoder.Encode(1, gradient);
  std::fill(gradient.begin(), gradient.end(), 0.0f);
  for (size_t i = 16; i < 24; ++i) gradient[i] = 3.0f;  // above what is left of 4
  encoder.Encode(2, gradient);
  EXPECT_EQ(Content(encoder, 0, 0)[16], 3.0f);
  EXPECT_EQ(Content(encoder, 0, 0)[8], 0.0f);
  encoder.Encode(3, std::vector<float>(128, 0.0f));
  EXPECT_EQ(Content(encoder, 0, 0)[8], 1.0f);
}

// Each push rounds what it sends to two magnitudes; all of it arrives in the end.
TEST(PushEncoderTest, WhatTwoBitsLoseLeavesWithLaterPushes) {
  PushEncoder encoder = Encoder(TOP_K_2BIT);
  std::vector<double> given(32, 0.0), arrived(32, 0.0);
  for (uint64_t push = 1; push <= 400; ++push) {
    std::vector<float> gradient(128, 0.0f);
    if (push <= 40) {
      for (size_t i = 0; i < gradient.size(); ++i) {
        gradient[i] = std::sin(static_cast<float>(i * push));
      }
    }
    encoder.Encode(push, gradient);
    const std::vector<float> content = Content(encoder, 1, 1);
    for (size_t i = 0; i < content.size(); ++i) {
      given[i] += gradient[96 + i];
      arrived[i] += content[i];
    }
    if (push == 40) {
      EXPECT_GT(std::fabs(arrived[5] - given[5]), 1e-3);  // something was really left out
    }
  }
  for (size_t i = 0; i < given.size(); ++i) {
    EXPECT_NEAR(arrived[i], given[i], 1e-4) << i;
  }
}

TEST(PushEncoderTest, TheSameSequenceLeavesWithTheSameBytes) {
  PushEncoder encoder = Encoder(INT8);
  std::vector<float> gradient(128);
  for (size_t i = 0; i < gradient.size(); ++i) gradient[i] = std::sin(static_cast<float>(i));
  encoder.Encode(1, gradient);
  encoder.Encode(2, gradient);
  const auto first = encoder.Bytes(0, 0, 2);
  const std::vector<std::byte> before(first.begin(), first.end());
  encoder.Encode(2, gradient);  // tried again
  const auto again = encoder.Bytes(0, 0, 2);
  EXPECT_EQ(std::vector<std::byte>(again.begin(), again.end()), before);
  encoder.Encode(3, gradient);  // with another residual
  const auto next = encoder.Bytes(0, 0, 2);
  EXPECT_NE(std::vector<std::byte>(next.begin(), next.end()), before);
}

// What it was refused for would have it refused for ever.
TEST(PushEncoderTest, ARefusedStripeIsGivenUpWithWhatItLeftOut) {
  for (const WireFormat format : {BFLOAT16, FLOAT16, INT8, INT4, TOP_K, TOP_K_2BIT}) {
    SCOPED_TRACE(WireFormat_Name(format));
    const std::vector<float> ones(128, 1.0f);
    PushEncoder encoder = Encoder(format), fresh = Encoder(format);
    std::vector<float> refused = ones;
    refused[64] = 20'000;  // of shard 1
    encoder.Encode(1, refused);
    encoder.Refused(1, 0);
    for (uint64_t push = 2; push <= 9; ++push) {
      encoder.Encode(push, ones);
      fresh.Encode(push, ones);
      EXPECT_EQ(Content(encoder, 1, 0), Content(fresh, 1, 0)) << push;
    }
  }
}

// The others of the push were taken.
TEST(PushEncoderTest, WhatAnotherStripeLeftOutLeavesAfterARefusal) {
  PushEncoder encoder = Encoder(BFLOAT16);
  encoder.Encode(1, std::vector<float>(128, 1.003f));
  encoder.Refused(1, 0);
  encoder.Encode(2, std::vector<float>(128, 1.003f));
  EXPECT_THAT(Content(encoder, 0, 0), Each(1.0078125f));
  EXPECT_THAT(Content(encoder, 1, 0), Each(1.0f));
  EXPECT_THAT(Content(encoder, 1, 1), Each(1.0078125f));
}

TEST(PushEncoderTest, AnOverflowIsGivenUp) {
  PushEncoder encoder = Encoder(INT8);
  const float huge = std::numeric_limits<float>::max();
  std::vector<float> gradient(128, 0.0f);
  gradient[0] = huge;
  encoder.Encode(1, gradient);
  encoder.Encode(2, gradient);  // on top of what the first left out
  encoder.Refused(0, 0);
  encoder.Encode(3, std::vector<float>(128, 1.0f));
  EXPECT_THAT(Content(encoder, 0, 0), Each(1.0f));
}

}  // namespace
}  // namespace monsoon
