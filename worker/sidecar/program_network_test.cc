#include "worker/sidecar/program_network.h"

#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/client/monsoon.h"
#include "worker/replica/training_work.h"
#include "worker/sidecar/fake_program.h"
#include "worker/testing/fakes.h"
#include "worker/testing/replies.h"

namespace monsoon {
namespace {

using ::monsoon::testing::Evaluate;
using ::monsoon::testing::FakeCoordinator;
using ::monsoon::testing::FakeProgram;
using ::monsoon::testing::FakeShards;
using ::monsoon::testing::Finish;
using ::monsoon::testing::Flush;
using ::monsoon::testing::StatusIs;
using ::monsoon::testing::Train;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A step that counts so many batches, with gradients of rows, and of all tensors but the absent.
std::string StepOf(uint32_t batches, const std::vector<uint64_t>& rows = {},
                   const std::vector<uint32_t>& absent = {}) {
  FieldWriter fields;
  fields.Number(batches);
  fields.Number(uint64_t{1});            // steps
  fields.Number(uint64_t{4} * batches);  // examples
  fields.Number(uint64_t{0});            // judged
  fields.Number(uint64_t{0});            // correct
  fields.Number(uint8_t{1});
  fields.Number(0.5);  // loss
  fields.Number(static_cast<uint32_t>(rows.size()));
  for (const uint64_t row : rows) {  // a piece each, of two values
    fields.Number(uint32_t{0});
    fields.Number(uint64_t{1});
    fields.Number(row);
    fields.Number(1.0f);
    fields.Number(2.0f);
  }
  fields.Number(static_cast<uint32_t>(absent.size()));
  for (const uint32_t tensor : absent) {
    fields.Number(tensor);
  }
  return fields.bytes();
}
std::string RowsOf(const std::vector<uint64_t>& rows, uint32_t table = 0) {
  FieldWriter fields;
  fields.Number(table);
  fields.Number(uint64_t{rows.size()});
  fields.Bytes(rows.data(), rows.size() * sizeof(uint64_t));
  return fields.bytes();
}
std::string Evaluated(const std::string& failure) {
  FieldWriter fields;
  fields.String(failure);
  fields.Number(uint32_t{1});
  fields.String("loss");
  fields.Number(2.5);
  return fields.bytes();
}

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
class ProgramNetworkTest : public ::testing::Test {
 protected:
  ProgramNetworkTest() : layout_(testing::SmallLayout()), shards_(layout_.size()) {
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

TEST_F(ProgramNetworkTest, DrawsAheadStepsAndEvaluates) {
  Script({Train({0, 1}), Flush(), Evaluate(9), Finish()});
  const SessionEnd end = Run([this] {
    EXPECT_EQ(Draw(), 4u);
    for (int step = 0; step < 3; ++step) {
      fake_.Call(MessageKind::kStep, StepOf(1));
      EXPECT_EQ(fake_.AwaitEvent().figures.kind, MONSOON_GO);
    }
    fake_.Call(MessageKind::kStep, StepOf(1));
    EXPECT_EQ(fake_.AwaitEvent().figures.kind, MONSOON_EVALUATE);
    fake_.Call(MessageKind::kEvaluated, Evaluated(""));
  });
  EXPECT_EQ(end.kind, SessionEnd::Kind::kFinished) << end.message;
  EXPECT_EQ(shards_.w()[0], -4.0f) << "each gradient is pushed once";
  ASSERT_EQ(coordinator_.evaluations().size(), 1u);
  EXPECT_EQ(coordinator_.evaluations()[0].metric(0).value(), 2.5);
  size_t reported = 0;
  for (const NextWorkRequest& request : coordinator_.requests()) {
    reported += static_cast<size_t>(request.done_size());
  }
  EXPECT_EQ(reported, 2u);
  ASSERT_NE(fake_.seen().call(), nullptr) << "the next session answers it";
}

TEST_F(ProgramNetworkTest, AStepMayCountSeveralBatches) {
  Script({Train({0, 1}), Finish()});
  const SessionEnd end = Run([this] {
    EXPECT_EQ(Draw(), 4u);
    fake_.Call(MessageKind::kStep, StepOf(3));
    fake_.AwaitEvent();
    fake_.Call(MessageKind::kStep, StepOf(1));
  });
  EXPECT_EQ(end.kind, SessionEnd::Kind::kFinished) << end.message;
  EXPECT_EQ(shards_.w()[0], -2.0f);
}

TEST_F(ProgramNetworkTest, AStepTakesAsLongAsTheProgramBetweenItsCalls) {
  Script({Train({0, 1}), Finish()});
  const SessionEnd end = Run([this] {
    EXPECT_EQ(Draw(), 4u);
    fake_.Call(MessageKind::kStep, StepOf(1));  // 1 ms before the draw, and 1 ms after it
    fake_.AwaitEvent();
    fake_.Call(MessageKind::kStep, StepOf(3));  // 1 ms
  });
  EXPECT_EQ(end.kind, SessionEnd::Kind::kFinished) << end.message;
  EXPECT_DOUBLE_EQ(stats_.Snapshot().step_compute_ms(), 1.5);
}

TEST_F(ProgramNetworkTest, TheStepThatCountsTheLastBatchBringsTheNext) {
  Script({Train({0}), Train({1}), Finish()});
  fake_.Call(MessageKind::kBegin);
  ASSERT_OK(fake_.seen().AwaitCall(absl::Seconds(30)));
  const SessionEnd end = Run([this] {
    EXPECT_EQ(BatchesIn(fake_.AwaitEvent()), 2u);
    for (const uint32_t more : {0u, 2u, 0u}) {
      fake_.Call(MessageKind::kStep, StepOf(1));
      EXPECT_EQ(BatchesIn(fake_.AwaitEvent()), more);
    }
    fake_.Call(MessageKind::kStep, StepOf(1));
  });
  EXPECT_EQ(end.kind, SessionEnd::Kind::kFinished) << end.message;
  EXPECT_EQ(shards_.w()[0], -4.0f);
  EXPECT_EQ(fake_.seen().memory().flags().gradients_taken, 4u);
}

TEST_F(ProgramNetworkTest, AStepOfASessionThatIsOverIsDiscarded) {
  Script({Train({0, 1}), Finish()});
  fake_.seen().Discard();
  const SessionEnd end = Run([this] {
    fake_.Call(MessageKind::kStep, StepOf(1));
    const FakeProgram::Event event = fake_.AwaitEvent();
    EXPECT_EQ(event.figures.discarded, 1);
    EXPECT_EQ(event.figures.parameters_changed, 1);
    EXPECT_EQ(Draw(), 4u);
    fake_.Call(MessageKind::kStep, StepOf(4));
  });
  EXPECT_EQ(end.kind, SessionEnd::Kind::kFinished) << end.message;
  EXPECT_EQ(shards_.w()[0], -1.0f) << "the first one is not pushed";
  EXPECT_DOUBLE_EQ(stats_.Snapshot().step_compute_ms(), 2.0) << "nor is its time counted";
}

TEST_F(ProgramNetworkTest, AnEvaluationForASessionThatIsOverIsDiscarded) {
  Script({Train({0, 1}), Finish()});
  fake_.seen().Discard();
  const SessionEnd end = Run([this] {
    fake_.Call(MessageKind::kEvaluated, Evaluated(""));
    const FakeProgram::Event event = fake_.AwaitEvent();
    EXPECT_EQ(event.figures.kind, MONSOON_GO);
    EXPECT_EQ(event.figures.discarded, 1);
    EXPECT_EQ(Draw(), 4u);
    fake_.Call(MessageKind::kStep, StepOf(4));
  });
  EXPECT_EQ(end.kind, SessionEnd::Kind::kFinished) << end.message;
}

TEST_F(ProgramNetworkTest, WithTheFirstBatchesOfASessionComeItsParameters) {
  Script({Train({0, 1}), Finish()});
  fake_.seen().Discard();
  const SessionEnd end = Run([this] {
    EXPECT_EQ(Draw(/*discarded=*/true), 4u);
    fake_.Call(MessageKind::kStep, StepOf(4));
  });
  EXPECT_EQ(end.kind, SessionEnd::Kind::kFinished) << end.message;
}

TEST_F(ProgramNetworkTest, MoreBatchesThanAreDrawnAreRefused) {
  Script({Train({0, 1}), Finish()});
  const SessionEnd end = Run([this] {
    EXPECT_EQ(Draw(), 4u);
    fake_.Call(MessageKind::kStep, StepOf(5));
  });
  EXPECT_EQ(end.kind, SessionEnd::Kind::kFailed);
  EXPECT_THAT(end.message, HasSubstr("4 are"));
}

TEST_F(ProgramNetworkTest, AStepEndsWithTheProgramOrTheSession) {
  fake_.Leave();
  // Not before the session is told: it would end without its pushes being durable.
  std::thread step([this] {
    EXPECT_THAT(StepAlone(), StatusIs(absl::StatusCode::kCancelled, ::testing::_));
    EXPECT_EQ(control_.state(), SessionControl::State::kDrain);
  });
  control_.Drain();
  step.join();
  EXPECT_THAT(StepAlone(), StatusIs(absl::StatusCode::kCancelled, HasSubstr("session ends")));
}

TEST_F(ProgramNetworkTest, AProgramThatIsGoneLeavesTheSessionInGoodOrder) {
  Script({Train({0, 1}), Finish()});
  const SessionEnd end = Run([&] {
    EXPECT_EQ(Draw(), 4u);
    fake_.Leave();
    control_.Drain();  // as who watches the program does, a little later
  });
  EXPECT_EQ(end.kind, SessionEnd::Kind::kDrained) << end.message;
}

TEST_F(ProgramNetworkTest, SoDoesOneThatIsToEvaluate) {
  Script({Evaluate(9)});
  const SessionEnd end = Run([&] {
    fake_.Call(MessageKind::kStep, StepOf(1));
    EXPECT_EQ(fake_.AwaitEvent().figures.kind, MONSOON_EVALUATE);
    fake_.Leave();
    control_.Drain();
  });
  EXPECT_EQ(end.kind, SessionEnd::Kind::kDrained) << end.message;
}

TEST_F(ProgramNetworkTest, ACallOutOfPlaceIsRefused) {
  fake_.Call(MessageKind::kBegin);
  EXPECT_THAT(StepAlone(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("call 2 has no place")));
}

TEST_F(ProgramNetworkTest, AStepWithoutItsFieldsIsRefused) {
  fake_.Call(MessageKind::kStep, "abc");
  EXPECT_THAT(StepAlone(), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("malformed")));
}

TEST_F(ProgramNetworkTest, AProgramThatCannotEvaluateSaysWhy) {
  const std::pair<std::string, const char*> cases[] = {
      {Evaluated("no test data"), "cannot evaluate: no test data"}, {"abc", "malformed"}};
  for (const auto& [fields, says] : cases) {
    fake_.Call(MessageKind::kStep, StepOf(1));
    std::thread program([this, &fields] {
      EXPECT_EQ(fake_.AwaitEvent().figures.kind, MONSOON_EVALUATE);
      fake_.Call(MessageKind::kEvaluated, fields);
    });
    EXPECT_THAT(network_.AskToEvaluate().status(),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(says)));
    program.join();
    fake_.seen().Answer(MONSOON_GO);
    fake_.AwaitEvent();
  }
}

// ---- rows of tables ----

TEST_F(ProgramNetworkTest, RowsAreReadWithinAStepAndAnEvaluation) {
  Script({Train({0, 1}), Flush(), Evaluate(9), Finish()});
  const SessionEnd end = Run([this] {
    EXPECT_EQ(Draw(), 4u);
    fake_.Call(MessageKind::kFetchRows, RowsOf({7, 3}));
    EXPECT_THAT(AwaitRows(), ElementsAre(7, -7, 3, -3));
    fake_.Call(MessageKind::kStep, StepOf(4, {7, 3, 7}));
    EXPECT_EQ(fake_.AwaitEvent().figures.kind, MONSOON_EVALUATE);
    fake_.Call(MessageKind::kFetchRows, RowsOf({1}));
    EXPECT_THAT(AwaitRows(), ElementsAre(1, -1));
    fake_.Call(MessageKind::kEvaluated, Evaluated(""));
  });
  EXPECT_EQ(end.kind, SessionEnd::Kind::kFinished) << end.message;
  EXPECT_THAT(shards_.pushed_rows, ElementsAre(3, 7));
  EXPECT_THAT(shards_.pushed_values, ElementsAre(1, 2, 2, 4));
}

TEST_F(ProgramNetworkTest, RowsOfSeveralStepsLeaveWithTheirPush) {
  options_.n_push = 2;
  Script({Train({0, 1}), Finish()});
  const SessionEnd end = Run([this] {
    EXPECT_EQ(Draw(), 4u);
    for (const uint64_t row : {9, 2, 9, 5}) {
      fake_.Call(MessageKind::kStep, StepOf(1, {row}));
      if (row != 5) fake_.AwaitEvent();
    }
  });
  EXPECT_EQ(end.kind, SessionEnd::Kind::kFinished) << end.message;
  EXPECT_THAT(shards_.pushed_rows, ElementsAre(2, 9, 5, 9));
}

TEST_F(ProgramNetworkTest, TensorsWithoutGradientAreNamedByThePush) {
  Script({Train({0, 1}), Finish()});
  const SessionEnd end = Run([this] {
    EXPECT_EQ(Draw(), 4u);
    for (const std::vector<uint32_t>& absent :
         std::vector<std::vector<uint32_t>>{{1}, {}, {0, 1}, {0}}) {
      fake_.Call(MessageKind::kStep, StepOf(1, {}, absent));
      if (absent != std::vector<uint32_t>{0}) fake_.AwaitEvent();
    }
  });
  EXPECT_EQ(end.kind, SessionEnd::Kind::kFinished) << end.message;
  EXPECT_THAT(shards_.pushed_absent,
              ElementsAre(ElementsAre(1), ElementsAre(), ElementsAre(0, 1), ElementsAre(0)));
  // The program's vector is all 1.
  EXPECT_EQ(shards_.pushed_floats[7], 0.0f) << "whatever the program has left there";
  EXPECT_EQ(shards_.pushed_floats[8], 1.0f);
}

TEST_F(ProgramNetworkTest, AbsentTensorsThatTheModelHasNotAreRefused) {
  for (const std::vector<uint32_t>& absent :
       std::vector<std::vector<uint32_t>>{{1000}, {1, 0}, {1, 1}}) {
    fake_.Call(MessageKind::kStep, StepOf(0, {}, absent));
    EXPECT_THAT(StepAlone(),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("no gradient")));
    fake_.seen().Refuse(absl::InternalError("done"));
    EXPECT_EQ(fake_.AwaitAnswer().kind, MessageKind::kError);
  }
}

// A shard that is away while rows are fetched, and the session that is lost meanwhile: the call
// stays, and the next session answers it.
TEST_F(ProgramNetworkTest, AFetchThatASessionLeavesIsAnsweredByTheNext) {
  int tries = 0;
  shards_.before_rows = [&] {
    if (++tries == 3) control_.Stop();
    return absl::UnavailableError("ps/0: away");
  };
  Script({Train({0, 1}), Finish()});
  SessionEnd end = Run([this] {
    EXPECT_EQ(Draw(), 4u);
    fake_.Call(MessageKind::kFetchRows, RowsOf({7}));
  });
  EXPECT_NE(end.kind, SessionEnd::Kind::kFinished);
  EXPECT_EQ(tries, 3);
  ASSERT_NE(fake_.seen().call(), nullptr);
  shards_.before_rows = nullptr;
  fake_.seen().Discard();
  SessionControl control(&clock_, absl::Seconds(3));
  LeasedBatches batches(DataJob(), 16);
  ProgramNetwork network(&fake_.seen(), &batches, &control, &programs_time_,
                         {TableInfo{"words", 100, 2, {}, {}}});
  ReplicaGroup group({}, &network);
  DownpourRunner runner(options_, &layout_, &shards_, &group, nullptr, &stats_, &control, &clock_);
  network.Connect(&runner, nullptr);
  std::thread program([this] {
    EXPECT_THAT(AwaitRows(), ElementsAre(7, -7));
    // What it computed on is of the session before.
    fake_.Call(MessageKind::kStep, StepOf(4, {7}));
    EXPECT_EQ(fake_.AwaitEvent().figures.discarded, 1);
    fake_.Call(MessageKind::kBegin);  // has no place, and ends this
  });
  std::vector<float> gradient(layout_.size());
  EXPECT_THAT(network.LossAndGradient(Batch(), StepKey(), gradient),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("no place")));
  program.join();
  EXPECT_TRUE(shards_.pushed_rows.empty());
}

TEST_F(ProgramNetworkTest, RowsThatAreMalformedAreRefused) {
  const std::pair<MessageKind, std::string> calls[] = {
      {MessageKind::kFetchRows, "abc"},
      {MessageKind::kFetchRows, RowsOf({1}, /*table=*/1)},
      {MessageKind::kFetchRows, RowsOf({1}) + "x"},
      {MessageKind::kStep, StepOf(0, {100})},
      {MessageKind::kStep, StepOf(0, {1}) + "x"},
      {MessageKind::kStep, StepOf(0, {1}).substr(0, 60)}};
  for (const auto& [kind, fields] : calls) {
    fake_.Call(kind, fields);
    EXPECT_EQ(StepAlone().code(), absl::StatusCode::kInvalidArgument) << fields.size();
    fake_.seen().Refuse(absl::InternalError("done"));
    EXPECT_EQ(fake_.AwaitAnswer().kind, MessageKind::kError);
  }
}

}  // namespace
}  // namespace monsoon
