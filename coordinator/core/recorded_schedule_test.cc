// A fixed set of schedules, and one number for all that the coordinator did in them: each update
// of its durable state, each command to a shard, in order, and what people see after each call.
// A change that is not to change behaviour leaves the numbers as they are.
//
// A change that is meant to change it: the test prints the numbers that it finds; they go into
// kCalls and kSimulations below, and the commit says what has changed.

#include <array>
#include <cstdint>
#include <cstdio>
#include <map>
#include <random>
#include <string>

#include "common/testing/fuzz/fuzz_calls.h"
#include "common/testing/seeds.h"
#include "coordinator/core/coordinator_simulation.h"
#include "coordinator/core/fuzzed_coordinator.h"
#include "coordinator/core/recording.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "proto/coordinator.pb.h"

namespace monsoon {
namespace {

using ::monsoon::testing::CoordinatorSimulation;
using ::monsoon::testing::FuzzedCoordinator;
using ::monsoon::testing::Recording;

constexpr uint64_t kCalls = 0x97001b0ae1dfff32;
constexpr uint64_t kSimulations = 0xb8222f0a4817855f;

// Under a sanitizer the first ones, for its own sake: the numbers are of all.
constexpr uint32_t kCallSchedules = testing::kSanitized ? 30 : 300;
constexpr int kCallsInEach = 400;
constexpr uint32_t kSimulatedSchedules = testing::kSanitized ? 10 : 40;

// What FuzzedCoordinator's calls are of, by their kinds.
enum Kind : uint8_t {
  kSubmit = 0,
  kBeat = 1,
  kAsk = 3,
  kReportEvaluation = 5,
  kReportFailure = 6,
  kDrain = 7,
  kCheckpoint = 8,
  kCancel = 9,
  kDelete = 10,
  kStart = 11,
  kLook = 12,
  kPoll = 13,
  kPass = 14,
  kMinimise = 15,
  kTroubleShard = 16,
  kRestart = 17,
};

template <typename Message>
std::string Bytes(const char* text) {
  Message message;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &message)) << text;
  return message.SerializeAsString();
}

// What a submission has beside core_fuzz's job.
constexpr std::array<const char*, 11> kSubmissions = {
    "",
    "init: true",
    "job { sandblaster { max_iterations: 3 } }",
    "job { checkpoint { keep_best: TEST_ACCURACY } evaluation { every_epochs: 1 } }",
    "job { checkpoint { on_storage_failure: CONTINUE_IN_MEMORY } }",
    "job { checkpoint { off: true } }",
    "job { evaluation { every_epochs: 1 } downpour { optimizer { schedule { plateau { "
    "patience: 1 } } } } }",
    "job { evaluation { every_epochs: 1 } stop { epochs: 9 early { metric: TEST_LOSS "
    "patience: 1 } } }",
    "job { downpour { warmstart { steps: 4 } local { steps: 8 dynamic: true } } }",
    "client_id: \"one\" job { stop { seconds: 20 } }",
    "job { downpour { local { steps: 8 inner { sgd { rate: 0.1 } } } rounds { } } }",
};
constexpr std::array<const char*, 6> kBeats = {
    "",
    "wants_checkpoint: true",
    "wants_checkpoint: true stands_still: true",
    "leaving: true",
    "stats { steps: 8 examples: 40 step_compute_ms: 3 }",
    "stats { steps: 9 examples: 45 step_compute_ms: 9 waits_for: \"ps/0\" }",
};
constexpr std::array<const char*, 6> kAsks = {
    "",
    "",
    "stats { steps: 8 examples: 40 loss: 0.5 accuracy: 0.75 }",
    "stats { steps: 12 examples: 60 staleness { key: 1 value: 3 } staleness { key: 4 value: 2 } }",
    "stats { train_fingerprint: 7 backend_fingerprint: \"cpu\" }",
    "stats { train_fingerprint: 7 test_fingerprint: 9 backend_fingerprint: \"cuda\" }",
};
constexpr std::array<const char*, 6> kEvaluations = {
    "",
    "correct: 10",
    "loss_sum: 3",
    "metric { name: \"loss\" value: 0.5 } metric { name: \"accuracy\" value: 0.9 }",
    "metric { name: \"loss\" value: 0.7 }",
    "vector_is_gone: true",
};
constexpr std::array<const char*, 6> kFailures = {
    "", "kind: DIVERGED", "kind: DATA", "kind: JOB", "kind: OTHER_DATA", "kind: UNFIT_DEVICE",
};

class Schedule {
 public:
  explicit Schedule(uint32_t seed)
      : calm_(seed % 3 == 0),
        random_(seed),
        coordinator_({[this](const StateUpdate& update) { recording_.Add(update); },
                      [this](const ShardCommand& command) { recording_.Add(command); }}) {}

