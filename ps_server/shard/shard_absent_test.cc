// Pushes that say of tensors that they have no gradient (PushRequest.absent), and what a shard does
// not take for one.
#include <optional>
#include <string>
#include <vector>

#include "common/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/downpour.pb.h"
#include "proto/model.pb.h"
#include "ps_server/shard/shard_fixture.h"

namespace monsoon {
namespace {

using ::monsoon::testing::StatusIs;
using ::testing::HasSubstr;

// The weight of the fixture's layer, of two and a half stripes, then 16 floats of a bias.
class ShardAbsentTest : public ShardTest {
 protected:
  ShardAbsentTest() {
    request_.mutable_model()->mutable_layer(0)->mutable_dense()->set_units(10);
    request_.mutable_model()->mutable_layer(0)->mutable_dense()->set_no_bias(false);
    request_.set_layout_hash(ParameterLayout::Create(request_.model())->Hash());
    request_.mutable_optimizer()->mutable_momentum()->set_rate(0.5);
    request_.mutable_optimizer()->mutable_momentum()->set_momentum(0.5);
    request_.mutable_optimizer()->set_weight_decay(0.5);
  }
  Vector Third() {
    AlignedFloats out(kFloats);
    EXPECT_OK(shard_.FindJob("job-1")->fetches()->CopyStripes(std::nullopt, 2, 3, nullptr, FLOAT32,
                                                              &out));
    return Vector(out.span().begin(), out.span().begin() + 48);
  }
  // To the third stripe: 32 floats of the weight, 10 of the bias.
  PushRequest PushWithout(std::vector<uint32_t> absent, uint64_t sequence) {
    PushRequest request = MakePush(2, sequence);
    request.mutable_record(0)->set_length(48 * sizeof(float));
    request.mutable_absent()->Assign(absent.begin(), absent.end());
    return request;
  }
};

TEST_F(ShardAbsentTest, OnlyTheTensorsWithAGradientMove) {
  const Vector ones(48, 1.0f);
  EXPECT_EQ(PushOne(PushWithout({}, 1), ones).verdict(), APPLIED);
  const Vector first = Third();
  const PushVerdict verdict = PushOne(PushWithout({1}, 2), ones);
  EXPECT_EQ(verdict.verdict(), APPLIED) << verdict.message();
  EXPECT_EQ(verdict.version(), 2u);
  const Vector second = Third();
  EXPECT_NE(second[0], first[0]);
  EXPECT_EQ(second[32], first[32]) << "no decay, no momentum";
  EXPECT_EQ(PushOne(PushWithout({0, 1}, 3), ones).verdict(), APPLIED);
  EXPECT_EQ(Third(), second);
  EXPECT_EQ(PushOne(PushWithout({0}, 4), ones).verdict(), APPLIED);
  EXPECT_EQ(Third()[0], second[0]);
  EXPECT_NE(Third()[32], second[32]);
  EXPECT_EQ(PushOne(PushWithout({0}, 4), ones).verdict(), DUPLICATE);
}

TEST_F(ShardAbsentTest, WhatIsNoListOfItsTensorsChangesNothing) {
  const std::string before = Snapshot();
  const Vector ones(48, 1.0f);
  for (const std::vector<uint32_t>& absent :
       std::vector<std::vector<uint32_t>>{{1, 0}, {0, 0}, {0, 1, 1}}) {
    EXPECT_THAT(Push(PushWithout(absent, 1), ones),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("do not rise")));
  }
  const PushVerdict verdict = PushOne(PushWithout({0, 2}, 1), ones);
  EXPECT_EQ(verdict.verdict(), REFUSED_REQUEST);
  EXPECT_THAT(verdict.message(), HasSubstr("tensor 2 of 2"));
  EXPECT_EQ(Snapshot(), before);
  EXPECT_EQ(PushOne(PushWithout({0, 1}, 1), ones).verdict(), APPLIED) << "no sequence was used";
}

class ShardAbsentRoundsTest : public ShardAbsentTest {
 protected:
  ShardAbsentRoundsTest() { request_.mutable_rounds(); }
};

TEST_F(ShardAbsentRoundsTest, ARoundHasNone) {
  const PushVerdict verdict = PushOne(PushWithout({1}, 1), Vector(48, 1.0f));
  EXPECT_EQ(verdict.verdict(), REFUSED_REQUEST);
  EXPECT_THAT(verdict.message(), HasSubstr("a value for each parameter"));
  EXPECT_EQ(PushOne(PushWithout({}, 1), Vector(48, 1.0f)).verdict(), APPLIED);
}

}  // namespace
}  // namespace monsoon
