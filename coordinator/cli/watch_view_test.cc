#include "coordinator/cli/watch_view.h"

#include <algorithm>
#include <limits>

#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace monsoon {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

JobDescription Running() {
  JobDescription job;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
      R"pb(summary { job: "lenet-1" name: "lenet" state: RUNNING percent: 32 elapsed_s: 12.04 }
           progress {
             epoch: 3.2
             epochs: 10
             percent: 32
             step: 1499
             examples: 191872
             examples_per_s: 5321.4
             loss: 0.43121
             train_accuracy: 0.86119
             eta_s: 58.4
           }
           evaluation { test_accuracy: 0.81 }
           evaluation { test_accuracy: 0.857 }
           staleness { key: 0 value: 40 }
           staleness { key: 1 value: 50 }
           staleness { key: 3 value: 10 }
           recent_staleness_p50: 1
           recent_staleness_p99: 3
           latency_ms { fetch_p50: 8.7 push_p50: 8.8 recent_fetch_p50: 1.92 recent_push_p50: 2.16 }
           worker {
             task: 0
             state: "RUNNING"
             steps: 500
             examples_per_s: 1770.4
             staleness_p50: 1
             recent_staleness_p50: 1
             silent_s: 0.2
           }
           worker { task: 2 state: "LOST" steps: 7 silent_s: 4 })pb",
      &job));
  return job;
}

TEST(WatchLinesTest, Golden) {
  EXPECT_EQ(WatchLines(Running()),
            "t=12.0 job=lenet-1 state=RUNNING epoch=3.20/10 percent=32.0 step=1499 loss=0.4312 "
            "acc=0.8612 test_acc=0.8570 ex_s=5321 stale_p50=1 stale_p99=3 fetch_ms=1.9 push_ms=2.2 "
            "eta_s=58\n"
            "  worker=0 state=RUNNING step=500 ex_s=1770 stale_p50=1 age_s=0.2\n"
            "  worker=2 state=LOST step=7 ex_s=0 stale_p50=- age_s=4.0");
}

TEST(WatchLinesTest, LatenciesAreThoseOfTheLastSeconds) {
  JobDescription job = Running();
  job.mutable_latency_ms()->clear_recent_fetch_p50();  // none has ended for a while
  EXPECT_THAT(WatchLines(job), HasSubstr(" fetch_ms=- push_ms=2.2 "));
  // Of a job that has ended they are those of all of it.
  job.mutable_summary()->set_state(SUCCEEDED);
  job.mutable_latency_ms()->clear_recent_push_p50();
  EXPECT_THAT(WatchLines(job), HasSubstr(" fetch_ms=8.7 push_ms=8.8 "));
}

TEST(WatchLinesTest, StalenessIsThatOfTheLastSeconds) {
  JobDescription job = Running();
  job.set_recent_staleness_p50(12);
  job.set_recent_staleness_p99(40);
  job.mutable_worker(0)->set_recent_staleness_p50(11);
  EXPECT_THAT(WatchLines(job), AllOf(HasSubstr(" stale_p50=12 stale_p99=40 "),
                                     HasSubstr(" ex_s=1770 stale_p50=11 ")));
  EXPECT_THAT(WatchScreen(job, {.columns = 80}),
              ::testing::Contains(HasSubstr("staleness p50 12 p99 40")));
  job.mutable_worker(0)->clear_recent_staleness_p50();  // it has pushed nothing for a while
  EXPECT_THAT(WatchLines(job), HasSubstr(" ex_s=1770 stale_p50=- "));
  // Of a job that has ended it is that of all of it.
  job.mutable_summary()->set_state(SUCCEEDED);
  EXPECT_THAT(WatchLines(job),
              AllOf(HasSubstr(" stale_p50=1 stale_p99=3 "), HasSubstr(" ex_s=1770 stale_p50=1 ")));
}

// The wall clocks of two machines differ, and one may be set anew.
TEST(WatchLinesTest, AgesAreTheCoordinators) {
  JobDescription job;
  JobDescription::Worker* const worker = job.add_worker();
  worker->set_state("LOST");
  worker->set_last_seen_ms(4'102'444'800'000);
  EXPECT_THAT(WatchLines(job), EndsWith(" age_s=-"));
  worker->set_silent_s(12.34);
  EXPECT_THAT(WatchLines(job), EndsWith(" age_s=12.3"));
}

TEST(WatchLinesTest, WhatIsNotMeasuredIsADash) {
  JobDescription job;
  job.mutable_summary()->set_job("mlp-2");
  job.mutable_summary()->set_state(PENDING);
  EXPECT_EQ(WatchLines(job),
            "t=0.0 job=mlp-2 state=PENDING epoch=0.00/- percent=0.0 step=0 loss=- acc=- "
            "test_acc=- ex_s=- stale_p50=- stale_p99=- fetch_ms=- push_ms=- eta_s=-");
}

