// Fragments, landings and mixing (Streaming DiLoCo): a replica against a shard of two stripes,
// each a fragment.
#include <cmath>
#include <functional>
#include <memory>
#include <optional>
#include <semaphore>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/base/mutex.h"
#include "common/testing/status_matchers.h"
#include "proto/optimizer.pb.h"
#include "worker/downpour/downpour_runner.h"
#include "worker/testing/fakes.h"

namespace monsoon {
namespace {

using ::testing::ElementsAre;
using testing::FakeNetwork;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using testing::SmallLayout;

constexpr size_t kStripe = 16;
constexpr absl::Duration kLong = absl::Seconds(30);

// w -= g of the push's fragment, and then `foreign`, what others do to it. Thread safe.
class FragmentShards : public ParameterClient {
 public:
  explicit FragmentShards(const FragmentMap& fragments) : fragments_(fragments) {}

  absl::Status Fetch(std::span<float> parameters, FetchMarks* marks, FetchStats*) override {
    return Read({}, parameters, marks);
  }
  absl::Status FetchFragment(uint32_t fragment, std::span<float> parameters, FetchMarks* marks,
                             FetchStats*) override {
    return Read(fragment, parameters, marks);
  }
  absl::StatusOr<PushResult> Push(const GradientView& gradient, const FetchMarks& base) override {
    if (before_push) before_push();
    MutexLock lock(&mutex_);
    PushResult result;
    result.sequence = ++pushes_;
    const uint32_t fragment = fragments_.OfPush(pushes_);
    log_ += absl::StrCat("push", fragment, " ");
    pushed_.push_back(gradient.floats[fragment * kStripe]);
    others_.push_back(gradient.floats[(1 - fragment) * kStripe]);
    weights_.push_back(gradient.weight);
    parts_.push_back(gradient.part);
    bases_.push_back(base.shard[0][fragment].version);
    if (std::exchange(refuse_, false)) {
      result.refused_invalid = 1;
      result.first_refusal = "refused by the test";
      return result;
    }
    w_[fragment] += foreign - gradient.floats[fragment * kStripe];
    ++version_[fragment];
    return result;
  }
  absl::Status Write(std::span<const float>, const WriteOptions&) override {
    return absl::UnimplementedError("not in this test");
  }
  void Cancel() override {}

  void RefuseNext() {
    MutexLock lock(&mutex_);
    refuse_ = true;
  }
  uint64_t fetches() const {
    MutexLock lock(&mutex_);
    return fetches_;
  }
  std::string log() const {
    MutexLock lock(&mutex_);
    return log_;
  }
  std::vector<float> pushed() const {
    MutexLock lock(&mutex_);
    return pushed_;
  }
  // What a push holds of the fragment that it is not of.
  std::vector<float> others() const {
    MutexLock lock(&mutex_);
    return others_;
  }
  std::vector<float> weights() const {
    MutexLock lock(&mutex_);
    return weights_;
  }
  std::vector<float> parts() const {
    MutexLock lock(&mutex_);
    return parts_;
  }
  std::vector<uint64_t> bases() const {
    MutexLock lock(&mutex_);
    return bases_;
  }

  float foreign = 0;                          // set before use
  std::vector<uint64_t> open_until = {0, 0};  // of each fragment the push that ends its round
  std::function<void()> before_push;          // may block

 private:
  absl::Status Read(std::optional<uint32_t> fragment, std::span<float> parameters,
                    FetchMarks* marks) {
    MutexLock lock(&mutex_);
    if (fragment.has_value() && pushes_ < open_until[*fragment]) {
      return absl::UnavailableError("the round waits for others");
    }
    log_ += fragment.has_value() ? absl::StrCat("fetch", *fragment, " ") : "fetch ";
    fetches_ += fragment.has_value() ? 1 : 0;
    marks->shard = {{StripeMark(), StripeMark()}};
    for (uint32_t stripe = 0; stripe < 2; ++stripe) {
      if (fragment.value_or(stripe) == stripe) {
        std::ranges::fill(parameters.subspan(stripe * kStripe, kStripe), w_[stripe]);
        const uint64_t own = (pushes_ + 1 - stripe) / 2;
        marks->shard[0][stripe] = {7, version_[stripe], fragments_.PushesBefore(stripe, own)};
      }
    }
    return absl::OkStatus();
  }

