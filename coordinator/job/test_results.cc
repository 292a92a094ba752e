#include "coordinator/job/test_results.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "coordinator/job/replica_set.h"

namespace monsoon {
namespace {

TestSetResult ToState(const TestResult& result) {
  TestSetResult state;
  state.set_step(result.step);
  state.set_epoch(result.epoch);
  state.set_at_ns(ToNanos(result.at));
  state.set_loss(result.loss);
  state.set_accuracy(result.accuracy);
  state.set_final(result.final);
  state.set_generation(result.generation);
  return state;
}

TestResult FromState(const TestSetResult& state) {
  return {.step = state.step(),
          .epoch = state.epoch(),
          .at = FromNanos(state.at_ns()),
          .loss = state.loss(),
          .accuracy = state.accuracy(),
          .final = state.final(),
          .generation = state.generation()};
}

}  // namespace

void TestResults::RequestFinal() {
  if (has_test_) {
    schedule_.RequestFinal();
  }
}

std::optional<uint64_t> TestResults::Assign(uint32_t worker, const std::set<uint32_t>& live) {
  return schedule_.Assign(worker, live);
}

void TestResults::GivenOut(TestResult when) {
  CHECK(schedule_.assigned_id());
  const uint64_t id = *schedule_.assigned_id();
  if (writer_.state().test().given_out_id() == id) {
    return;
  }
  const uint64_t generation = schedule_.generation();
  const TestSetResult& last = writer_.state().test().given_out();
  if (generation != 0 && last.generation() == generation) {
    when = FromState(last);  // as it was cut; the replica that had it before is gone
  }
  when.generation = generation;
  when.final = ends_job_ && schedule_.assigned_final();
  GiveOut(id, when);
}

void TestResults::GiveOut(uint64_t id, const TestResult& when) {
  writer_.Make([&](StateUpdate* update) {
    update->mutable_test_given_out()->set_id(id);
    *update->mutable_test_given_out()->mutable_when() = ToState(when);
  });
}

void TestResults::UseGeneration(uint64_t generation, TestResult when) {
  schedule_.UseGeneration(generation);
  when.generation = generation;
  GiveOut(writer_.state().test().given_out_id(), when);  // to nobody yet
}

void TestResults::Compare(const TestResult& result) {
  if (result.generation == 0) {
    return;
  }
  const DurableJob& job = writer_.job();
  const bool better =
      !job.has_best() || (best_ == TEST_LOSS ? result.loss < job.best().loss()
                                             : result.accuracy > job.best().accuracy());
  if (better) {
    writer_.job_writer().Make([&](StateUpdate* update) {
      TestedGeneration* const best = update->mutable_best_generation();
      best->set_generation(result.generation);
      best->set_epoch(result.epoch);
      best->set_accuracy(result.accuracy);
      best->set_loss(result.loss);
    });
  }
}

absl::StatusOr<const TestResult*> TestResults::Report(uint32_t worker,
                                                      const ReportEvaluationRequest& request) {
  if (request.vector_is_gone()) {
    if (schedule_.assigned_id() == request.evaluation()) {
      schedule_.LoseGeneration(worker);
    }
    return nullptr;
  }
  if (request.examples() == 0 || request.correct() > request.examples()) {
    return absl::InvalidArgumentError(
        absl::StrCat("evaluation ", request.evaluation(), " of ", WorkerName(worker), " counts ",
                     request.correct(), " correct of ", request.examples()));
  }
  const auto assigned = schedule_.assigned_id();
  if (!schedule_.Complete(worker, request.evaluation())) {
    if (assigned == request.evaluation()) {
      return absl::FailedPreconditionError(absl::StrCat(
          "evaluation ", request.evaluation(), " is not ", WorkerName(worker), "'s any more"));
    }
    return nullptr;
  }
  newest_ = FromState(writer_.state().test().given_out());
  const auto examples = static_cast<double>(request.examples());
  newest_.loss = request.loss_sum() / examples;
  newest_.accuracy = static_cast<double>(request.correct()) / examples;
  writer_.Make([&](StateUpdate* update) { *update->mutable_test_result() = ToState(newest_); });
  Compare(newest_);
  return &newest_;
}

std::vector<TestResult> TestResults::records() const {
  std::vector<TestResult> records;
  for (const TestSetResult& result : writer_.state().test().result()) {
    records.push_back(FromState(result));
  }
  return records;
}

}  // namespace monsoon
