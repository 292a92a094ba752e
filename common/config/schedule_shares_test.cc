#include "common/config/schedule_shares.h"

#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "proto/downpour.pb.h"
#include "proto/optimizer.pb.h"

namespace monsoon {
namespace {

Job Parse(const std::string& text) {
  Job job;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &job));
  return job;
}

TEST(ScheduleSharesTest, StepsAreThoseOfWhicheverEndComesFirst) {
  EXPECT_EQ(StepsUntilStop(Parse("batch_size: 32 stop { epochs: 2 }"), 65), 6.0);
  EXPECT_EQ(StepsUntilStop(Parse("batch_size: 32 stop { epochs: 2 steps: 5 }"), 65), 5.0);
  EXPECT_EQ(StepsUntilStop(Parse("batch_size: 32 stop { steps: 500 }"), 0), 500.0);
  EXPECT_EQ(StepsUntilStop(Parse("batch_size: 32 stop { epochs: 2 }"), 0), std::nullopt);
  EXPECT_EQ(StepsUntilStop(Parse("batch_size: 32 stop { seconds: 9 }"), 65), std::nullopt);
}

TEST(ScheduleSharesTest, PushesComeOneByOneFromAllOrInRounds) {
  const Job gradients = Parse("stop { steps: 600 } downpour { n_push: 4 }");
  const Job local = Parse("stop { steps: 600 } downpour { local { steps: 50 } }");
  const Job rounds = Parse("stop { steps: 600 } downpour { local { steps: 50 } rounds { } }");
  for (const uint32_t workers : {1u, 3u, 6u}) {
    EXPECT_EQ(PushesUntilStop(gradients, 0, {workers}), 150.0);
    EXPECT_EQ(PushesUntilStop(local, 0, {workers}), 12.0);
    EXPECT_EQ(PushesUntilStop(rounds, 0, {workers}), 12.0 / workers);
    EXPECT_EQ(InnerStepsUntilStop(local, 0, {workers}), 600.0 / workers);
  }
  EXPECT_EQ(PushesUntilStop(gradients, 0, {3, 2.0}), 75.0);
  EXPECT_EQ(InnerStepsUntilStop(local, 0, {3, 2.0}), 100.0);
}

// A share means the same part of the training for any number of workers.
TEST(ScheduleSharesTest, SharesBecomeNumbers) {
  for (const uint32_t workers : {1u, 3u, 6u}) {
    Job job = Parse(R"(stop { steps: 600 } downpour {
      local { steps: 50 inner { adam { rate: 1 } schedule { cosine { share: 1 } warm_up_share: 0.1 } } }
      optimizer { schedule { step { every_share: 0.25 factor: 0.5 } } } })");
    ResolveShares(0, {workers}, &job);
    const Schedule& inner = job.downpour().local().inner().schedule();
    EXPECT_EQ(inner.cosine().pushes(), 600 / workers);
    EXPECT_EQ(inner.warm_up_pushes(), 60 / workers);
    EXPECT_EQ(job.downpour().optimizer().schedule().step().every_pushes(), 3u);
  }
  Job short_one =
      Parse("stop { steps: 2 } downpour { optimizer { schedule { warm_up_share: 0.01 } } }");
  ResolveShares(0, {}, &short_one);
  EXPECT_EQ(short_one.downpour().optimizer().schedule().warm_up_pushes(), 1u);
}

TEST(ScheduleSharesTest, SharesOfAnyKindBecomeNumbers) {
  Job job = Parse(R"(stop { steps: 600 } downpour { n_push: 2 optimizer { schedule { points {
      point { factor: 1 } point { share: 0.5 factor: 0.5 } point { pushes: 299 factor: 0 } } } } })");
  ResolveShares(0, {}, &job);
  const PointsSchedule& points = job.downpour().optimizer().schedule().points();
  EXPECT_EQ(points.point(0).pushes(), 0u);
  EXPECT_EQ(points.point(1).pushes(), 150u);
  EXPECT_EQ(points.point(2).pushes(), 299u);
}

// Also where nobody knows how many there will be.
TEST(ScheduleSharesTest, StepsBecomePushes) {
  Job job = Parse(R"(stop { seconds: 9 } downpour {
    local { steps: 50 inner { sgd { rate: 1 } schedule { linear { pushes: 600 } in_steps: true } } }
    rounds { }
    optimizer { schedule { step { every_pushes: 300 factor: 0.5 } warm_up_pushes: 10
                           in_steps: true } } })");
  ResolveShares(0, {3}, &job);
  const Schedule& outer = job.downpour().optimizer().schedule();
  EXPECT_EQ(outer.step().every_pushes(), 2u);  // 50 of each of three workers are a round
  EXPECT_EQ(outer.warm_up_pushes(), 1u);
  EXPECT_FALSE(outer.in_steps());
  EXPECT_EQ(job.downpour().local().inner().schedule().linear().pushes(), 200u);
  Job gradients = Parse(R"(downpour { n_push: 4 optimizer {
    schedule { cosine { pushes: 1000 } in_steps: true } } })");
  ResolveShares(0, {3}, &gradients);
  EXPECT_EQ(gradients.downpour().optimizer().schedule().cosine().pushes(), 250u);
}

TEST(ScheduleSharesTest, ABatchJobGetsNoDownpour) {
  Job job = Parse("stop { steps: 9 } sandblaster { }");
  ResolveShares(64, {}, &job);
  EXPECT_FALSE(job.has_downpour());
}

TEST(ScheduleSharesTest, NumbersStayAsTheyAre) {
  const Job job = Parse(
      "stop { steps: 9 } downpour { optimizer { schedule { cosine { pushes: 7 } warm_up_pushes: 2 "
      "} } }");
  Job resolved = job;
  ResolveShares(0, {}, &resolved);
  EXPECT_EQ(resolved.SerializeAsString(), job.SerializeAsString());
}

}  // namespace
}  // namespace monsoon