TEST(WatchLinesTest, MetricsComeLast) {
  JobDescription job;
  JobDescription::EvaluationResult* const result = job.add_evaluation();
  result->set_test_loss(0.25);
  for (const auto& [name, value] : {std::pair("loss", 0.25), std::pair("auc", 0.98765),
                                    std::pair("accuracy", 0.5), std::pair("a b", 1.0)}) {
    result->add_metric()->set_name(name);
    result->mutable_metric()->rbegin()->set_value(value);
  }
  EXPECT_THAT(WatchLines(job), HasSubstr(" eta_s=- test_loss=0.2500 auc=0.9877"));
  EXPECT_THAT(WatchLines(job), ::testing::Not(HasSubstr("a b")));
  EXPECT_THAT(WatchScreen(job, {.columns = 80}),
              ::testing::Contains("step 0  loss -  accuracy -  test -  test_loss 0.2500  auc "
                                  "0.9877  examples/s -"));
}

TEST(WatchLinesTest, BrokenEpochsAreRounded) {
  JobDescription job;
  job.mutable_progress()->set_epochs(1.0 / 3);
  EXPECT_THAT(WatchLines(job), HasSubstr(" epoch=0.00/0.33 "));
}

TEST(DoneLineTest, Golden) {
  JobDescription job = Running();
  job.mutable_summary()->set_state(SUCCEEDED);
  job.mutable_summary()->set_elapsed_s(130.7);
  job.set_final_test_accuracy(0.88541);
  EXPECT_EQ(DoneLine(job), "done job=lenet-1 state=SUCCEEDED test_acc=0.8854 elapsed_s=131");
  job.clear_final_test_accuracy();
  job.mutable_summary()->set_state(FAILED);
  EXPECT_EQ(DoneLine(job), "done job=lenet-1 state=FAILED test_acc=- elapsed_s=131");
}

TEST(WatchScreenTest, Golden) {
  EXPECT_THAT(
      WatchScreen(Running(), {.columns = 80}),
      ElementsAre("lenet-1  RUNNING  0:12 elapsed  0:58 left",
                  "[################..................................] epoch 3.20/10  32.0 %",
                  "step 1499  loss 0.4312  accuracy 0.8612  test 0.8570  examples/s 5321",
                  "staleness p50 1 p99 3  fetch 1.9 ms  push 2.2 ms",
                  "worker  state           step  examples/s  staleness  seen",
                  "     0  RUNNING          500        1770          1  0.2 s ago",
                  "     2  LOST               7           0          -  4.0 s ago"));
}

JobDescription Batch() {
  JobDescription job;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
      R"pb(summary { job: "lenet-2" state: RUNNING elapsed_s: 30.5 }
           progress { percent: 12 examples_per_s: 5000.4 }
           evaluation { test_accuracy: 0.81 }
           sandblaster {
             iteration: 12
             f: 0.431234567
             gradient_norm: 0.012345
             step_length: 1
             evaluations: 15
             chunks_total: 150
             chunks_done: 120
             chunks_outstanding: 6
             chunks_backup: 2
             affinity: 0.934
           }
           worker { task: 0 state: "RUNNING" steps: 500 silent_s: 0.2 })pb",
      &job));
  return job;
}

TEST(WatchLinesTest, SandblasterGolden) {
  EXPECT_EQ(WatchLines(Batch()),
            "t=30.5 job=lenet-2 state=RUNNING iteration=12 percent=12.0 f=0.4312346 grad=1.23e-02 "
            "step_len=1 evals=15 chunks=120/150 backup=2 affinity=0.93 test_acc=0.8100 ex_s=5000\n"
            "  worker=0 state=RUNNING step=500 ex_s=0 stale_p50=- age_s=0.2");
}

TEST(WatchLinesTest, SandblasterBeforeItsFirstEvaluation) {
  JobDescription job;
  job.mutable_summary()->set_job("softmax-1");
  job.mutable_summary()->set_state(PENDING);
  job.mutable_sandblaster();
  EXPECT_EQ(WatchLines(job),
            "t=0.0 job=softmax-1 state=PENDING iteration=0 percent=0.0 f=- grad=- step_len=- "
            "evals=0 chunks=0/0 backup=0 affinity=- test_acc=- ex_s=-");
  job.mutable_sandblaster()->set_f(std::numeric_limits<double>::infinity());
  EXPECT_THAT(WatchLines(job), HasSubstr(" f=- "));
}

