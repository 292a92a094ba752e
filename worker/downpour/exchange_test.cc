// GradientPush and Differences, told what happens and without any call.
#include "worker/downpour/exchange.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "common/testing/status_matchers.h"
#include "proto/optimizer.pb.h"
#include "worker/downpour/make_exchange.h"
#include "worker/testing/fakes.h"

namespace monsoon {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using testing::FakeNetwork;
using ::testing::IsEmpty;

constexpr size_t kStripe = 16;

class ExchangeTest : public ::testing::Test {
 protected:
  ExchangeTest()
      : layout_(testing::SmallLayout(4, 8)), map_(*ShardMap::Create(layout_.size(), 1, 64)) {}

  void SetFragments() {
    Fragments* const fragments = job_.mutable_downpour()->mutable_local()->mutable_fragments();
    fragments->set_count(2);
    fragments->set_order(Fragments::BY_STRIPE);
    fragments_ = *FragmentMap::Create(*fragments, layout_, map_);
  }
  void SetDifferences(uint32_t local_steps) {
    job_.mutable_downpour()->mutable_local()->set_steps(local_steps);
    job_.mutable_downpour()->mutable_local()->mutable_inner()->mutable_sgd()->set_rate(1.0);
  }
  void Make() {
    const auto options = DownpourRunnerOptions::From(job_, 0, fragments_);
    auto local = LocalUpdater::Create(job_.downpour(), map_, {}, fragments_);
    ASSERT_OK(local.status());
    statistics_ = std::make_unique<StatisticsKeeper>(
        layout_, StatisticsKeeper::Options{.local_update = *local != nullptr});
    plan_ = std::make_unique<FetchPlan>(FetchPlan::Options{.fragments = fragments_});
    exchange_ = MakeExchange(options, layout_.size(), &group_, *std::move(local), statistics_.get(),
                             plan_.get());
  }
  // All parameters are `value`, of that version, and have all own pushes but the newest `lacks`.
  void Land(float value, uint64_t version, uint64_t sequence = 0,
            std::optional<uint32_t> fragment = {}) {
    std::ranges::fill(exchange_->parameters().free_back(), value);
    auto marks = std::make_shared<FetchMarks>();
    marks->shard = {{{1, version, sequence}, {1, version, sequence}}};
    const bool keeps = plan_->keeps_steps();
    ASSERT_TRUE(plan_->Land(fragment));
    ASSERT_OK(exchange_->Land({std::move(marks), fragment, keeps, /*replicas=*/2}));
  }
  // A round whose gradient is `g` everywhere, before the push with that sequence.
  void Round(float g, uint64_t sequence = 1, uint32_t told = 0) {
    exchange_->BeginRound(sequence, told);
    const std::span<float> gradient = exchange_->step_buffer();
    std::ranges::fill(gradient, g);
    ASSERT_OK(exchange_->parameters().Step(gradient));
    exchange_->EndRound();
  }
  // The first float of each fragment.
  std::vector<float> Front() const {
    const std::span<const float> front = exchange_->parameters().front();
    return {front[0], front[kStripe]};
  }
  std::vector<float> Seal(uint64_t sequence) {
    absl::StatusOr<Accumulation> push = exchange_->Seal(sequence);
    EXPECT_OK(push.status());
    EXPECT_OK(push->Await());
    return {push->gradient[0], push->gradient[kStripe]};
  }