  const FragmentMap fragments_;
  mutable Mutex mutex_;
  float w_[2] ABSL_GUARDED_BY(mutex_) = {0, 0};
  uint64_t version_[2] ABSL_GUARDED_BY(mutex_) = {0, 0};
  uint64_t pushes_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t fetches_ ABSL_GUARDED_BY(mutex_) = 0;  // of fragments
  bool refuse_ ABSL_GUARDED_BY(mutex_) = false;
  std::string log_ ABSL_GUARDED_BY(mutex_);
  std::vector<float> pushed_ ABSL_GUARDED_BY(mutex_);
  std::vector<float> others_ ABSL_GUARDED_BY(mutex_);
  std::vector<float> weights_ ABSL_GUARDED_BY(mutex_);
  std::vector<float> parts_ ABSL_GUARDED_BY(mutex_);
  std::vector<uint64_t> bases_ ABSL_GUARDED_BY(mutex_);
};

// Step s has the gradient s + 1 in one fragment and 2 (s + 1) in the other, and remembers what
// it saw of each.
class TwoPartNetwork : public FakeNetwork {
 public:
  void SetParameters(std::span<const float> parameters) override {
    FakeNetwork::SetParameters(parameters);
    parameters_ = parameters;
  }
  absl::StatusOr<StepResult> LossAndGradient(const Batch& batch, const StepKey& key,
                                             std::span<float> gradient) override {
    saw.push_back({parameters_[0], parameters_[kStripe]});
    ASSIGN_OR_RETURN(const StepResult result, FakeNetwork::LossAndGradient(batch, key, gradient));
    for (float& g : gradient.subspan(kStripe)) g *= 2;
    return result;
  }
  std::vector<std::pair<float, float>> saw;

 private:
  std::span<const float> parameters_;
};

class FragmentsTest : public ::testing::Test {
 protected:
  FragmentsTest() : layout_(SmallLayout(4, 8)), map_(*ShardMap::Create(layout_.size(), 1, 64)) {
    Fragments* const fragments = downpour_.mutable_local()->mutable_fragments();
    fragments->set_count(2);
    fragments->set_order(Fragments::BY_STRIPE);
    fragments_ = *FragmentMap::Create(*fragments, layout_, map_);
    shards_ = std::make_unique<FragmentShards>(fragments_);
    batch_.examples = 1;
    downpour_.set_overlap(NONE);
    downpour_.mutable_local()->set_steps(4);
    downpour_.mutable_local()->mutable_inner()->mutable_sgd()->set_rate(1.0);
  }

  DownpourRunner& Runner() {
    if (runner_ == nullptr) {
      Job job;
      *job.mutable_downpour() = downpour_;
      job.set_batch_size(1);
      auto local = LocalUpdater::Create(downpour_, map_, {}, fragments_);
      EXPECT_OK(local.status());
      runner_ = std::make_unique<DownpourRunner>(
          DownpourRunnerOptions::From(job, 0, fragments_), &layout_, shards_.get(), &group_,
          *std::move(local), &stats_, &control_, Clock::Real(), DifferenceWeigher(job, 1));
    }
    return *runner_;
  }
  void Steps(int count) {
    for (int i = 0; i < count; ++i) {
      Runner().Add(&batch_, std::nullopt);
      ASSERT_OK(Runner().Step());
    }
  }