TEST(WatchScreenTest, SandblasterGolden) {
  JobDescription job = Batch();
  EXPECT_THAT(
      WatchScreen(job, {.columns = 80}),
      ElementsAre("lenet-2  RUNNING  0:31 elapsed",
                  "[######............................................] iteration 12  12.0 %",
                  "f 0.4312346  |g| 1.23e-02  step length 1  evaluations 15",
                  "chunks 120/150 done, 6 outstanding, 2 backup  affinity 0.93",
                  "test accuracy 0.8100  examples/s 5000",
                  "worker  state           step  examples/s  staleness  seen",
                  "     0  RUNNING          500           0          -  0.2 s ago"));
  job.mutable_sandblaster()->set_end_reason("converged");
  EXPECT_EQ(WatchScreen(job, {.columns = 80})[4],
            "test accuracy 0.8100  examples/s 5000  converged");
  for (const std::string& line : WatchScreen(job, {.columns = 30})) {
    EXPECT_LE(line.size(), 30u) << line;
  }
}

TEST(WatchScreenTest, FitsNarrowTerminalsAndColours) {
  for (const std::string& line : WatchScreen(Running(), {.columns = 30})) {
    EXPECT_LE(line.size(), 30u) << line;
    EXPECT_EQ(line.find('\x1b'), std::string::npos);
  }
  EXPECT_THAT(WatchScreen(Running(), {.columns = 80, .color = true})[0],
              HasSubstr("\x1b[1mRUNNING\x1b[0m"));
}

TEST(WatchLinesTest, TheReasonToWaitEndsTheLine) {
  JobDescription job = Running();
  job.clear_worker();
  job.mutable_summary()->set_reason("waits for ps/1 at 127.0.0.1:2223 (lost: \"no\"\nanswer)");
  EXPECT_THAT(
      WatchLines(job),
      EndsWith(" eta_s=58 reason=\"waits for ps/1 at 127.0.0.1:2223 (lost: 'no' answer)\""));
  job.mutable_summary()->set_state(SUCCEEDED);
  job.mutable_summary()->set_reason("the model has learned nothing");
  EXPECT_EQ(DoneLine(job),
            "done job=lenet-1 state=SUCCEEDED test_acc=- elapsed_s=12 "
            "reason=\"the model has learned nothing\"");
}

JobDescription WithWorkers(int workers) {
  JobDescription job = Running();
  job.clear_worker();
  for (int i = 0; i < workers; ++i) {
    JobDescription::Worker* const worker = job.add_worker();
    worker->set_task(static_cast<uint32_t>(i));
    worker->set_state(i % 10 == 9 ? "LOST" : "RUNNING");
  }
  return job;
}

TEST(WatchScreenTest, TwentyWorkersOnTwentyFourRows) {
  const std::vector<std::string> lines = WatchScreen(WithWorkers(20), {.rows = 24});
  ASSERT_EQ(lines.size(), 23u);  // the cursor stands on the last row
  EXPECT_THAT(lines[21], StartsWith("    16  RUNNING"));
  EXPECT_EQ(lines[22], "and 3 more: 1 LOST, 2 RUNNING");
  // One row more for each of them, and all are there.
  EXPECT_EQ(WatchScreen(WithWorkers(20), {.rows = 26}).size(), 25u);
  EXPECT_THAT(WatchScreen(WithWorkers(20), {.rows = 26}).back(), StartsWith("    19  LOST"));
  EXPECT_EQ(WatchScreen(WithWorkers(20), {.rows = 60}).size(), 25u);
}

TEST(WatchScreenTest, FitsAnyTerminal) {
  JobDescription job = WithWorkers(7);
  job.mutable_summary()->set_reason(
      "waits for ps/1 at gr\xc3\xbc\xc3\x9f"
      "e.example:2223");
  for (int rows = 1; rows < 20; ++rows) {
    for (int columns = 1; columns < 90; columns += 7) {
      const std::vector<std::string> lines = WatchScreen(job, {.columns = columns, .rows = rows});
      EXPECT_LE(lines.size(), static_cast<size_t>(std::max(1, rows - 1)));
      for (const std::string& line : lines) {
        const auto continued =
            std::ranges::count_if(line, [](char c) { return (c & 0xc0) == 0x80; });
        EXPECT_LE(static_cast<int>(line.size()) - continued, columns) << line;
      }
    }
  }
}

TEST(WatchScreenTest, TheReasonIsBrokenAtSpaces) {
  JobDescription job = Running();
  job.mutable_summary()->set_reason("waits for ps/1 at 127.0.0.1:2223 (not seen for 12 s)");
  const std::vector<std::string> lines = WatchScreen(job, {.columns = 30});
  EXPECT_EQ(lines[1], "waits for ps/1 at");
  EXPECT_EQ(lines[2], "127.0.0.1:2223 (not seen for");
  EXPECT_EQ(lines[3], "12 s)");
}

TEST(FormatTimeLeftTest, HoursAndMinutes) {
  EXPECT_EQ(FormatTimeLeft(0), "0:00");
  EXPECT_EQ(FormatTimeLeft(59.6), "1:00");
  EXPECT_EQ(FormatTimeLeft(3723), "1:02:03");
}

}  // namespace
}  // namespace monsoon
