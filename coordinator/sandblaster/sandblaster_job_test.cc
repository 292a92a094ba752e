#include "coordinator/sandblaster/sandblaster_job.h"

#include <limits>
#include <map>
#include <string>
#include <vector>

#include "common/testing/status_matchers.h"
#include "coordinator/state/replayed_state.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace monsoon {
namespace {

using ::monsoon::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;
using Phase = JobProcedure::Phase;

SandblasterOptions TenOf(uint64_t examples) {
  SandblasterOptions options;
  options.examples = examples;
  options.plan =
      *ChunkPlan::Make({.examples = examples, .chunk_examples = 10, .chunks_per_contribution = 1});
  options.max_iterations = 4;
  return options;
}

ContributionResult Result(uint64_t evaluation, uint32_t contribution, double loss_sum = 1.0,
                          uint64_t examples = 10) {
  ContributionResult result;
  result.set_evaluation(evaluation);
  result.set_contribution(contribution);
  result.set_loss_sum(loss_sum);
  result.set_examples(examples);
  result.set_correct(3);
  result.set_finite(true);
  return result;
}

class Replicas {
 public:
  explicit Replicas(SandblasterJob* job) : job_(job) {}

  void Add(uint32_t worker) {
    job_->AddReplica(worker, now_);
    request_[worker] = 0;
  }
  using OnWait = JobProcedure::OnWait;
  absl::StatusOr<NextWorkReply> TryAsk(uint32_t worker,
                                       const std::vector<ContributionResult>& results = {},
                                       OnWait on_wait = OnWait::kTell) {
    NextWorkRequest request;
    request.set_request(++request_[worker]);
    if (!backend_[worker].empty()) {
      request.mutable_stats()->add_backend_fingerprint(backend_[worker]);
    }
    for (const ContributionResult& result : results) {
      *request.add_contribution() = result;
    }
    return job_->NextWork(worker, request, now_, on_wait);
  }
  NextWorkReply Ask(uint32_t worker, const std::vector<ContributionResult>& results = {},
                    OnWait on_wait = OnWait::kTell) {
    absl::StatusOr<NextWorkReply> reply = TryAsk(worker, results, on_wait);
    EXPECT_OK(reply);
    return reply.ok() ? *reply : NextWorkReply();
  }
  absl::Status Report(uint32_t worker, uint64_t evaluation) {
    ReportEvaluationRequest request;
    request.set_evaluation(evaluation);
    request.set_examples(100);
    request.set_correct(90);
    request.set_loss_sum(50);
    return job_->ReportEvaluation(worker, request, now_);
  }