  // The definitions of job.proto by scalars, in double: what each step sees.
  std::vector<std::pair<double, double>> Oracle(int steps, int each, int landing, double mixing) {
    double w[2] = {0, 0}, base[2] = {0, 0}, local[2] = {0, 0}, landed = 0;
    int landing_at = -1, fragment = -1;
    std::vector<std::pair<double, double>> saw;
    const auto land = [&] {
      const double since = local[fragment] - base[fragment];
      local[fragment] =
          mixing > 0 ? mixing * local[fragment] + (1 - mixing) * landed : landed + since;
      base[fragment] = landed;
    };
    for (int s = 0; s < steps; ++s) {
      saw.push_back({local[0], local[1]});
      local[0] -= s + 1;
      local[1] -= 2 * (s + 1);
      if (s + 1 == landing_at) {
        land();  // before the next push
      }
      if ((s + 1) % each == 0) {
        fragment = ((s + 1) / each - 1) % 2;
        w[fragment] += shards_->foreign - (base[fragment] - local[fragment]);
        base[fragment] = local[fragment];  // what is pushed is not pushed again
        landed = w[fragment];
        landing_at = s + 1 + landing;
        if (landing == 0) {
          land();
        }
      }
    }
    return saw;
  }
  void ExpectOracle(int steps, int each, int landing, double mixing) {
    const auto oracle = Oracle(steps, each, landing, mixing);
    ASSERT_EQ(network_.saw.size(), oracle.size());
    for (int s = 0; s < steps; ++s) {
      EXPECT_NEAR(network_.saw[s].first, oracle[s].first, 1e-3) << "step " << s;
      EXPECT_NEAR(network_.saw[s].second, oracle[s].second, 1e-3) << "step " << s;
    }
  }

