// A Downpour job that a program ends (NextWorkRequest.end_job).
#include <optional>
#include <string>
#include <vector>

#include "common/testing/status_matchers.h"
#include "coordinator/downpour/downpour_fixture.h"
#include "coordinator/downpour/downpour_job.h"
#include "coordinator/state/replayed_state.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace monsoon {
namespace {

using ::testing::HasSubstr;
using Phase = DownpourJob::Phase;
using testing::FourBlocks;
using testing::Replicas;
using testing::StatusIs;

class DownpourEndTest : public ::testing::Test {
 protected:
  DownpourEndTest() : options_(FourBlocks(100)) {}

  // The next life of the coordinator takes the job over, too.
  void Begin() {
    job_.emplace(options_, writer_);
    const std::optional<Replicas> before = std::move(replicas_);
    replicas_.emplace(&*job_);
    if (before) {
      replicas_->now_ = before->now_;
      replicas_->request_ = before->request_;
      replicas_->held_ = before->held_;
    }
  }
  // Workers 0 and 1 have blocks.
  void BeginWithTwo() {
    Begin();
    replicas_->Add(0);
    replicas_->Add(1);
    replicas_->Ask(0);
    replicas_->Ask(1);
  }
  // What `worker` is told that ends the job, with the blocks that it has done.
  absl::StatusOr<NextWorkReply> End(uint32_t worker, const std::vector<BlockId>& done = {}) {
    NextWorkRequest request;
    request.set_request(++replicas_->request_[worker]);
    request.mutable_done()->Add(done.begin(), done.end());
    request.set_end_job(true);
    return job_->NextWork(worker, request, replicas_->now_);
  }
  // The text of the event "finishing"; each is told once.
  std::string Finishing() {
    std::string text;
    for (const auto& event : job_->TakeEvents()) {
      if (event.kind == "finishing") {
        EXPECT_EQ(text, "");
        text = event.text;
      }
    }
    return text;
  }
  const DownpourState& state() { return writer_.job().downpour(); }