  absl::Duration now_ = absl::Seconds(1000);
  SandblasterJob* const job_;
  std::map<uint32_t, uint64_t> request_;
  std::map<uint32_t, std::string> backend_;
};

JobDescription::Iteration Iteration(uint32_t number, double f = 1) {
  JobDescription::Iteration iteration;
  iteration.set_iteration(number);
  iteration.set_f(f);
  return iteration;
}

TEST(SandblasterJobTest, OneReplicaToTheEnd) {
  testing::ReplayedState state;
  SandblasterJob job(TenOf(25), state.Begun(SANDBLASTER).job_writer());
  Replicas replicas(&job);
  EXPECT_EQ(job.phase(), Phase::kIdle);
  EXPECT_EQ(job.contributions(false), 3u);
  replicas.Add(0);
  EXPECT_EQ(job.phase(), Phase::kRunning);
  EXPECT_TRUE(replicas.Ask(0).has_wait());  // For the driver.
  EXPECT_EQ(job.ReplicaState(0), "WAITING");

  job.StartEvaluation(7, "x3", false, replicas.now_);
  NextWorkReply reply = replicas.Ask(0);
  ASSERT_TRUE(reply.has_contribute());
  EXPECT_EQ(reply.contribute().evaluation(), 7u);
  EXPECT_EQ(reply.contribute().vector(), "x3");
  ASSERT_EQ(reply.contribute().contribution_size(), 1);
  EXPECT_EQ(reply.contribute().contribution(0).contribution(), 0u);
  reply = replicas.Ask(0);
  ASSERT_EQ(reply.contribute().contribution_size(), 1);
  EXPECT_EQ(reply.contribute().contribution(0).first(), 10u);
  EXPECT_EQ(reply.contribute().contribution(0).examples(), 10u);
  EXPECT_TRUE(replicas.Ask(0).has_wait());  // It holds two.
  EXPECT_EQ(job.ReplicaState(0), "RUNNING");
  reply = replicas.Ask(0, {Result(7, 0, 2.5)});
  EXPECT_EQ(reply.contribute().contribution(0).first(), 20u);
  EXPECT_EQ(reply.contribute().contribution(0).examples(), 5u);
  EXPECT_EQ(job.FinishedEvaluation(), std::nullopt);
  replicas.now_ += absl::Seconds(2);
  EXPECT_TRUE(replicas.Ask(0, {Result(7, 1, 0.5), Result(7, 2, 1.0, 5)}).has_wait());

  const auto result = job.FinishedEvaluation();
  ASSERT_TRUE(result.has_value());
  EXPECT_EQ(result->evaluation, 7u);
  EXPECT_EQ(result->loss_sum, 4.0);
  EXPECT_EQ(result->examples, 25u);
  EXPECT_EQ(result->correct, 9u);
  EXPECT_TRUE(result->finite);
  EXPECT_EQ(result->took, absl::Seconds(2));
  EXPECT_EQ(job.FinishedEvaluation(), std::nullopt);
  EXPECT_EQ(job.epoch(), 1.0);

  job.NoteIteration(Iteration(1), replicas.now_);
  EXPECT_EQ(job.fraction(replicas.now_), 0.25);
  job.DriverDone({"converged", "F 1"}, replicas.now_);
  EXPECT_EQ(job.trained(), replicas.now_);
  EXPECT_EQ(job.phase(), Phase::kLeaving);  // Without a test set.
  EXPECT_TRUE(replicas.Ask(0).has_finish());
  EXPECT_EQ(job.phase(), Phase::kDone);
  EXPECT_EQ(job.ReplicaState(0), "DONE");
}

TEST(SandblasterJobTest, WorkIsNearForAReplicaThatHoldsNothingWhileTheDriverRuns) {
  testing::ReplayedState state;
  SandblasterJob job(TenOf(25), state.Begun(SANDBLASTER).job_writer());
  Replicas replicas(&job);
  EXPECT_FALSE(job.WorkIsNear(0));
  replicas.Add(0);
  EXPECT_TRUE(replicas.Ask(0, {}, JobProcedure::OnWait::kHold).has_wait());
  EXPECT_TRUE(job.WorkIsNear(0));
  // The same question again: it was told nothing yet, and now there is something.
  job.StartEvaluation(7, "x", false, replicas.now_);
  --replicas.request_[0];
  EXPECT_TRUE(replicas.Ask(0).has_contribute());
  EXPECT_FALSE(job.WorkIsNear(0)) << "it holds one, and must report it at once";
  // And again: what was leased is told again.
  --replicas.request_[0];
  EXPECT_EQ(replicas.Ask(0).contribute().contribution(0).contribution(), 0u);
  job.DriverDone({"converged", ""}, replicas.now_);
  EXPECT_FALSE(job.WorkIsNear(0));
}

TEST(SandblasterJobTest, AProbeIsOneContribution) {
  testing::ReplayedState state;
  SandblasterJob job(TenOf(100), state.Begun(SANDBLASTER).job_writer());
  Replicas replicas(&job);
  job.StartEvaluation(1, "x", true, replicas.now_);  // Before anybody joins.
  replicas.Add(0);
  EXPECT_EQ(replicas.Ask(0).contribute().contribution(0).contribution(), 0u);
  EXPECT_TRUE(replicas.Ask(0).has_wait());
  replicas.Ask(0, {Result(1, 0)});
  const auto result = job.FinishedEvaluation();
  ASSERT_TRUE(result.has_value());
  EXPECT_EQ(result->examples, 10u);
}

TEST(SandblasterJobTest, RepeatedRequestsAreAnsweredAgain) {
  testing::ReplayedState state;
  SandblasterJob job(TenOf(100), state.Begun(SANDBLASTER).job_writer());
  Replicas replicas(&job);
  replicas.Add(0);
  job.StartEvaluation(1, "x", false, replicas.now_);
  NextWorkRequest request;
  request.set_request(5);
  const auto first = job.NextWork(0, request, replicas.now_);
  const auto again = job.NextWork(0, request, replicas.now_);
  ASSERT_OK(first);
  ASSERT_OK(again);
  EXPECT_EQ(first->SerializeAsString(), again->SerializeAsString());
  EXPECT_EQ(job.scheduler().held(0), 1u);
  request.set_request(6);
  *request.add_contribution() = Result(1, 0);
  ASSERT_OK(job.NextWork(0, request, replicas.now_));
  ASSERT_OK(job.NextWork(0, request, replicas.now_));
  EXPECT_EQ(job.scheduler().progress().done, 1u);
  EXPECT_EQ(job.scheduler().statistics().late_results, 0u);
  request.set_request(5);
  EXPECT_THAT(job.NextWork(0, request, replicas.now_).status(),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("came after 6")));
  EXPECT_THAT(job.NextWork(1, request, replicas.now_).status(),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("worker/1")));
}