  Downpour downpour_;
  const ParameterLayout layout_;
  const ShardMap map_;
  FragmentMap fragments_;
  std::unique_ptr<FragmentShards> shards_;
  TwoPartNetwork network_;
  ReplicaGroup group_{{}, &network_};
  StatsCollector stats_;
  SessionControl control_{Clock::Real(), kLong};
  Batch batch_{1, 4};
  std::unique_ptr<DownpourRunner> runner_;
};

TEST_F(FragmentsTest, TheyLeaveAndComeBackInTurn) {
  shards_->foreign = 0.5f;
  Steps(9);
  EXPECT_EQ(shards_->log(), "fetch push0 fetch0 push1 fetch1 push0 fetch0 push1 fetch1 ");
  // The first one leaves after two steps, the others after four of their own.
  EXPECT_THAT(shards_->pushed(),
              ElementsAre(1 + 2, 2 * (1 + 2 + 3 + 4), 3 + 4 + 5 + 6, 2 * (5 + 6 + 7 + 8)));
  EXPECT_THAT(shards_->others(), ElementsAre(0, 0, 0, 0));
  EXPECT_THAT(shards_->bases(), ElementsAre(0, 0, 1, 1));
  ExpectOracle(9, 2, 0, 0);
}

TEST_F(FragmentsTest, StepsThatDoNotDivideAreDealtOut) {
  downpour_.mutable_local()->set_steps(5);
  Steps(10);
  // After 2, 5, 7 and 10 steps.
  EXPECT_THAT(shards_->pushed(), ElementsAre(1 + 2, 2 * (1 + 2 + 3 + 4 + 5), 3 + 4 + 5 + 6 + 7,
                                             2 * (6 + 7 + 8 + 9 + 10)));
}

TEST_F(FragmentsTest, MixingKeepsAPartOfWhatTheReplicaHas) {
  shards_->foreign = 0.5f;
  downpour_.mutable_local()->set_mixing(0.25);
  Steps(12);
  ExpectOracle(12, 2, 0, 0.25);
}

TEST_F(FragmentsTest, ALandingComesSoManyStepsLaterNoSoonerAndNoLater) {
  shards_->foreign = 0.5f;
  downpour_.set_overlap(ASYNC);
  downpour_.mutable_local()->set_steps(8);
  for (const uint32_t landing : {1u, 3u, 4u}) {
    downpour_.mutable_local()->set_landing_steps(landing);
    runner_.reset();
    network_.saw.clear();
    shards_ = std::make_unique<FragmentShards>(fragments_);
    shards_->foreign = 0.5f;
    uint64_t step = 0;
    // What could land is there in the step behind its push.
    network_.before_step = [&](uint64_t) {
      const absl::Duration end = Clock::Real()->Now() + kLong;
      while (shards_->fetches() < step / 4 && Clock::Real()->Now() < end) {
        ASSERT_OK(Runner().Advance());
      }
      ++step;
    };
    Steps(24);
    ASSERT_OK(Runner().Flush());
    ExpectOracle(24, 4, static_cast<int>(landing), 0);
  }
}

TEST_F(FragmentsTest, ALateLandingIsMixed) {
  shards_->foreign = 0.5f;
  downpour_.set_overlap(ASYNC);
  downpour_.mutable_local()->set_steps(8);
  downpour_.mutable_local()->set_landing_steps(2);
  downpour_.mutable_local()->set_mixing(0.5);
  Steps(24);
  ExpectOracle(24, 4, 2, 0.5);
}

TEST_F(FragmentsTest, AFlushPushesWhatEachFragmentStillHas) {
  Steps(5);
  ASSERT_OK(Runner().Flush());
  // Both have the fifth step.
  EXPECT_THAT(shards_->pushed(), ElementsAre(1 + 2, 2 * (1 + 2 + 3 + 4), 3 + 4 + 5, 2 * 5));
  Steps(1);  // with all that others made of them
  EXPECT_THAT(shards_->log(), HasSubstr("push0 push1 fetch "));
  EXPECT_EQ(network_.saw.back(), std::pair(-15.0f, -30.0f));
  ASSERT_OK(Runner().Flush());
  ASSERT_OK(Runner().Flush());  // there is nothing more
  EXPECT_THAT(shards_->pushed(), SizeIs(6));
}

TEST_F(FragmentsTest, ABlockIsDoneWithThePushOfItsLastFragment) {
  const auto block = [](uint64_t index) {
    BlockId id;
    id.set_block(index);
    return id;
  };
  Steps(1);
  Runner().Add(&batch_, block(1));
  ASSERT_OK(Runner().Step());  // push 1
  EXPECT_THAT(Runner().TakeDone(), IsEmpty());
  Steps(1);
  EXPECT_THAT(Runner().TakeDone(), IsEmpty());
  Runner().Add(&batch_, block(2));
  ASSERT_OK(Runner().Step());  // push 2, the other fragment's
  const std::vector<DonePart> done = Runner().TakeDone();
  ASSERT_EQ(done.size(), 1u);
  EXPECT_EQ(std::get<BlockId>(done[0]).block(), 1u);
  ASSERT_OK(Runner().Flush());
  EXPECT_EQ(Runner().TakeDone().size(), 1u);
}

TEST_F(FragmentsTest, ARefusedFragmentIsGivenUpWithAllStepsSinceAndTheWholeIsFetched) {
  for (const Overlap overlap : {NONE, ASYNC}) {
    SCOPED_TRACE(Overlap_Name(overlap));
    downpour_.set_overlap(overlap);
    downpour_.mutable_local()->set_mixing(0.5);  // of nothing that was given up
    runner_.reset();
    network_.saw.clear();
    shards_ = std::make_unique<FragmentShards>(fragments_);
    shards_->RefuseNext();
    Steps(20);
    ASSERT_OK(Runner().Flush());
    const std::string log = shards_->log();
    EXPECT_EQ(log.substr(0, 12), "fetch push0 ");
    EXPECT_NE(log.find(" fetch ", 5), std::string::npos) << log;
    // At some step it began anew from what the shards had.
    EXPECT_EQ(std::ranges::count(network_.saw, std::pair(0.0f, 0.0f)), 2);
  }
}

TEST_F(FragmentsTest, AFragmentsWeightIsOfAllItsSteps) {
  downpour_.mutable_local()->set_weight(STEPS);
  Steps(6);
  // Of local_steps; the first of fragment 0 has two.
  EXPECT_THAT(shards_->weights(), ElementsAre(0.5f, 1, 1));
}

// Of four steps each; the first of fragment 0 is as long as it was to be.
TEST_F(FragmentsTest, AFlushEndsTheDifferenceOfEachFragmentEarly) {
  Steps(5);
  ASSERT_OK(Runner().Flush());
  EXPECT_THAT(shards_->parts(), ElementsAre(1, 1, 0.75f, 0.25f));
  Steps(6);  // 0 leaves two steps after the flush
  EXPECT_THAT(shards_->parts(), ElementsAre(1, 1, 0.75f, 0.25f, 0.5f, 1, 1));
}

// Workers may be at different fragments: each pushes on to the other's rounds.
TEST_F(FragmentsTest, ARoundThatIsOpenHoldsUpItsOwnFragmentAlone) {
  downpour_.set_overlap(ASYNC);
  downpour_.mutable_rounds();
  shards_->open_until = {2, 3};  // of fragment 0 until push 2 is there, of 1 until push 3
  Steps(12);
  ASSERT_OK(Runner().Flush());
  EXPECT_THAT(shards_->pushed(), SizeIs(6 + 1));
  const std::string log = shards_->log();
  EXPECT_EQ(log.substr(0, 12), "fetch push0 ");
  // Fragment 0 is not pushed again before its round is over.
  EXPECT_LT(log.find("push1"), log.find("fetch0")) << log;
  EXPECT_LT(log.find("fetch0"), log.find("push0", 12)) << log;
}

// Of a program, whose steps are differences: each call pushes one fragment.
TEST_F(FragmentsTest, AProgramsDifferenceLeavesByFragment) {
  downpour_.mutable_local()->clear_inner();
  downpour_.mutable_local_update()->set_sgd_rate(1.0);  // as the sidecar does
  shards_->foreign = 0.5f;
  Steps(5);
  EXPECT_THAT(shards_->pushed(), ElementsAre(1, 2 * (1 + 2), 2 + 3, 2 * (3 + 4), 4 + 5));
  ExpectOracle(5, 1, 0, 0);
}

// A push that ends within the program's next step is followed by its fetch at once.
TEST_F(FragmentsTest, AProgramsFragmentIsFetchedWhileTheProgramComputes) {
  downpour_.set_overlap(ASYNC);
  downpour_.mutable_local()->clear_inner();
  downpour_.mutable_local_update()->set_sgd_rate(1.0);
  shards_->foreign = 0.5f;
  std::counting_semaphore<> computing(0);
  shards_->before_push = [&] { computing.acquire(); };
  const std::string all = "fetch push0 fetch0 push1 fetch1 push0 fetch0 ";
  const std::vector<size_t> seen_at = {6, 19, 32, 45};
  network_.before_step = [&](uint64_t step) {
    if (step > 0) {
      computing.release();
    }
    const absl::Duration end = Clock::Real()->Now() + kLong;
    while (shards_->log().size() < seen_at[step] && Clock::Real()->Now() < end) {
      ASSERT_OK(Runner().Advance());
    }
    EXPECT_EQ(shards_->log(), all.substr(0, seen_at[step])) << "step " << step;
  };
  Steps(4);
  computing.release(4);
  ASSERT_OK(Runner().Flush());
  ExpectOracle(4, 1, 1, 0);
}

TEST_F(FragmentsTest, WhatAShardRefusesWhileTheProgramComputesWaitsForTheStepsEnd) {
  downpour_.set_overlap(ASYNC);
  downpour_.mutable_local()->clear_inner();
  downpour_.mutable_local_update()->set_sgd_rate(1.0);
  std::counting_semaphore<> computing(0);
  shards_->before_push = [&] { computing.acquire(); };
  shards_->RefuseNext();
  network_.before_step = [&](uint64_t step) {
    if (step != 1) {
      return;
    }
    computing.release(8);
    const absl::Duration end = Clock::Real()->Now() + kLong;
    while (shards_->pushed().empty() && Clock::Real()->Now() < end) {
      ASSERT_OK(Runner().Advance());
    }
    for (int i = 0; i < 1000; ++i) {
      ASSERT_OK(Runner().Advance());
    }
    EXPECT_EQ(shards_->log(), "fetch push0 ");
  };
  Steps(2);
  network_.before_step = nullptr;
  Steps(1);
  // Both steps are given up, and the third begins with what the shards have.
  EXPECT_EQ(network_.saw.back(), std::pair(0.0f, 0.0f));
  EXPECT_THAT(shards_->log(), HasSubstr("fetch push0 fetch "));
  ASSERT_OK(Runner().Flush());
}

}  // namespace
}  // namespace monsoon
