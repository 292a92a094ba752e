// Differences that shards average in rounds: their weights, and an idle replica.
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "common/testing/status_matchers.h"
#include "proto/optimizer.pb.h"
#include "worker/downpour/downpour_runner.h"
#include "worker/nn/test_models.h"
#include "worker/testing/fakes.h"

namespace monsoon {
namespace {

using ::testing::ElementsAre;
using testing::FakeNetwork;
using testing::FakeShards;

constexpr absl::Duration kLong = absl::Seconds(30);

// Keeps the weights of pushes, and says in the log who passes.
class WeighedShards : public FakeShards {
 public:
  using FakeShards::FakeShards;

  absl::StatusOr<PushResult> Push(const GradientView& gradient, const FetchMarks& base) override {
    weights.push_back(gradient.weight);
    return FakeShards::Push(gradient, base);
  }
  absl::Status Pass() override {
    passed_after.push_back(weights.size());
    return pass_fails ? absl::UnavailableError("ps/0: away") : absl::OkStatus();
  }

  std::vector<float> weights;
  std::vector<size_t> passed_after;  // pushes
  bool pass_fails = false;
};

// With overlap NONE, so that nothing is called on another thread.
class DownpourRoundsTest : public ::testing::Test {
 protected:
  DownpourRoundsTest() : layout_(testing::SmallLayout()), shards_(layout_.size()), batch_(4, 4) {
    job_.set_batch_size(4);
    job_.mutable_downpour()->set_overlap(NONE);
    job_.mutable_downpour()->mutable_local()->set_steps(2);
    job_.mutable_downpour()->mutable_local()->mutable_inner()->mutable_sgd()->set_rate(1.0);
  }

  DownpourRunner& Runner() {
    if (runner_ == nullptr) {
      auto local = LocalUpdater::Create(job_.downpour(), *ShardMap::Create(layout_.size(), 1));
      EXPECT_OK(local.status());
      runner_ = std::make_unique<DownpourRunner>(
          DownpourRunnerOptions::From(job_, 0), &layout_, &shards_, &group_, *std::move(local),
          &stats_, &control_, Clock::Real(), DifferenceWeigher(job_, 1));
    }
    return *runner_;
  }
  // Of batches of so many samples.
  void Steps(std::initializer_list<uint32_t> examples) {
    for (const uint32_t each : examples) {
      batch_.examples = each;
      Runner().Add(&batch_, std::nullopt);
      ASSERT_OK(Runner().Step());
    }
  }

  ParameterLayout layout_;
  WeighedShards shards_;
  FakeNetwork network_;
  ReplicaGroup group_{{}, &network_};
  StatsCollector stats_;
  SessionControl control_{Clock::Real(), kLong};
  Batch batch_;
  Job job_;
  std::unique_ptr<DownpourRunner> runner_;
};

TEST_F(DownpourRoundsTest, ADifferenceOfRoundsWeighsItsSteps) {
  job_.mutable_downpour()->mutable_rounds();
  Steps({4, 4, 4});
  ASSERT_OK(Runner().Flush());  // a short one
  EXPECT_THAT(shards_.weights, ElementsAre(1.0f, 0.5f));
}

TEST_F(DownpourRoundsTest, SamplesWeighAsTheJobSays) {
  job_.mutable_downpour()->mutable_local()->set_weight(TOKENS);
  job_.mutable_downpour()->mutable_local()->set_weight_reference(16);
  Steps({4, 4, 4, 1});
  EXPECT_THAT(shards_.weights, ElementsAre(0.5f, 5.0f / 16));
}

TEST_F(DownpourRoundsTest, WithoutRoundsAndWeightsEachCountsWhole) {
  Steps({4, 4, 4});
  ASSERT_OK(Runner().Flush());
  EXPECT_THAT(shards_.weights, ElementsAre(1.0f, 1.0f));
}

TEST_F(DownpourRoundsTest, AnIdleReplicaPushesWhatItHasAndPasses) {
  job_.mutable_downpour()->mutable_rounds();
  Steps({4, 4, 4});
  EXPECT_EQ(shards_.weights.size(), 1u);
  ASSERT_OK(Runner().Idle());
  EXPECT_THAT(shards_.passed_after, ElementsAre(2u));
  shards_.pass_fails = true;  // said again as long as it is idle
  ASSERT_OK(Runner().Idle());
  EXPECT_THAT(shards_.passed_after, ElementsAre(2u, 2u));
}

TEST_F(DownpourRoundsTest, WithoutRoundsAnIdleReplicaKeepsItsSteps) {
  Steps({4, 4, 4});
  ASSERT_OK(Runner().Idle());
  EXPECT_EQ(shards_.weights.size(), 1u);
  EXPECT_THAT(shards_.passed_after, ElementsAre());
}

}  // namespace
}  // namespace monsoon
