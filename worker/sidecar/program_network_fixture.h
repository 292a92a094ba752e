// A program's network in a session: calls of a program in a thread of its own, a coordinator that
// answers as the test says, and shards that add up.
#pragma once

#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/testing/status_matchers.h"
#include "gtest/gtest.h"
#include "worker/client/exchange.h"
#include "worker/client/monsoon.h"
#include "worker/replica/training_work.h"
#include "worker/sidecar/fake_program.h"
#include "worker/sidecar/program_network.h"
#include "worker/testing/fakes.h"
#include "worker/testing/replies.h"

namespace monsoon::testing {

// A millisecond later with each look. One thread.
class TickingClock : public Clock {
 public:
  absl::Duration Now() const override { return now_ += absl::Milliseconds(1); }
  absl::Time WallTime() const override { return absl::UnixEpoch(); }

 private:
  mutable absl::Duration now_;
};

// With a table of 100 rows x 2, whose row r is r, -r.
class ShardsWithRows : public FakeShards {
 public:
  using FakeShards::FakeShards;

  absl::Status FetchRows(std::span<const RowRequest> wanted, FetchStats*) override {
    if (before_rows) RETURN_IF_ERROR(before_rows());
    for (const RowRequest& request : wanted) {
      for (size_t i = 0; i < request.rows.size(); ++i) {
        request.values[2 * i] = static_cast<float>(request.rows[i]);
        request.values[2 * i + 1] = -static_cast<float>(request.rows[i]);
      }
    }
    return absl::OkStatus();
  }
  absl::StatusOr<PushResult> Push(const GradientView& gradient, const FetchMarks& base) override {
    pushed_absent.emplace_back();
    for (const TensorSlice& tensor : gradient.absent) {
      pushed_absent.back().push_back(tensor.number);
    }
    pushed_floats.assign(gradient.floats.begin(), gradient.floats.end());
    for (const RowGradient& rows : gradient.rows) {
      pushed_rows.insert(pushed_rows.end(), rows.rows.begin(), rows.rows.end());
      pushed_values.insert(pushed_values.end(), rows.values.begin(), rows.values.end());
    }
    return FakeShards::Push(gradient, base);
  }

  std::function<absl::Status()> before_rows;
  std::vector<uint64_t> pushed_rows;  // without overlap: of the compute thread
  std::vector<float> pushed_values;
  std::vector<std::vector<uint32_t>> pushed_absent;  // a push each
  std::vector<float> pushed_floats;                  // of the newest push
};

// 16 samples in two blocks of two batches; every step is pushed.
class ProgramNetworkFixture : public ::testing::Test {
 protected:
  ProgramNetworkFixture() : layout_(SmallLayout()), shards_(layout_.size()) {
    fake_.Join(layout_.size());
    for (float& value : fake_.seen().memory().gradient()) {
      value = 1.0f;
    }
    options_.n_fetch = options_.n_push = 1;
    options_.overlap = NONE;
    control_.OnStop([this] { shards_.Cancel(); });
  }
  static Job DataJob() {
    Job job;
    job.set_batch_size(4);
    job.set_block_examples(8);
    job.mutable_train()->mutable_joiners()->set_examples(16);
    return job;
  }
  void Script(std::vector<NextWorkReply> replies) {
    coordinator_.next_work = [replies = std::move(replies)](
                                 const NextWorkRequest& request) -> absl::StatusOr<NextWorkReply> {
      return replies.at(request.request() - 1);
    };
  }
  // A session, while `program` runs in a thread of its own.
  SessionEnd Run(const std::function<void()>& program) {
    DownpourRunner runner(options_, &layout_, &shards_, &group_, nullptr, &stats_, &control_,
                          &clock_);
    TrainingWork training(&runner, &batches_, options_.overlap, /*worker=*/0, &clock_);
    ReplicaSession::Parts parts;
    parts.coordinator = &coordinator_;
    parts.work = {&training};
    parts.evaluate = [this](const std::string&) { return network_.AskToEvaluate(); };
    parts.listen = [this] { return network_.Listen(); };
    parts.stats = &stats_;
    parts.control = &control_;
    ReplicaSession session(std::move(parts));
    network_.Connect(&runner, &session);
    std::thread thread(program);
    SessionEnd end = session.Run();
    thread.join();
    return end;
  }
  // Asks for batches; how many there were.
  uint32_t Draw(bool discarded = false) {
    fake_.Call(MessageKind::kDraw);
    const FakeProgram::Event event = fake_.AwaitEvent();
    EXPECT_EQ(event.figures.kind, MONSOON_GO);
    EXPECT_EQ(event.figures.discarded, discarded);
    return BatchesIn(event);
  }
  static uint32_t BatchesIn(const FakeProgram::Event& event) {
    return FieldReader(event.rest.substr(0, 4)).Number<uint32_t>();
  }
  // The values of an answer to a fetch of rows.
  std::vector<float> AwaitRows() {
    const Message answer = fake_.AwaitAnswer();
    EXPECT_EQ(answer.kind, MessageKind::kRows);
    std::vector<float> values(answer.fields.size() / sizeof(float));
    std::memcpy(values.data(), answer.fields.data(), answer.fields.size());
    return values;
  }
  // Asks for the stream; the answer.
  Message TakeStream(const std::string& stream) {
    FieldWriter name;
    name.String(stream);
    fake_.Call(MessageKind::kTakeStream, name.bytes());
    return fake_.AwaitAnswer();
  }
  absl::Status StepAlone() {
    std::vector<float> gradient(layout_.size());
    return network_.LossAndGradient(Batch(), StepKey(), gradient).status();
  }

  const ParameterLayout layout_;
  FakeProgram fake_;
  ShardsWithRows shards_;
  FakeCoordinator coordinator_;
  StatsCollector stats_;
  ManualClock clock_;
  SessionControl control_{&clock_, absl::Seconds(3)};
  LeasedBatches batches_{DataJob(), 16};
  TickingClock programs_time_;
  ProgramNetwork network_{&fake_.seen(),
                          &batches_,
                          &control_,
                          &programs_time_,
                          {TableInfo{"words", 100, 2, {}, {}}},
                          {{0, {0, 8}}, {1, {8, 12}}}};  // as if there were two tensors
  ReplicaGroup group_{{}, &network_};
  DownpourRunnerOptions options_;
};

}  // namespace monsoon::testing
