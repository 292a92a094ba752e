// Members of a group in one process: real networks, frames through shared memory, a thread each.
#pragma once

#include <algorithm>
#include <functional>
#include <latch>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/mutex.h"
#include "common/model/initializer.h"
#include "common/testing/socket_folder.h"
#include "common/testing/status_matchers.h"
#include "common/transport/frame_listener.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "proto/downpour.pb.h"
#include "proto/synchronous.pb.h"
#include "worker/backend/backend.h"
#include "worker/data/synthetic.h"
#include "worker/synchronous/member_state.h"
#include "worker/synchronous/order_reader.h"
#include "worker/synchronous/synchronous_runner.h"

namespace monsoon {

inline constexpr absl::Duration kLong = absl::Seconds(50);

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

inline Job MakeJob(const std::string& synchronous, const std::string& optimizer,
                   const std::string& hidden) {
  Job job;
  CHECK(google::protobuf::TextFormat::ParseFromString(
      absl::StrCat(R"(
        name: "small"
        model {
          input_shape: 12
          layer { name: "a" dense { units: 20 } }
          layer { name: "b" tanh {} }
          layer { name: "c" dropout { rate: 0.3 } }
          )",
                   hidden, R"(
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
struct TestMember {
  TestMember(uint32_t worker, const Job& job, FakeStore* store)
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
            const std::string& optimizer = "sgd { rate: 0.1 }", const std::string& hidden = "") {
    job_ = MakeJob(synchronous, optimizer, hidden);
    const ParameterLayout layout = *ParameterLayout::Create(job_.model());
    const auto probe = *MemberState::Create(job_, layout);
    store_ = std::make_unique<FakeStore>(layout, job_.seed(), probe->vectors().size() - 1);
    for (uint32_t worker = 0; worker < members; ++worker) {
      members_.push_back(std::make_unique<TestMember>(worker, job_, store_.get()));
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
      const TestMember& member = *members_[worker];
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
      const std::function<void(TestMember*)>& each = [](TestMember*) {}) {
    std::latch done(order.member_size());
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < order.member_size(); ++rank) {
      threads.emplace_back([&, rank] {
        TestMember* const member = members_[order.member(rank).worker()].get();
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
  std::vector<std::unique_ptr<TestMember>> members_;
  uint64_t generation_ = 0;
  absl::Duration patience_ = kLong;
};

}  // namespace monsoon