  const ParameterLayout layout_;
  const ShardMap map_;
  FakeNetwork network_;
  ReplicaGroup group_{{}, &network_};
  Job job_;
  FragmentMap fragments_;
  std::unique_ptr<StatisticsKeeper> statistics_;
  std::unique_ptr<FetchPlan> plan_;
  std::unique_ptr<Exchange> exchange_;
};

// ---- gradients -----------------------------------------------------------------

TEST_F(ExchangeTest, GradientsAreSummedUpAndNothingElseMoves) {
  job_.mutable_downpour()->set_n_fetch(3);
  job_.mutable_downpour()->set_n_push(2);
  Make();
  EXPECT_FALSE(exchange_->awaits_push());
  EXPECT_FALSE(exchange_->takes_steps());
  EXPECT_TRUE(exchange_->IsBoundary(0));
  EXPECT_FALSE(exchange_->IsBoundary(2));
  EXPECT_TRUE(exchange_->IsBoundary(3));
  Land(7, 1);
  Round(1);
  EXPECT_FALSE(exchange_->full());
  EXPECT_FALSE(exchange_->drained());
  Round(2);
  EXPECT_TRUE(exchange_->full());
  EXPECT_THAT(Front(), Each(7));
  EXPECT_FALSE(exchange_->LandsBefore(1, /*fetching=*/true));
  EXPECT_THAT(Seal(1), Each(3));
  EXPECT_TRUE(exchange_->drained());
}

TEST_F(ExchangeTest, ALocalUpdateIsPutOnTopOfWhatLands) {
  job_.mutable_downpour()->mutable_local_update()->set_sgd_rate(0.5);
  Make();
  Land(10, 1);
  Round(2);
  EXPECT_THAT(Front(), Each(9));
  EXPECT_THAT(Seal(1), Each(2));
  Round(4);
  EXPECT_THAT(Seal(2), Each(4));
  Land(20, 2, /*sequence=*/1);  // it lacks the second
  EXPECT_THAT(Front(), Each(18));
  exchange_->Refuse(2);
  Land(20, 2, /*sequence=*/1);
  EXPECT_THAT(Front(), Each(20));
}

TEST_F(ExchangeTest, AnUnusableRoundEndsItsBlocksAlone) {
  Make();
  Land(1, 1);
  exchange_->FinishPart(BlockId());
  EXPECT_OK(exchange_->EndUnusableRound("here"));
  EXPECT_TRUE(exchange_->drained());
  EXPECT_EQ(exchange_->TakeParts().size(), 1u);
  EXPECT_THAT(exchange_->TakeParts(), IsEmpty());
}

// ---- differences ---------------------------------------------------------------

TEST_F(ExchangeTest, ADifferenceIsWhatItsStepsMoved) {
  SetDifferences(2);
  Make();
  EXPECT_TRUE(exchange_->awaits_push());
  EXPECT_TRUE(exchange_->takes_steps());
  Land(10, 1);
  EXPECT_TRUE(exchange_->IsBoundary(0));
  Round(1);
  EXPECT_FALSE(exchange_->IsBoundary(1));
  EXPECT_FALSE(exchange_->full());
  Round(2);
  EXPECT_TRUE(exchange_->full());
  EXPECT_THAT(Front(), Each(7));
  EXPECT_TRUE(exchange_->LandsBefore(1, /*fetching=*/true));
  EXPECT_FALSE(exchange_->LandsBefore(1, /*fetching=*/false));
  EXPECT_THAT(Seal(1), Each(3));
  EXPECT_TRUE(exchange_->drained());
  Round(4);
  Land(20, 2, /*sequence=*/1);  // what the shards made of it, and the step since
  EXPECT_THAT(Front(), Each(16));
}

TEST_F(ExchangeTest, FragmentsLeaveInTurnEachWithItsOwnSteps) {
  SetFragments();
  SetDifferences(5);
  Make();
  Land(0, 1);
  int rounds = 0;
  const auto until_full = [&](uint64_t sequence) {
    do {
      Round(1, sequence);
      ++rounds;
    } while (!exchange_->full());
    return rounds;
  };
  EXPECT_EQ(until_full(1), 2);
  EXPECT_THAT(Seal(1), ElementsAre(2, 0));
  EXPECT_FALSE(exchange_->drained());  // the other one has steps that have not left
  EXPECT_EQ(until_full(2), 5);
  EXPECT_THAT(Seal(2), ElementsAre(0, 5));
  plan_->NotePushed(1);
  Land(100, 2, fragments_.PushesBefore(0, 1), /*fragment=*/0);
  EXPECT_THAT(Front(), ElementsAre(97, -5));  // three steps since
  EXPECT_THAT(Seal(3), ElementsAre(3, 0));    // a flush
  EXPECT_TRUE(exchange_->drained());
}

TEST_F(ExchangeTest, InRoundsAFragmentWaitsForItsOwnLandingAlone) {
  SetFragments();
  SetDifferences(4);
  job_.mutable_downpour()->mutable_rounds();
  Make();
  Land(0, 1);
  plan_->NotePushed(1);
  EXPECT_FALSE(exchange_->LandsBefore(2, /*fetching=*/true));
  EXPECT_TRUE(exchange_->LandsBefore(3, /*fetching=*/false));
}

TEST_F(ExchangeTest, ADifferenceHasSoManyStepsAsItsWorkerIsTold) {
  SetDifferences(4);
  job_.mutable_downpour()->mutable_local()->set_dynamic(true);
  Make();
  Land(0, 1);
  const auto steps = [&](std::vector<uint32_t> told) {
    int rounds = 0;
    do {
      Round(1, 1, told[std::min<size_t>(rounds, told.size() - 1)]);
      ++rounds;
    } while (!exchange_->full());
    Seal(1);
    return rounds;
  };
  EXPECT_EQ(steps({0}), 4);
  EXPECT_EQ(steps({2}), 2);
  EXPECT_EQ(steps({3, 1}), 3);  // it keeps what it began with
  EXPECT_EQ(steps({100}), 4);
}

TEST_F(ExchangeTest, ARefusedDifferenceIsGivenUp) {
  SetDifferences(2);
  Make();
  Land(10, 1);
  Round(1);
  Seal(1);
  Round(1, 2);
  exchange_->Refuse(1);
  EXPECT_TRUE(plan_->must_land());
  EXPECT_FALSE(plan_->keeps_steps());
  Land(10, 1);
  EXPECT_THAT(Front(), Each(10));  // without the step since, too
}

TEST_F(ExchangeTest, OfANetworkThatHasACopyWhatWasFetchedIsHeldOnce) {
  network_.own.assign(layout_.size(), 0.0f);
  Make();
  Land(7, 1);
  EXPECT_EQ(network_.given, 1);
  // The next fetch writes where the last one did, once the network has taken that.
  const std::span<const float> landed = exchange_->parameters().back();
  const std::span<float> next = exchange_->parameters().free_back();
  EXPECT_EQ(next.data(), landed.data());
  std::ranges::fill(next, 9.0f);
  EXPECT_THAT(network_.own, Each(7));
  EXPECT_THAT(Front(), Each(7));
  exchange_->parameters().Restore();  // the copy was not lent out, and this is half of a fetch
  EXPECT_EQ(network_.given, 1);
}

TEST_F(ExchangeTest, AnUnusableRoundGivesUpParametersThatAreNoNumbers) {
  SetDifferences(4);
  Make();
  Land(10, 1);
  Round(1);
  EXPECT_OK(exchange_->EndUnusableRound("here"));
  EXPECT_FALSE(plan_->must_land());
  Round(std::numeric_limits<float>::infinity());
  EXPECT_OK(exchange_->EndUnusableRound("here"));
  EXPECT_TRUE(plan_->must_land());
}

TEST_F(ExchangeTest, ALateSessionGoesOnWithTheScheduleOfTheOthers) {
  SetDifferences(4);
  Schedule* const schedule =
      job_.mutable_downpour()->mutable_local()->mutable_inner()->mutable_schedule();
  schedule->mutable_step()->set_every_pushes(12);
  schedule->mutable_step()->set_factor(0.5);
  Make();
  Land(0, 6);  // two replicas have pushed three times each
  Round(1);
  EXPECT_THAT(Front(), Each(-0.5f));
}

// ---- what a job's settings mean ------------------------------------------------

TEST(DownpourOptionsTest, LocalStepsOfANetworkAreTheRunnersOfAProgramItsOwn) {
  Job job;
  job.mutable_downpour()->mutable_local()->set_steps(8);
  DownpourRunnerOptions options = DownpourRunnerOptions::From(job, 0);
  EXPECT_EQ(options.exchange, ExchangeKind::kGradients);  // a call's, whole and at once
  EXPECT_EQ(options.n_push, 1u);
  EXPECT_EQ(options.overlap, ASYNC);

  job.mutable_downpour()->mutable_local()->set_mixing(0.5);  // a part of it stays behind
  options = DownpourRunnerOptions::From(job, 0);
  EXPECT_EQ(options.exchange, ExchangeKind::kDifferences);
  EXPECT_EQ(options.turn_steps, 1u);

  job.mutable_downpour()->mutable_rounds();
  EXPECT_EQ(DownpourRunnerOptions::From(job, 0).overlap, NONE);

  job.mutable_downpour()->mutable_local()->set_dynamic(true);
  EXPECT_FALSE(DownpourRunnerOptions::From(job, 0).paced);  // the program counts them

  job.mutable_downpour()->mutable_local()->mutable_inner()->mutable_sgd()->set_rate(1.0);
  options = DownpourRunnerOptions::From(job, 0);
  EXPECT_EQ(options.exchange, ExchangeKind::kDifferences);
  EXPECT_EQ(options.turn_steps, 8u);
  EXPECT_TRUE(options.paced);
  EXPECT_EQ(options.overlap, ASYNC);
}

}  // namespace
}  // namespace monsoon
