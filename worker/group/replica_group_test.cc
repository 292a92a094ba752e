#include "worker/group/replica_group.h"

#include <atomic>
#include <deque>
#include <thread>

#include "common/base/status.h"
#include "common/testing/status_matchers.h"
#include "worker/session/session_status.h"

namespace monsoon {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::StatusIs;

constexpr absl::Duration kLong = absl::Seconds(30);
constexpr size_t kFloats = 16;

// Counts up; threads wait for a count.
class Counter {
 public:
  void Add() {
    MutexLock lock(&mutex_);
    ++count_;
    changed_.NotifyAll();  // under the lock: who waited may destroy the counter
  }
  bool Await(int count) {
    MutexLock lock(&mutex_);
    return changed_.WaitFor(&mutex_, kLong, [&] {
      mutex_.AssertHeld();
      return count_ >= count;
    });
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  int count_ ABSL_GUARDED_BY(mutex_) = 0;
};

// The gradient is the batch's first value everywhere, plus the first parameter.
class ReplicaNetwork : public Network {
 public:
  using Hook = std::function<absl::Status(uint32_t replica, float value)>;

  ReplicaNetwork(uint32_t replica, Hook hook, Counter* destroyed = nullptr)
      : replica_(replica), hook_(std::move(hook)), destroyed_(destroyed) {}
  ~ReplicaNetwork() override {
    if (destroyed_ != nullptr) destroyed_->Add();
  }
  void SetParameters(std::span<const float> parameters) override { parameters_ = parameters; }
  absl::StatusOr<StepResult> LossAndGradient(const Batch& batch, const StepKey& key,
                                             std::span<float> gradient) override {
    const float value = batch.inputs.data()[0];
    if (hook_) RETURN_IF_ERROR(hook_(replica_, value));
    std::fill(gradient.begin(), gradient.end(), value + parameters_[0]);
    return StepResult{static_cast<double>(key.step), static_cast<double>(replica_), batch.examples};
  }
  absl::StatusOr<EvaluationResult> Evaluate(const Batch& batch) override {
    if (hook_) RETURN_IF_ERROR(hook_(replica_, batch.inputs.data()[0]));
    seen_.label = static_cast<uint32_t>(batch.inputs.data()[0]);
    EvaluationResult result{.loss_sum = 1.0, .examples = batch.examples};
    result.judgement.predictions = {&seen_, 1};
    return result;
  }
  std::string Fingerprint() const override { return fingerprint; }

  std::string fingerprint = "fake device";

 private:
  const uint32_t replica_;
  const Hook hook_;
  Counter* const destroyed_;
  std::span<const float> parameters_;
  Prediction seen_;  // of its last evaluation
};

class ReplicaGroupTest : public ::testing::Test {
 protected:
  ReplicaGroupTest()
      : parameters_(std::make_shared<AlignedFloats>(AlignedFloats::NanFilled(kFloats))) {
    parameters_->Fill(0.0f);
    options_.worker = 2;
    options_.stats = &stats_;
  }
  ~ReplicaGroupTest() override { group_.reset(); }

  ReplicaGroup& Make(uint32_t replicas, ReplicaNetwork::Hook hook = nullptr) {
    auto made = ReplicaGroup::Create(options_, replicas, [&](uint32_t replica) {
      return std::make_unique<ReplicaNetwork>(replica, hook, &destroyed_);
    });
    EXPECT_OK(made.status());
    group_ = *std::move(made);
    group_->SetParameters(parameters_);
    return *group_;
  }
  // Adds batches with these first values.
  void Add(std::initializer_list<float> values) {
    for (const float value : values) {
      Batch& batch = batches_.emplace_back(1, 4);  // a group of one reads it in place
      batch.inputs.Fill(value);
      batch.examples = 1;
      group_->Add(&batch, StepKey{0, 2, next_step_++, {}});
    }
  }
  float Sum() {
    EXPECT_TRUE(group_->Sum(sum_.span()));
    return sum_.data()[kFloats - 1];
  }