  testing::ReplayedState state_;
  const JobWriter writer_ = state_.Begun(DOWNPOUR).job_writer();
  DownpourOptions options_;
  std::optional<DownpourJob> job_;
  std::optional<Replicas> replicas_;
};

TEST_F(DownpourEndTest, OneProgramAloneEndsIt) {
  Begin();
  replicas_->Add(3);
  const NextWorkReply first = replicas_->Ask(3);
  ASSERT_EQ(first.train().block_size(), 2);
  job_->NoteSteps(6);
  ASSERT_OK_AND_ASSIGN(const NextWorkReply reply, End(3, {first.train().block(0)}));
  EXPECT_TRUE(reply.has_finish()) << "its other block is waited for by nobody";
  EXPECT_EQ(job_->phase(), Phase::kDone);
  EXPECT_EQ(job_->fraction(replicas_->now_), 1.0);
  EXPECT_EQ(Finishing(), "ended by worker/3 after 0.29 epochs, 6 steps");
  EXPECT_EQ(job_->examples_done(), 20u);
  EXPECT_EQ(state().blocks_released(), 0u) << "nobody does it in its place";
}

TEST_F(DownpourEndTest, OthersFinishWhatTheyHoldAndTestTheEnd) {
  options_.has_test = true;
  Begin();
  for (const uint32_t worker : {0u, 1u, 2u}) {
    replicas_->Add(worker);
    ASSERT_TRUE(replicas_->Ask(worker).has_train());
  }
  ASSERT_OK_AND_ASSIGN(NextWorkReply reply, End(1));
  EXPECT_TRUE(reply.has_wait());
  EXPECT_EQ(job_->phase(), Phase::kDraining);
  EXPECT_EQ(job_->blocks().held(1), 0u);
  EXPECT_TRUE(replicas_->Ask(0, /*report=*/false).has_flush());
  ASSERT_OK_AND_ASSIGN(reply, End(1));
  EXPECT_TRUE(reply.has_wait()) << "said again, it changes nothing";
  EXPECT_TRUE(replicas_->Ask(0).has_wait());
  replicas_->Ask(2);
  EXPECT_EQ(job_->phase(), Phase::kFinalEvaluation);
  const NextWorkReply last = replicas_->Ask(0);
  ASSERT_TRUE(last.has_evaluate());
  ASSERT_OK(replicas_->Report(0, last.evaluate().evaluation(), 60));
  EXPECT_EQ(job_->test_results().size(), 1u);
  EXPECT_TRUE(job_->test_results()[0].final);
  ASSERT_OK_AND_ASSIGN(reply, End(1));
  EXPECT_TRUE(reply.has_finish());
  EXPECT_TRUE(replicas_->Ask(0).has_finish());
  EXPECT_TRUE(replicas_->Ask(2).has_finish());
  EXPECT_EQ(job_->phase(), Phase::kDone);
  EXPECT_EQ(Finishing(), "ended by worker/1 after 0.00 epochs, 0 steps");
}

TEST_F(DownpourEndTest, WhoHasEndedItMayDie) {
  BeginWithTwo();
  ASSERT_OK(End(1));
  replicas_->Lose(1);
  EXPECT_EQ(job_->phase(), Phase::kDraining);
  EXPECT_TRUE(replicas_->Ask(0).has_finish());
  EXPECT_EQ(job_->phase(), Phase::kDone);
}

TEST_F(DownpourEndTest, TwoEndItAtOnce) {
  BeginWithTwo();
  ASSERT_OK(End(0));
  EXPECT_EQ(job_->phase(), Phase::kDraining);
  ASSERT_OK_AND_ASSIGN(const NextWorkReply reply, End(1));
  EXPECT_TRUE(reply.has_finish()) << "what the second one holds is dropped, too";
  EXPECT_EQ(Finishing(), "ended by worker/0 after 0.00 epochs, 0 steps");
}

TEST_F(DownpourEndTest, ItHoldsInTheNextLifeOfTheCoordinator) {
  BeginWithTwo();
  ASSERT_OK(End(1));
  Begin();
  EXPECT_EQ(job_->phase(), Phase::kDraining);
  EXPECT_EQ(job_->blocks().held(0), 2u);
  EXPECT_EQ(job_->blocks().held(1), 0u) << "nor are its blocks waited for then";
  EXPECT_TRUE(replicas_->Ask(0).has_finish());
  EXPECT_EQ(job_->phase(), Phase::kLeaving);
}

TEST_F(DownpourEndTest, AnAnswerThatWasLostIsGivenAgain) {
  Begin();
  replicas_->Add(0);
  replicas_->Ask(0);
  ASSERT_OK_AND_ASSIGN(const NextWorkReply first, End(0));
  --replicas_->request_[0];
  ASSERT_OK_AND_ASSIGN(const NextWorkReply again, End(0));
  EXPECT_EQ(first.SerializeAsString(), again.SerializeAsString());
}

TEST_F(DownpourEndTest, AWarmstartEndsToo) {
  options_.warmstart.set_steps(1000);
  Begin();
  replicas_->Add(0);
  replicas_->Add(1);
  replicas_->Ask(0);
  ASSERT_OK(End(1));
  EXPECT_EQ(job_->phase(), Phase::kDraining);
  EXPECT_TRUE(replicas_->Ask(0).has_finish());
}

TEST_F(DownpourEndTest, OfSamplesWithoutNumbersNobodyTellsEpochs) {
  options_.unnumbered = true;
  Begin();
  replicas_->Add(0);
  replicas_->Ask(0);
  job_->NoteSteps(7);
  ASSERT_OK(End(0));
  EXPECT_EQ(Finishing(), "ended by worker/0 after 7 steps");
}

TEST_F(DownpourEndTest, APartOfAChainIsNotAProgramsToEnd) {
  options_.hands_over = true;
  Begin();
  replicas_->Add(0);
  const NextWorkReply reply = replicas_->Ask(0);
  EXPECT_THAT(End(0, {reply.train().block(0)}).status(),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("worker/0 ends the training, and a batch")));
  EXPECT_EQ(job_->phase(), Phase::kRunning);
  EXPECT_EQ(job_->blocks().held(0), 2u) << "an error changes nothing";
}

}  // namespace
}  // namespace monsoon