TEST(SandblasterJobTest, ResultsThatCannotBeAreRefusedByName) {
  testing::ReplayedState state;
  SandblasterJob job(TenOf(100), state.Begun(SANDBLASTER).job_writer());
  Replicas replicas(&job);
  replicas.Add(2);
  job.StartEvaluation(1, "x", false, replicas.now_);
  replicas.Ask(2);
  EXPECT_THAT(replicas.TryAsk(2, {Result(1, 10)}).status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("contribution 10"), HasSubstr("worker/2"))));
  --replicas.request_[2];
  EXPECT_THAT(replicas.TryAsk(2, {Result(1, 0, 1.0, 9)}).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("instead of 10")));
  EXPECT_EQ(job.scheduler().progress().done, 0u);
}

TEST(SandblasterJobTest, LateResultsAreAcknowledgedAndIgnored) {
  testing::ReplayedState state;
  SandblasterJob job(TenOf(20), state.Begun(SANDBLASTER).job_writer());
  Replicas replicas(&job);
  replicas.Add(0);
  replicas.Add(1);
  job.StartEvaluation(1, "x", false, replicas.now_);
  replicas.Ask(0);
  replicas.Ask(1);
  job.CancelEvaluation();
  job.StartEvaluation(2, "y", false, replicas.now_);
  EXPECT_TRUE(replicas.Ask(0, {Result(1, 0, 100)}).has_contribute());
  EXPECT_TRUE(replicas.Ask(1, {Result(1, 1, 100)}).has_contribute());
  EXPECT_EQ(job.scheduler().progress().done, 0u);
  replicas.Ask(0, {Result(2, 0, 1), Result(2, 0, 1)});
  replicas.Ask(1, {Result(2, 1, 2)});
  const auto result = job.FinishedEvaluation();
  ASSERT_TRUE(result.has_value());
  EXPECT_EQ(result->loss_sum, 3.0);
  EXPECT_EQ(job.scheduler().statistics().late_results, 3u);
}

TEST(SandblasterJobTest, ARefusedContributionIsLeasedAgain) {
  testing::ReplayedState state;
  SandblasterJob job(TenOf(10), state.Begun(SANDBLASTER).job_writer());
  Replicas replicas(&job);
  replicas.Add(0);
  job.StartEvaluation(1, "x", false, replicas.now_);
  replicas.Ask(0);
  ContributionResult closed = Result(1, 0);
  closed.set_closed(true);
  EXPECT_TRUE(replicas.Ask(0, {closed}).has_contribute());
  EXPECT_EQ(job.FinishedEvaluation(), std::nullopt);
  replicas.Ask(0, {Result(1, 0)});
  EXPECT_TRUE(job.FinishedEvaluation().has_value());
}

TEST(SandblasterJobTest, ANonFiniteContributionEndsTheEvaluation) {
  testing::ReplayedState state;
  SandblasterJob job(TenOf(100), state.Begun(SANDBLASTER).job_writer());
  Replicas replicas(&job);
  replicas.Add(0);
  job.StartEvaluation(1, "x", false, replicas.now_);
  replicas.Ask(0);
  replicas.Ask(0);
  ContributionResult bad = Result(1, 0);
  bad.set_finite(false);
  EXPECT_TRUE(replicas.Ask(0, {bad, Result(1, 1)}).has_wait());
  const auto result = job.FinishedEvaluation();
  ASSERT_TRUE(result.has_value());
  EXPECT_FALSE(result->finite);
  EXPECT_EQ(result->loss_sum, std::numeric_limits<double>::infinity());
  EXPECT_EQ(job.scheduler().held(0), 0u);
  // The driver goes on with a shorter step.
  job.StartEvaluation(2, "y", false, replicas.now_);
  EXPECT_EQ(replicas.Ask(0).contribute().evaluation(), 2u);
}