  StatsCollector stats_;
  ReplicaGroup::Options options_;
  Counter destroyed_;
  SharedBuffer parameters_;
  std::deque<Batch> batches_;
  std::unique_ptr<ReplicaGroup> group_;
  AlignedFloats sum_ = AlignedFloats::NanFilled(kFloats);
  uint64_t next_step_ = 0;
};

TEST_F(ReplicaGroupTest, SumsInTheOrderOfTheBatchesWhateverTheTiming) {
  // In another order of additions the ones get lost, or do not.
  const float expected = ((1e8f + 1.0f) + -1e8f) + 1.0f;
  ASSERT_EQ(expected, 1.0f);
  for (const bool backwards : {false, true}) {
    Counter turns[5];
    Make(4, [&](uint32_t replica, float) {
      // Each waits for its neighbour to finish.
      const uint32_t before = backwards ? replica + 1 : replica;
      const uint32_t mine = backwards ? replica : replica + 1;
      EXPECT_TRUE(turns[before].Await(1));
      turns[mine].Add();
      return absl::OkStatus();
    });
    turns[backwards ? 4 : 0].Add();
    Add({1e8f, 1.0f, -1e8f, 1.0f});
    ASSERT_OK(group_->ComputeGradients({}));
    EXPECT_EQ(Sum(), expected);
    group_.reset();
  }
}

// It is filled again with samples of the same data set.
TEST_F(ReplicaGroupTest, WhoAddsABatchGetsOneOfItsFormatBack) {
  Make(2);
  const SampleFormat sequence{.values = 3, .labels = 2};
  const SampleFormat targets{.values = 3, .labels = 0, .targets = 5, .weighted = true};
  for (const SampleFormat& format : {targets, sequence, targets}) {
    for (int replica = 0; replica < 2; ++replica) {
      Batch& batch = batches_.emplace_back(4, format);
      batch.inputs.Fill(1.0f);
      batch.examples = 4;
      group_->Add(&batch, StepKey{0, 2, next_step_++, {}});
      EXPECT_EQ(batch.format(), format);
      EXPECT_EQ(batch.capacity(), 4u);
    }
    ASSERT_OK(group_->ComputeGradients({}));
  }
}

TEST_F(ReplicaGroupTest, EachMemberHasItsBatchAndAllTheSameParameters) {
  Make(3);
  parameters_->Fill(10.0f);
  group_->SetParameters(parameters_);
  Add({1, 2, 3});
  EXPECT_EQ(group_->room(), 0u);
  ASSERT_OK(group_->ComputeGradients({}));
  ASSERT_EQ(group_->size(), 3u);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(group_->gradient(i)[0], 11.0f + static_cast<float>(i));
    EXPECT_EQ(group_->result(i).correct, i);  // the replica's number
    EXPECT_EQ(group_->result(i).loss_mean, static_cast<double>(i));
    EXPECT_GT(group_->result(i).computing, absl::ZeroDuration());
    EXPECT_EQ(group_->result(i).computing, group_->result(0).computing) << "the round's";
  }
  EXPECT_EQ(Sum(), 36.0f);
  // A short round, and one without a batch that was dropped.
  Add({5, 6});
  ASSERT_OK(group_->ComputeGradients({}));
  EXPECT_EQ(group_->size(), 2u);
  group_->Drop(0);
  EXPECT_EQ(Sum(), 16.0f);
  group_->Drop(1);
  EXPECT_FALSE(group_->Sum(sum_.span()));
}

TEST_F(ReplicaGroupTest, AFailedMemberLeavesAndItsBatchIsComputedByAnother) {
  std::atomic<int> calls_of_1{0};
  Make(4, [&](uint32_t replica, float) {
    return replica == 1 && ++calls_of_1 == 2 ? absl::InternalError("an illegal address in relu1")
                                             : absl::OkStatus();
  });
  for (int round = 0; round < 2; ++round) {
    Add({1, 2, 4, 8});
    ASSERT_OK(group_->ComputeGradients({}));
    EXPECT_EQ(Sum(), 15.0f);
  }
  EXPECT_EQ(group_->result(1).correct, 0u);  // the first of the others took it
  EXPECT_EQ(group_->live(), 3u);
  EXPECT_EQ(group_->room(), 3u);
  EXPECT_EQ(stats_.Snapshot().replicas(), 3u);
  EXPECT_EQ(stats_.Snapshot().replicas_lost(), 1u);
  Add({1, 2, 4});
  ASSERT_OK(group_->ComputeGradients({}));
  EXPECT_EQ(Sum(), 7.0f);
  EXPECT_EQ(calls_of_1, 2);
}

TEST_F(ReplicaGroupTest, WhatANetworkToldOfABatchOutlivesItsNextOne) {
  std::atomic<int> calls_of_1{0};
  Make(3, [&](uint32_t replica, float) {
    return replica == 1 && ++calls_of_1 == 1 ? absl::InternalError("an illegal address in relu1")
                                             : absl::OkStatus();
  });
  Add({5, 6, 7});
  ASSERT_OK(group_->Evaluate());  // one of the others did two of them
  for (uint32_t i = 0; i < 3; ++i) {
    const Judgement& judgement = group_->evaluation(i).judgement;
    ASSERT_EQ(judgement.predictions.size(), 1u);
    EXPECT_EQ(judgement.predictions[0].label, 5 + i);
  }
}

TEST_F(ReplicaGroupTest, WithTheLastReplicaTheGroupFailsByName) {
  Make(2, [](uint32_t, float) { return absl::InternalError("out of order in conv1 forward"); });
  Add({1, 2});
  const absl::Status status = group_->ComputeGradients({});
  EXPECT_TRUE(IsDeviceError(status));
  EXPECT_THAT(
      std::string(status.message()),
      AllOf(HasSubstr("worker/2 replica 1"), HasSubstr("fake device"), HasSubstr("conv1 forward")));
  EXPECT_EQ(stats_.Snapshot().replicas_lost(), 2u);
}

TEST_F(ReplicaGroupTest, ANetworkThatIsToldToLeaveIsNotLost) {
  for (const uint32_t replicas : {1u, 2u}) {
    Make(replicas, [](uint32_t, float) { return absl::CancelledError("it leaves"); });
    Add({1});
    const absl::Status status = group_->ComputeGradients(sum_.span());
    EXPECT_THAT(status, StatusIs(absl::StatusCode::kCancelled, HasSubstr("it leaves")));
    EXPECT_FALSE(IsDeviceError(status));
    EXPECT_EQ(group_->live(), replicas);
  }
}

TEST_F(ReplicaGroupTest, WantOfMemoryEndsTheGroupButBreaksNoDevice) {
  for (const uint32_t replicas : {1u, 2u}) {
    Make(replicas, [](uint32_t, float) {
      return absl::ResourceExhaustedError("the model needs 9 GiB, the limit is 8 GiB");
    });
    Add({1});
    const absl::Status status = group_->ComputeGradients(sum_.span());
    EXPECT_FALSE(IsDeviceError(status));
    EXPECT_THAT(status, StatusIs(absl::StatusCode::kResourceExhausted,
                                 AllOf(HasSubstr("worker/2"), HasSubstr("9 GiB"))));
  }
}

TEST_F(ReplicaGroupTest, ALateMemberIsGivenUpWithWhatItHolds) {
  options_.patience = absl::Milliseconds(20);
  Counter gate;
  Make(3, [&](uint32_t replica, float) {
    if (replica == 2) {
      EXPECT_TRUE(gate.Await(1));
    }
    return absl::OkStatus();
  });
  Add({1, 2, 4});
  ASSERT_OK(group_->ComputeGradients({}));
  EXPECT_EQ(Sum(), 7.0f);
  EXPECT_EQ(group_->live(), 2u);
  // What it may still read is replaced before it is written again.
  const AlignedFloats* const held = parameters_.get();
  group_->Reclaim(&parameters_);
  EXPECT_NE(parameters_.get(), held);
  EXPECT_EQ(parameters_->data()[0], 0.0f);
  for (int round = 0; round < 3; ++round) {
    Add({1, 2});
    ASSERT_OK(group_->ComputeGradients({}));
    EXPECT_EQ(Sum(), 3.0f);
  }
  group_.reset();  // does not wait for it
  gate.Add();
  EXPECT_TRUE(destroyed_.Await(3));  // and it ends by itself
}

TEST_F(ReplicaGroupTest, ALoneSurvivorThatIsLateEndsTheGroup) {
  options_.patience = absl::Milliseconds(20);
  Counter gate;
  std::atomic<int> round{0};
  Make(2, [&](uint32_t, float) {
    if (round == 1) {
      EXPECT_TRUE(gate.Await(1));
    }
    return absl::OkStatus();
  });
  Add({1, 2});
  ASSERT_OK(group_->ComputeGradients({}));
  round = 1;
  Add({1, 2});
  EXPECT_TRUE(IsDeviceError(group_->ComputeGradients({})));
  group_.reset();
  gate.Add();
  EXPECT_TRUE(destroyed_.Await(2));
}

TEST_F(ReplicaGroupTest, AGroupOfWhichAllHangAtOnceEnds) {
  options_.first_patience = absl::Milliseconds(20);
  options_.patience = absl::Milliseconds(10);  // also how often it looks
  Counter gate;
  Make(2, [&](uint32_t, float) {
    EXPECT_TRUE(gate.Await(1));
    return absl::OkStatus();
  });
  Add({1, 2});
  EXPECT_TRUE(IsDeviceError(group_->ComputeGradients({})));
  EXPECT_EQ(group_->live(), 0u);
  group_.reset();
  gate.Add();
  EXPECT_TRUE(destroyed_.Await(2));
}

TEST_F(ReplicaGroupTest, WhatAnyNetworkRefusesLosesNobody) {
  Make(3, [](uint32_t, float value) {
    return value == 2   ? absl::InvalidArgumentError("1 label for 2 steps")
           : value == 5 ? absl::DataLossError("label 12 of 10 classes")
                        : absl::OkStatus();
  });
  Add({1, 2, 3});
  EXPECT_THAT(group_->ComputeGradients({}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("1 label")));
  EXPECT_EQ(group_->live(), 3u);
  Add({1, 5, 3});
  EXPECT_THAT(group_->ComputeGradients({}),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("label 12")));
  EXPECT_EQ(group_->live(), 3u);
  Add({1, 4, 3});
  ASSERT_OK(group_->ComputeGradients({}));
  EXPECT_EQ(Sum(), 8.0f);
}