  uint64_t Run(std::map<std::string, int>* events) {
    coordinator_.Serve({kPoll, 1, ""});
    coordinator_.Serve({kSubmit, static_cast<uint8_t>(1 | (Below(4) == 0 ? 2 : 0)), Submission()});
    for (int i = 0; i < kCallsInEach; ++i) {
      coordinator_.Serve(Draw());
      Look();
    }
    coordinator_.End();
    for (const DurableJob& job : coordinator_.core().state().snapshot().job()) {
      for (const JobDescription::Event& event : job.event()) {
        ++(*events)[event.kind()];
      }
    }
    recording_.Add(coordinator_.core().state().Serialize());
    return recording_.number();
  }

 private:
  uint32_t Below(uint32_t bound) { return static_cast<uint32_t>(random_()) % bound; }
  template <typename Message, size_t size>
  std::string Draw(const std::array<const char*, size>& texts) {
    return Bytes<Message>(texts[Below(size)]);
  }
  std::string Submission() { return Draw<SubmitRequest>(kSubmissions); }

  // Mostly what lets a job go on.
  FuzzCall Draw() {
    const auto flags = static_cast<uint8_t>(Below(256) | 1);
    const auto rarely = [this] { return Below(4) == 0; };
    switch (calm_ ? 10 + Below(54) : Below(64)) {
      case 0:
        // Now and then a program's job.
        return Below(3) == 0 ? FuzzCall{kSubmit, static_cast<uint8_t>(flags | 16), ""}
                             : FuzzCall{kSubmit, static_cast<uint8_t>(flags & 0xef), Submission()};
      case 1:
      case 2:
        return {kSubmit, static_cast<uint8_t>(flags | 16), ""};  // it enters once more
      case 3:
        return {kReportFailure, flags, Draw<ReportFailureRequest>(kFailures)};
      case 4:
        return {rarely() ? kDrain : kCheckpoint, flags, ""};
      case 5:
        return {rarely() ? kCancel : kStart, flags, ""};
      case 6:
        return {rarely() ? kDelete : kLook, flags, ""};
      case 7:
      case 8:
        return {kTroubleShard, flags, ""};
      case 9:
        return {rarely() ? kRestart : kTroubleShard, flags, ""};
      case 10:
      case 11:
      case 12:
      case 13:
        return {kPass, static_cast<uint8_t>(rarely() && !calm_ ? flags : flags & 15), ""};
      default:
        break;
    }
    switch (Below(8)) {
      case 0:
      case 1:
        return {kBeat, flags, rarely() ? Draw<HeartbeatRequest>(kBeats) : ""};
      case 2:
      case 3:
      case 4:
        return {kAsk, flags, Draw<NextWorkRequest>(kAsks)};
      case 5:
        return {kReportEvaluation, flags, Draw<ReportEvaluationRequest>(kEvaluations)};
      case 6:
        return {kPoll, flags, ""};
      default:
        return {kMinimise, flags, ""};
    }
  }

  // All that people see.
  void Look() {
    CoordinatorCore& core = coordinator_.core();
    const Moment now = coordinator_.now();
    const ListReply list = core.List(now);
    recording_.Add(list);
    recording_.Add(core.Info(now));
    for (const JobSummary& summary : list.job()) {
      recording_.Add(*core.Describe(summary.job(), now));
      const absl::StatusOr<JobLocation> location = core.Locate(summary.job(), now);
      recording_.Add(location.status().message());
      if (location.ok()) {
        recording_.Add(*location);
      }
    }
  }

  const bool calm_;  // nobody dies, and nobody interferes
  std::mt19937 random_;
  Recording recording_;
  FuzzedCoordinator coordinator_;
};

TEST(RecordedScheduleTest, CallsHaveTheSameEffects) {
  Recording all;
  std::map<std::string, int> events;
  for (uint32_t seed = 1; seed <= kCallSchedules; ++seed) {
    all.Add(Schedule(seed).Run(&events));
  }
  std::string seen;
  for (const auto& [kind, count] : events) {
    seen += absl::StrCat(kind, " ", count, ", ");
  }
  std::printf("kCalls = 0x%016llx; events: %s\n", static_cast<unsigned long long>(all.number()),
              seen.c_str());
  if (!testing::kSanitized) {
    EXPECT_EQ(all.number(), kCalls);
  }
}

TEST(RecordedScheduleTest, SimulationsHaveTheSameEffects) {
  Recording all;
  for (uint32_t seed = 1; seed <= kSimulatedSchedules; ++seed) {
    CoordinatorSimulation simulation(seed);
    simulation.Run();
    for (const StateUpdate& update : simulation.harness().updates_) {
      all.Add(update);
    }
    all.Add(simulation.harness().core().state().Serialize());
  }
  std::printf("kSimulations = 0x%016llx\n", static_cast<unsigned long long>(all.number()));
  if (!testing::kSanitized) {
    EXPECT_EQ(all.number(), kSimulations);
  }
}

}  // namespace
}  // namespace monsoon
