#include "coordinator/sandblaster/vector_shards.h"

#include "common/testing/status_matchers.h"
#include "coordinator/sandblaster/shard_vector_space.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace monsoon {
namespace {

using ::monsoon::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Two shards that answer a dot product with 1 and 10, and note what they get.
class VectorShardsTest : public ::testing::Test {
 protected:
  std::unique_ptr<VectorShards> Make() {
    VectorShards::Options options;
    options.job = "j-1";
    options.shard_epochs = {7, 8};
    for (size_t shard = 0; shard < 2; ++shard) {
      options.calls.push_back([this, shard](const VectorRequest& request) {
        seen_[shard].push_back(request);
        return answer_(shard, seen_[shard].size());
      });
    }
    options.stopped = [this] { return stopped_.load(); };
    return std::make_unique<VectorShards>(std::move(options));
  }
  static VectorRequest Dot() {
    VectorRequest request;
    request.mutable_dot()->set_x("x");
    request.mutable_dot()->set_y("y");
    return request;
  }
  static VectorReply Scalar(double value) {
    VectorReply reply;
    reply.add_scalar(value);
    return reply;
  }

  std::vector<VectorRequest> seen_[2];
  std::function<absl::StatusOr<VectorReply>(size_t shard, size_t call)> answer_ =
      [](size_t shard, size_t) { return Scalar(shard == 0 ? 1 : 10); };
  std::atomic<bool> stopped_ = false;
};

TEST_F(VectorShardsTest, NumbersOperationsAndTellsEachShardItsEpoch) {
  const std::unique_ptr<VectorShards> shards = Make();
  ASSERT_OK(shards->Run(Dot()));
  ASSERT_OK(shards->Run(Dot()));
  for (const auto& seen : seen_) {
    ASSERT_EQ(seen.size(), 2u);
    EXPECT_EQ(seen[0].op_id(), 1u);
    EXPECT_EQ(seen[1].op_id(), 2u);
    EXPECT_EQ(seen[0].job(), "j-1");
  }
  EXPECT_EQ(seen_[0][0].shard_epoch(), 7u);
  EXPECT_EQ(seen_[1][0].shard_epoch(), 8u);
  EXPECT_EQ(shards->statistics().rounds, 2u);
  EXPECT_EQ(shards->statistics().commands, 4u);
  EXPECT_EQ(shards->statistics().bytes,
            2 * (seen_[0][0].ByteSizeLong() + seen_[1][0].ByteSizeLong()));
}

TEST_F(VectorShardsTest, NumbersWhatComesBeforeAnOperationToo) {
  const std::unique_ptr<VectorShards> shards = Make();
  ShardVectorSpace space(shards.get());
  ASSERT_OK(space.Fill("x", 1));
  ASSERT_OK(space.Fill("y", 2));
  ASSERT_OK(space.Dot("x", "y"));
  ASSERT_OK(space.Dot("y", "y"));
  ASSERT_EQ(seen_[1].size(), 2u);
  EXPECT_EQ(seen_[1][0].before(0).op_id(), 1u);
  EXPECT_EQ(seen_[1][0].before(1).op_id(), 2u);
  EXPECT_EQ(seen_[1][0].op_id(), 3u);
  EXPECT_EQ(seen_[1][1].op_id(), 4u);
  EXPECT_EQ(shards->statistics().rounds, 2u);
}

TEST_F(VectorShardsTest, RepeatsALostCommandUnderTheSameNumber) {
  answer_ = [](size_t shard, size_t call) -> absl::StatusOr<VectorReply> {
    if (shard == 1 && call <= 2) {
      return call == 1 ? absl::UnavailableError("gone") : absl::DeadlineExceededError("late");
    }
    return Scalar(1);
  };
  const std::unique_ptr<VectorShards> shards = Make();
  ASSERT_OK(shards->Run(Dot()));
  EXPECT_EQ(seen_[0].size(), 1u);
  ASSERT_EQ(seen_[1].size(), 3u);
  EXPECT_EQ(seen_[1][2].op_id(), 1u);
}

TEST_F(VectorShardsTest, AnErrorNamesTheShard) {
  answer_ = [](size_t shard, size_t) -> absl::StatusOr<VectorReply> {
    if (shard == 1) {
      return absl::AbortedError("restarted");
    }
    return Scalar(1);
  };
  const std::unique_ptr<VectorShards> shards = Make();
  EXPECT_THAT(shards->Run(Dot()).status(),
              StatusIs(absl::StatusCode::kAborted, HasSubstr("ps/1: restarted")));
}

TEST_F(VectorShardsTest, StopsAskingADeadShardWhenTheJobEnds) {
  answer_ = [this](size_t shard, size_t call) -> absl::StatusOr<VectorReply> {
    stopped_ = call == 2;
    return absl::UnavailableError("gone");
  };
  const std::unique_ptr<VectorShards> shards = Make();
  EXPECT_THAT(shards->Run(Dot()).status(),
              StatusIs(absl::StatusCode::kCancelled, HasSubstr("j-1")));
}

TEST_F(VectorShardsTest, TheSpaceAddsTheShardsScalars) {
  const std::unique_ptr<VectorShards> shards = Make();
  ShardVectorSpace space(shards.get());
  ASSERT_OK_AND_ASSIGN(const double dot, space.Dot("x", "y"));
  EXPECT_EQ(dot, 11);
  ASSERT_OK_AND_ASSIGN(const std::vector<double> gram, space.Gram({"x"}, {"y"}));
  EXPECT_THAT(gram, ElementsAre(11));
}

TEST_F(VectorShardsTest, TheSpaceRefusesUnlikeAnswers) {
  answer_ = [](size_t shard, size_t) {
    VectorReply reply = Scalar(1);
    if (shard == 1) {
      reply.add_scalar(2);
    }
    return reply;
  };
  const std::unique_ptr<VectorShards> shards = Make();
  ShardVectorSpace space(shards.get());
  EXPECT_THAT(space.Dot("x", "y").status(),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("ps/1 answers 2")));
}

}  // namespace
}  // namespace monsoon