TEST_F(ReplicaGroupTest, OneReplicaComputesInTheCallersThreadAndPlace) {
  const std::thread::id here = std::this_thread::get_id();
  Make(1, [&](uint32_t, float value) {
    EXPECT_EQ(std::this_thread::get_id(), here);
    return value == 9 ? absl::FailedPreconditionError("the GPU fell off the bus")
                      : absl::OkStatus();
  });
  Batch batch(1, 4);
  batch.inputs.Fill(3.0f);
  batch.examples = 1;
  group_->Add(&batch, StepKey());
  EXPECT_EQ(group_->room(), 0u);
  ASSERT_OK(group_->ComputeGradients(sum_.span()));
  EXPECT_EQ(Sum(), 3.0f);
  EXPECT_EQ(group_->gradient(0).data(), sum_.data());
  EXPECT_EQ(batch.inputs.data()[0], 3.0f);  // not swapped
  batch.inputs.Fill(9.0f);
  group_->Add(&batch, StepKey());
  const absl::Status status = group_->ComputeGradients(sum_.span());
  EXPECT_TRUE(IsDeviceError(status));
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("worker/2"), HasSubstr("fake device"), HasSubstr("fell off")));
}

TEST_F(ReplicaGroupTest, MembersWithoutANetworkAreLostAtTheStart) {
  const auto make = [](uint32_t replica) -> absl::StatusOr<std::unique_ptr<Network>> {
    if (replica != 1) return absl::ResourceExhaustedError(absl::StrCat("no memory on ", replica));
    return std::make_unique<ReplicaNetwork>(replica, nullptr);
  };
  ASSERT_OK_AND_ASSIGN(group_, ReplicaGroup::Create(options_, 3, make));
  EXPECT_EQ(group_->live(), 1u);
  EXPECT_EQ(stats_.Snapshot().replicas_lost(), 2u);
  group_->SetParameters(parameters_);
  Add({5});
  ASSERT_OK(group_->ComputeGradients({}));
  EXPECT_EQ(Sum(), 5.0f);

  EXPECT_THAT(ReplicaGroup::Create(
                  options_, 3, [&](uint32_t replica) { return make(replica == 1 ? 7 : replica); })
                  .status(),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("no memory on 0")));
}

TEST_F(ReplicaGroupTest, NamesEachBackendOnce) {
  ASSERT_OK_AND_ASSIGN(group_, ReplicaGroup::Create(options_, 3, [](uint32_t replica) {
                         auto network = std::make_unique<ReplicaNetwork>(replica, nullptr);
                         network->fingerprint = replica == 1 ? "old device" : "new device";
                         return network;
                       }));
  EXPECT_THAT(group_->Fingerprints(), ElementsAre("new device", "old device"));
}

TEST_F(ReplicaGroupTest, SlicesCoverALargeVectorOnce) {
  Make(3);
  for (const size_t size : {size_t{1}, size_t{100}, size_t{64 * 1024}, size_t{1'000'003}}) {
    std::vector<int> seen(size, 0);
    group_->ForSlices(size, [&](size_t begin, size_t end) {
      for (size_t i = begin; i < end; ++i) ++seen[i];
    });
    EXPECT_THAT(seen, ::testing::Each(1)) << size;
  }
}

}  // namespace
}  // namespace monsoon