TEST(SandblasterJobTest, ALostReplicasContributionsGoToAnother) {
  testing::ReplayedState state;
  SandblasterJob job(TenOf(40), state.Begun(SANDBLASTER).job_writer());
  Replicas replicas(&job);
  replicas.Add(0);
  replicas.Add(1);
  job.StartEvaluation(1, "x", false, replicas.now_);
  replicas.Ask(0);
  replicas.Ask(0);
  EXPECT_EQ(job.RemoveReplica(0, replicas.now_), 2u);
  EXPECT_EQ(job.RemoveReplica(0, replicas.now_), 0u);
  EXPECT_EQ(replicas.Ask(1).contribute().contribution(0).contribution(), 0u);
}

TEST(SandblasterJobTest, TestSetEvaluations) {
  SandblasterOptions options = TenOf(100);
  options.has_test = true;
  options.evaluate_every_iterations = 2;
  options.target_accuracy = 0.9;
  testing::ReplayedState state;
  SandblasterJob job(options, state.Begun(SANDBLASTER).job_writer());
  Replicas replicas(&job);
  replicas.Add(0);
  job.StartEvaluation(1, "x", false, replicas.now_);
  replicas.Ask(0);
  EXPECT_FALSE(job.target_reached());
  job.NoteIteration(Iteration(1), replicas.now_);
  EXPECT_TRUE(replicas.Ask(0).has_contribute());
  job.NoteIteration(Iteration(2), replicas.now_);
  // First what it holds.
  EXPECT_TRUE(replicas.Ask(0, {Result(1, 0)}).has_wait());
  EXPECT_EQ(job.ReplicaState(0), "EVALUATING");
  replicas.now_ += absl::Seconds(3);
  NextWorkReply reply = replicas.Ask(0, {Result(1, 1)});
  ASSERT_TRUE(reply.has_evaluate());
  ASSERT_OK(replicas.Report(0, reply.evaluate().evaluation()));
  ASSERT_OK(replicas.Report(0, reply.evaluate().evaluation()));
  ASSERT_EQ(job.test_results().size(), 1u);
  EXPECT_EQ(job.test_results()[0].step, 2u);
  EXPECT_TRUE(job.target_reached());
  EXPECT_EQ(job.test_results()[0].at, absl::Seconds(3));
  EXPECT_EQ(job.test_results()[0].accuracy, 0.9);
  EXPECT_EQ(job.test_results()[0].loss, 0.5);
  EXPECT_TRUE(replicas.Ask(0).has_contribute());

  job.DriverDone({"line_search_failed", ""}, replicas.now_);
  EXPECT_EQ(job.phase(), Phase::kFinalEvaluation);
  reply = replicas.Ask(0, {Result(1, 2)});
  ASSERT_TRUE(reply.has_evaluate());
  // The evaluator is lost; another one does it.
  job.RemoveReplica(0, replicas.now_);
  replicas.Add(1);
  reply = replicas.Ask(1);
  ASSERT_TRUE(reply.has_evaluate());
  ASSERT_OK(replicas.Report(1, reply.evaluate().evaluation()));
  EXPECT_TRUE(job.test_results().back().final);
  EXPECT_EQ(job.phase(), Phase::kLeaving);
  EXPECT_OK(replicas.Report(1, 0));  // Older than what is known.
  replicas.now_ += absl::Seconds(3);
  job.Tick(replicas.now_);
  EXPECT_EQ(job.phase(), Phase::kDone);
}

TEST(SandblasterJobTest, MixedBackendsCountOnceButNotWithTheSameBits) {
  testing::ReplayedState state;
  SandblasterJob job(TenOf(100), state.Begun(SANDBLASTER).job_writer());
  Replicas replicas(&job);
  replicas.Add(0);
  replicas.Add(1);
  replicas.backend_ = {{0, "cpu avx2"}, {1, "cpu avx2"}};
  replicas.Ask(0);
  replicas.Ask(1);
  EXPECT_STREQ(job.reproducibility(), "same bits");
  job.TakeEvents();
  replicas.backend_[1] = "cuda sm_90";
  replicas.Ask(1);
  EXPECT_STREQ(job.reproducibility(), "once");
  const auto events = job.TakeEvents();
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].kind, "mixed_backends");
  EXPECT_THAT(events[0].text, AllOf(HasSubstr("cpu avx2"), HasSubstr("cuda sm_90")));
}

