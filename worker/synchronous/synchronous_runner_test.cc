// Members of a group in one process: real networks, frames through shared memory, a thread each.
#include "worker/synchronous/synchronous_runner.h"

#include <algorithm>
#include <latch>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/mutex.h"
#include "common/model/initializer.h"
#include "common/testing/socket_folder.h"
#include "common/testing/status_matchers.h"
#include "common/transport/frame_listener.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "proto/downpour.pb.h"
#include "proto/optimizer.pb.h"
#include "proto/synchronous.pb.h"
#include "worker/backend/backend.h"
#include "worker/baseline/trainer.h"
#include "worker/data/synthetic.h"
#include "worker/synchronous/member_state.h"
#include "worker/synchronous/order_reader.h"

namespace monsoon {
namespace {

using ::testing::HasSubstr;

constexpr absl::Duration kLong = absl::Seconds(50);

// Shards that store.
class FakeStore : public ParameterClient {
 public:
  FakeStore(const ParameterLayout& layout, uint64_t seed, size_t slots) : slots_(slots + 1) {
    for (std::vector<float>& slot : slots_) {
      slot.assign(layout.size(), 0.0f);
    }
    Initialize(layout, seed, 0, slots_[0]);
  }
  absl::Status Fetch(std::span<float>, FetchMarks*, FetchStats*) override {
    return absl::UnimplementedError("");
  }
  absl::StatusOr<PushResult> Push(const GradientView&, const FetchMarks&) override {
    return absl::UnimplementedError("");
  }
  absl::Status Write(std::span<const float>, const WriteOptions&) override {
    return absl::UnimplementedError("");
  }
  void Cancel() override {}

  absl::Status FetchState(uint32_t slot, std::span<float> values, FetchMarks* marks,
                          FetchStats*) override {
    MutexLock lock(&mutex_);
    std::ranges::copy(slots_[slot], values.begin());
    marks->shard = {{{.shard_epoch = 1, .version = version_}}};
    return absl::OkStatus();
  }
  absl::Status WriteState(uint32_t slot, std::span<const float> values, uint64_t version,
                          uint64_t write) override {
    MutexLock lock(&mutex_);
    staged_.resize(slots_.size());
    staged_[slot].assign(values.begin(), values.end());
    staged_version_ = version;
    staged_write_ = write;
    return absl::OkStatus();
  }
  absl::Status SealState(std::span<const std::span<const float>> slots, uint64_t write) override {
    MutexLock lock(&mutex_);
    if (write != staged_write_ || slots.size() != slots_.size()) {
      return absl::FailedPreconditionError("something is missing");
    }
    slots_ = staged_;
    version_ = staged_version_;
    return absl::OkStatus();
  }
  std::vector<float> parameters() {
    MutexLock lock(&mutex_);
    return slots_[0];
  }
  uint64_t version() {
    MutexLock lock(&mutex_);
    return version_;
  }