TEST(SandblasterJobTest, OneHostOfTwoBackendsIsMixedToo) {
  testing::ReplayedState state;
  SandblasterJob job(TenOf(100), state.Begun(SANDBLASTER).job_writer());
  job.AddReplica(0, absl::ZeroDuration());
  NextWorkRequest request;
  request.set_request(1);
  request.mutable_stats()->add_backend_fingerprint("cuda sm_80");
  request.mutable_stats()->add_backend_fingerprint("cuda sm_90");
  ASSERT_OK(job.NextWork(0, request, absl::ZeroDuration()).status());
  EXPECT_STREQ(job.reproducibility(), "once");
}

TEST(SandblasterJobTest, Describes) {
  testing::ReplayedState state;
  SandblasterJob job(TenOf(100), state.Begun(SANDBLASTER).job_writer());
  Replicas replicas(&job);
  replicas.Add(0);
  job.StartEvaluation(1, "x", false, replicas.now_);
  replicas.Ask(0);
  replicas.Ask(0);
  replicas.Ask(0, {Result(1, 0)});
  replicas.now_ += absl::Seconds(5);
  for (uint32_t i = 1; i <= 1005; ++i) {
    job.NoteIteration(Iteration(i, 1.0 / i), replicas.now_);
  }
  BatchFigures figures;
  figures.set_evaluations(9);
  figures.set_overflows(1);
  figures.set_commands(30);
  figures.set_command_bytes(4000);
  job.NoteFigures(figures);
  JobDescription description;
  job.Describe(&description);
  const JobDescription::Sandblaster& out = description.sandblaster();
  EXPECT_EQ(description.mode(), "sandblaster");
  EXPECT_EQ(out.iteration(), 1005u);
  EXPECT_EQ(out.f(), 1.0 / 1005);
  EXPECT_EQ(out.trace_size(), 1000);
  EXPECT_EQ(out.trace(0).iteration(), 6u);
  EXPECT_EQ(out.trace(0).elapsed_s(), 5.0);
  EXPECT_EQ(out.chunks_total(), 10u);
  EXPECT_EQ(out.chunks_done(), 1u);
  EXPECT_EQ(out.chunks_outstanding(), 2u);
  EXPECT_NEAR(out.affinity(), 2.0 / 3, 1e-12);
  EXPECT_EQ(out.evaluations(), 9u);
  EXPECT_EQ(out.overflows(), 1u);
  EXPECT_EQ(out.reproducibility(), "same bits");
  EXPECT_EQ(out.end_reason(), "");

  // Between two evaluations the figures of the last one stay.
  job.CancelEvaluation();
  job.Describe(&description);
  EXPECT_EQ(out.chunks_total(), 10u);
  EXPECT_EQ(out.chunks_done(), 1u);
  EXPECT_EQ(out.chunks_outstanding(), 0u);
}

TEST(SandblasterOptionsTest, FromJob) {
  Job job;
  job.set_batch_size(100);
  job.mutable_test();
  job.mutable_sandblaster()->set_evaluate_every_iterations(5);
  auto options = SandblasterOptions::FromJob(job, 60000, 2);
  ASSERT_OK(options);
  EXPECT_EQ(options->max_iterations, 100u);
  EXPECT_EQ(options->evaluate_every_iterations, 5u);
  EXPECT_EQ(options->plan.contributions(), 100u);
  EXPECT_TRUE(options->has_test);
  EXPECT_TRUE(options->backup_copies);

  job.mutable_sandblaster()->set_sample_examples(3000);
  job.mutable_sandblaster()->set_chunk_examples(10);
  job.mutable_sandblaster()->set_chunks_per_contribution(3);
  job.mutable_sandblaster()->set_no_backup_copies(true);
  options = SandblasterOptions::FromJob(job, 60000, 2);
  ASSERT_OK(options);
  EXPECT_EQ(options->examples, 60000u);
  EXPECT_EQ(options->plan.examples(), 3000u);
  EXPECT_EQ(options->plan.contributions(), 100u);
  EXPECT_FALSE(options->backup_copies);

  job.mutable_sandblaster()->set_sample_examples(60001);
  EXPECT_THAT(SandblasterOptions::FromJob(job, 60000, 2).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("sample_examples: 60001")));
}

}  // namespace
}  // namespace monsoon