 private:
  Mutex mutex_;
  std::vector<std::vector<float>> slots_;
  std::vector<std::vector<float>> staged_;
  uint64_t version_ = 0;
  uint64_t staged_version_ = 0;
  uint64_t staged_write_ = 0;
};

Job MakeJob(const std::string& synchronous, const std::string& optimizer) {
  Job job;
  CHECK(google::protobuf::TextFormat::ParseFromString(
      absl::StrCat(R"(
        name: "small"
        model {
          input_shape: 12
          layer { name: "a" dense { units: 20 } }
          layer { name: "b" tanh {} }
          layer { name: "c" dropout { rate: 0.3 } }
          layer { name: "d" dense { units: 3 } }
        }
        train { synthetic { examples: 94 classes: 3 seed: 2 } }
        seed: 5
        batch_size: 8
        downpour { optimizer { )",
                   optimizer, " } } synchronous { ", synchronous, " }"),
      &job));
  return job;
}

// One process: what a worker has.
struct Member {
  Member(uint32_t worker, const Job& job, FakeStore* store)
      : job(job), worker(worker), listener(&mailbox, {}), control(Clock::Real(), kLong) {
    layout = *ParameterLayout::Create(job.model());
    data = *MakeSynthetic(job.train().synthetic(), 12, 0, {});
    group = *ReplicaGroup::Create({worker, kLong, &stats}, 1, [&](uint32_t) {
      return CreateNetwork(BackendKind::kCpu, this->job.model(), layout, {});
    });
    reader = std::make_unique<OrderReader>(data.get(), job.seed(), job.batch_size());
    state = *MemberState::Create(job, layout);
    runner = std::make_unique<SynchronousRunner>(SynchronousRunner::Parts{
        .worker = worker,
        .job = &this->job,
        .layout = &layout,
        .client = store,
        .group = group.get(),
        .reader = reader.get(),
        .state = state.get(),
        .stats = &stats,
        .control = &control,
        .peers = {.mailbox = &mailbox,
                  .address = [worker] { return absl::StrCat("host:", worker); },
                  .offer = [this] { return listener.offer(); },
                  .tls = nullptr}});
  }
  const Job job;
  const uint32_t worker;
  PeerMailbox mailbox;
  FrameListener listener;
  ParameterLayout layout;
  std::shared_ptr<const DataSource> data;
  StatsCollector stats;
  SessionControl control;
  std::unique_ptr<ReplicaGroup> group;
  std::unique_ptr<OrderReader> reader;
  std::unique_ptr<MemberState> state;
  std::unique_ptr<SynchronousRunner> runner;
};

class SynchronousRunnerTest : public ::testing::Test {
 protected:
  void Make(uint32_t members, const std::string& synchronous,
            const std::string& optimizer = "sgd { rate: 0.1 }") {
    job_ = MakeJob(synchronous, optimizer);
    const ParameterLayout layout = *ParameterLayout::Create(job_.model());
    const auto probe = *MemberState::Create(job_, layout);
    store_ = std::make_unique<FakeStore>(layout, job_.seed(), probe->vectors().size() - 1);
    for (uint32_t worker = 0; worker < members; ++worker) {
      members_.push_back(std::make_unique<Member>(worker, job_, store_.get()));
    }
  }

  // What the coordinator would say to `members`, who begin with what they have.
  NextWorkReply::Synchronize Order(const std::vector<uint32_t>& workers, uint64_t until) {
    NextWorkReply::Synchronize order;
    order.set_group(++generation_);
    order.set_until_batches(until);
    order.set_patience_ms(static_cast<uint32_t>(absl::ToInt64Milliseconds(patience_)));
    const MemberState* source = nullptr;
    for (const uint32_t worker : workers) {
      const Member& member = *members_[worker];
      if (member.state->has() &&
          (source == nullptr || member.state->at().updates() > source->at().updates())) {
        source = member.state.get();
        order.set_source(static_cast<uint32_t>(order.member_size()));
      }
      NextWorkReply::GroupMember* const one = order.add_member();
      one->set_worker(worker);
      one->set_address(absl::StrCat("host:", worker));
      *one->mutable_shared_memory() = member.listener.offer();
      one->set_batches(1);
    }
    if (source != nullptr) {
      *order.mutable_from() = source->at();
    }
    for (const uint32_t worker : workers) {
      const MemberState& state = *members_[worker]->state;
      order.set_share(order.share() || !state.has() ||
                      state.at().updates() != order.from().updates());
    }
    return order;
  }

  // Each of `workers` in a thread, until its lease or its group is over; `each` after each step.
  void Run(
      const NextWorkReply::Synchronize& order,
      const std::function<void(Member*)>& each = [](Member*) {}) {
    std::latch done(order.member_size());
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < order.member_size(); ++rank) {
      threads.emplace_back([&, rank] {
        Member* const member = members_[order.member(rank).worker()].get();
        NextWorkReply::Synchronize mine = order;
        mine.set_rank(static_cast<uint32_t>(rank));
        mine.set_write(rank == 0 ? order.write() : 0);
        ASSERT_OK(member->runner->Take(mine));
        while (member->runner->left()) {
          ASSERT_OK(member->runner->Step());
          each(member);
        }
        while (member->runner->unreported()) {
          member->runner->Report();
        }
        done.arrive_and_wait();  // nobody leaves while others may still ask for it
      });
    }
  }

  std::vector<float> ParametersOf(uint32_t worker) {
    const std::span<const float> all = members_[worker]->state->parameters()->span();
    return {all.begin(), all.end()};
  }

  Job job_;
  std::unique_ptr<FakeStore> store_;
  std::vector<std::unique_ptr<Member>> members_;
  uint64_t generation_ = 0;
  absl::Duration patience_ = kLong;
};

// One process that sums `k` batches before each step.
std::vector<float> TrainAlone(Job job, uint32_t k, uint64_t batches) {
  job.clear_synchronous();
  job.mutable_downpour()->set_n_fetch(k);
  job.mutable_downpour()->set_n_push(k);
  job.mutable_stop()->set_steps(batches);
  absl::StatusOr<std::unique_ptr<Trainer>> trainer = Trainer::Create(job, TrainerOptions{});
  EXPECT_OK(trainer);
  EXPECT_OK((*trainer)->Run([](const TrainingReport&) {}));
  const std::span<const float> all = (*trainer)->parameters();
  return {all.begin(), all.end()};
}

class SameBitsTest : public SynchronousRunnerTest,
                     public ::testing::WithParamInterface<std::string> {};

TEST_P(SameBitsTest, AsOneProcessThatSumsTheBatches) {
  for (const uint32_t k : {2u, 3u}) {
    for (const std::string optimizer :
         {"sgd { rate: 0.1 }", "momentum { rate: 0.05 momentum: 0.9 }"}) {
      // Of three members the mean is not exact, and neither is the rate.
      if (k == 3 && optimizer[0] != 's') {
        continue;
      }
      members_.clear();
      Make(k, absl::StrCat("reduce: ", GetParam(), " sum_order: BY_RANK scale_rate: LINEAR"),
           optimizer);
      std::vector<uint32_t> workers;
      for (uint32_t worker = 0; worker < k; ++worker) {
        workers.push_back(worker);
      }
      // Two epochs of 12 batches, the last one short, and a step more.
      Run(Order(workers, 24 + k));
      const std::vector<float> alone = TrainAlone(job_, k, 24 + k);
      for (const uint32_t worker : workers) {
        EXPECT_EQ(ParametersOf(worker), alone) << optimizer << " worker/" << worker;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Reduce, SameBitsTest,
                         ::testing::Values("NAIVE", "TREE", "RING", "DIRECT", "EXCHANGE", "AUTO"));

TEST_F(SynchronousRunnerTest, AMeanOfGradientsIsNearASumOfHalfTheRate) {
  Make(2, "reduce: RING", "adagrad { rate: 0.1 }");
  Run(Order({0, 1}, 24));
  EXPECT_EQ(ParametersOf(0), ParametersOf(1));
  // Alone, with a batch of two.
  Job job = job_;
  job.set_batch_size(16);
  job.mutable_model()->mutable_layer()->DeleteSubrange(2, 1);  // its masks are of single batches
  members_.clear();
  job_.mutable_model()->mutable_layer()->DeleteSubrange(2, 1);
  for (const uint32_t worker : {0, 1}) {
    members_.push_back(std::make_unique<Member>(worker, job_, store_.get()));
  }
  Run(Order({0, 1}, 10));
  const std::vector<float> alone = TrainAlone(job, 1, 5);
  for (size_t i = 0; i < alone.size(); ++i) {
    EXPECT_NEAR(ParametersOf(0)[i], alone[i], 1e-5) << i;
  }
}

TEST_F(SynchronousRunnerTest, AllHaveOneDigestAtEachStep) {
  Make(3, "reduce: AUTO", "adam_w { rate: 0.01 beta1: 0.9 beta2: 0.99 epsilon: 1e-8 }");
  Mutex mutex;
  std::map<uint64_t, std::set<uint64_t>> digests;
  Run(Order({0, 1, 2}, 90), [&](Member* member) {
    MutexLock lock(&mutex);
    digests[member->state->at().updates()].insert(member->state->Digest());
  });
  EXPECT_EQ(digests.size(), 31u);  // with the beginning
  for (const auto& [update, all] : digests) {
    EXPECT_EQ(all.size(), 1u) << update;
  }
}

TEST_F(SynchronousRunnerTest, AJoinerGetsTheState) {
  Make(3, "reduce: TREE", "momentum { rate: 0.05 momentum: 0.9 }");
  Run(Order({0, 1}, 8));
  const std::vector<float> before = ParametersOf(0);
  NextWorkReply::Synchronize order = Order({0, 1, 2}, 8);
  EXPECT_TRUE(order.share());
  Run(order);
  EXPECT_EQ(ParametersOf(2), before);
  EXPECT_EQ(members_[2]->state->Digest(), members_[0]->state->Digest());
  EXPECT_EQ(members_[2]->state->at().updates(), 4u);
}

TEST_F(SynchronousRunnerTest, AnotherStateIsFoundAndReplaced) {
  Make(2, "reduce: NAIVE", "momentum { rate: 0.05 momentum: 0.9 }");
  Run(Order({0, 1}, 8));
  members_[1]->state->vectors()[1][3] += 1.0f;  // a bit of memory has fallen over
  const NextWorkReply::Synchronize order = Order({0, 1}, 12);
  EXPECT_FALSE(order.share());
  Run(order);
  for (const auto& member : members_) {
    EXPECT_THAT(member->runner->Report().broken(), HasSubstr("worker/1 has another state"));
  }
  EXPECT_TRUE(members_[0]->state->has());
  EXPECT_FALSE(members_[1]->state->has());
  Run(Order({0, 1}, 12));
  EXPECT_EQ(ParametersOf(1), ParametersOf(0));
  EXPECT_EQ(members_[1]->state->at().batches(), 12u);
}

TEST_F(SynchronousRunnerTest, AMemberThatLeavesEndsTheGroupAndNotTheOthers) {
  Make(3, "reduce: RING sum_order: BY_RANK scale_rate: LINEAR");
  Run(Order({0, 1, 2}, 3000), [](Member* member) {
    if (member->worker == 1 && member->state->at().updates() == 7) {
      member->runner->Leave();
    }
  });
  EXPECT_EQ(members_[1]->state->at().updates(), 7u);
  for (const uint32_t worker : {0, 2}) {
    const SynchronousReport report = members_[worker]->runner->Report();
    EXPECT_FALSE(report.broken().empty());
    EXPECT_EQ(report.missing(), 1u) << report.broken();
    EXPECT_EQ(report.newest_group(), report.group());
    // The sum of its last step may have come to one of them, and not to the other.
    EXPECT_GE(report.at().updates(), 6u);
    EXPECT_EQ(report.all_at().updates() + 1, report.at().updates());
  }
  Run(Order({0, 2}, 31));
  EXPECT_EQ(ParametersOf(0), ParametersOf(2));
}

TEST_F(SynchronousRunnerTest, AnAbortEndsAStepAtOnce) {
  Make(2, "reduce: RING");
  NextWorkReply::Synchronize order = Order({0, 1}, 100);
  order.set_rank(0);
  ASSERT_OK(members_[0]->runner->Take(order));
  std::jthread aborts([&] { members_[0]->runner->Abort(); });  // nobody else is there
  EXPECT_TRUE(absl::IsCancelled(members_[0]->runner->Step()));
}

TEST_F(SynchronousRunnerTest, WritesWhatItHadWhenItHeardOfIt) {
  Make(3, "reduce: RING", "momentum { rate: 0.05 momentum: 0.9 }");
  Run(Order({0, 1}, 8));
  const std::vector<float> then = ParametersOf(0);
  NextWorkReply::Synchronize order = Order({0, 1}, 40);
  order.set_write(1);
  Run(order);
  const SynchronousReport report = members_[0]->runner->Report();
  EXPECT_EQ(report.written(), 1u);
  EXPECT_EQ(report.written_at().updates(), 4u);
  EXPECT_EQ(report.written_at().batches(), 8u);
  EXPECT_EQ(store_->parameters(), then);
  EXPECT_EQ(store_->version(), 4u);
  // Others go on from that.
  const MemberState& fetched = *members_[2]->state;
  NextWorkReply::Synchronize alone = Order({2}, 8);
  alone.clear_source();
  alone.mutable_from()->set_batches(8);
  Run(alone);
  EXPECT_EQ(ParametersOf(2), then);
  EXPECT_EQ(fetched.at().updates(), 4u);
  EXPECT_EQ(fetched.at().batches(), 8u);
}

TEST_F(SynchronousRunnerTest, ALossThatIsNotFiniteIsEverybodysAndThePolicysAffair) {
  Make(2, "reduce: RING", "sgd { rate: 3e38 }");
  std::latch done(2);
  std::vector<std::jthread> threads;
  const NextWorkReply::Synchronize order = Order({0, 1}, 100);
  for (uint32_t rank : {0u, 1u}) {
    threads.emplace_back([&, rank] {
      NextWorkReply::Synchronize mine = order;
      mine.set_rank(rank);
      SynchronousRunner& runner = *members_[rank]->runner;
      ASSERT_OK(runner.Take(mine));
      absl::Status status;
      while (runner.left() && status.ok()) {
        status = runner.Step();
      }
      EXPECT_THAT(std::string(status.message()), HasSubstr("not finite"));
      done.arrive_and_wait();
    });
  }
  threads.clear();
  EXPECT_EQ(members_[0]->state->at().updates(), members_[1]->state->at().updates());
}

}  // namespace
}  // namespace monsoon
