#include "coordinator/cli/cli.h"

#include <sys/stat.h>

#include <cstdlib>
#include <fstream>

#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "common/model_file/model_file.h"
#include "common/testing/status_matchers.h"
#include "coordinator/cli/cli_fixture.h"
#include "proto/job.pb.h"

namespace monsoon {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

TEST_F(CliTest, HelpIsOnStdoutAndUsageErrorsExit2) {
  EXPECT_EQ(Run({"help"}), 0);
  EXPECT_THAT(cli_.out(), AllOf(HasSubstr("  submit "), HasSubstr("exit codes: 0 ok")));
  EXPECT_EQ(Run({}), 2);
  EXPECT_EQ(cli_.out(), "");
  EXPECT_EQ(Run({"sumbit"}), 2);
  EXPECT_THAT(cli_.err(), HasSubstr("no verb \"sumbit\"; did you mean \"submit\"?"));
  EXPECT_EQ(Run({"jobs", "--jsn"}), 2);
  EXPECT_THAT(cli_.err(), HasSubstr("unknown flag --jsn; did you mean \"--json\"?"));
  EXPECT_EQ(Run({"describe"}), 2);
  EXPECT_THAT(cli_.err(), HasSubstr("an argument is missing: coordinator describe JOB"));
  EXPECT_EQ(Run({"jobs", "extra"}), 2);
  EXPECT_EQ(Run({"export", "tiny-1"}), 2);
  EXPECT_EQ(Run({"up", "--restart=sometimes"}), 2);
  EXPECT_THAT(cli_.err(), HasSubstr("must be never, workers or all"));
  EXPECT_EQ(Run({"up", "--restart_backoff=31"}), 2);
  EXPECT_THAT(cli_.err(), HasSubstr("--restart_backoff=31: it must be 0.01 .. 30"));
  EXPECT_THAT(cli_.coordinator.calls, ElementsAre());
}

TEST_F(CliTest, EveryVerbHasHelpWithExamples) {
  for (const Command& command : ClientCommands()) {
    EXPECT_EQ(Run({command.name, "--help"}), 0) << command.name;
    const std::string help = cli_.out();
    EXPECT_THAT(help, AllOf(HasSubstr(command.summary), HasSubstr("usage: coordinator "),
                            HasSubstr("examples:\n  coordinator "), HasSubstr("--")));
    EXPECT_EQ(Run({"help", command.name}), 0);
    EXPECT_EQ(cli_.out(), help);
  }
}

TEST_F(CliTest, ClusterFlagInBothForms) {
  const std::string other = Write("o.textproto", R"pb(
    coordinator { address: "unix:other" }
    ps { address: "unix:p" })pb");
  EXPECT_EQ(Run({"jobs", "--cluster=" + other}), 0);
  EXPECT_EQ(cli_.connected_to, "unix:other");
  EXPECT_EQ(Run({"jobs"}), 0);
  EXPECT_EQ(cli_.connected_to, "unix:cli-test-c");
  EXPECT_EQ(Run({"jobs", "--cluster", other}), 0);
  EXPECT_EQ(cli_.connected_to, "unix:other");
  EXPECT_EQ(Run({"jobs", "--cluster=/no/such/file"}), 2);
  EXPECT_THAT(cli_.err(), HasSubstr("/no/such/file"));
}

TEST_F(CliTest, TheDefaultClusterIsFoundAboveTheBinary) {
  ASSERT_EQ(mkdir((folder_ + "/configs").c_str(), 0700), 0);
  ASSERT_EQ(mkdir((folder_ + "/configs/cluster").c_str(), 0700), 0);
  Write("configs/cluster/localhost.textproto", kCluster);
  cli_.environment().default_cluster = "";
  cli_.environment().self_path = folder_ + "/bazel-bin/coordinator/coordinator";
  ASSERT_EQ(chdir("/"), 0);
  EXPECT_EQ(Run({"jobs"}), 0);
  EXPECT_EQ(cli_.connected_to, "unix:cli-test-c");
}

TEST_F(CliTest, ErrorsBecomeExitCodes) {
  EXPECT_EQ(Run({"describe", "nope"}), 2);
  EXPECT_THAT(cli_.err(), HasSubstr("no job \"nope\""));
  cli_.coordinator.down = kDown;
  for (const char* verb : {"describe", "cancel", "delete"}) {
    cli_.coordinator.descriptions = {Description(RUNNING)};
    EXPECT_EQ(Run({verb, "tiny-1"}), 3) << verb;
    EXPECT_THAT(cli_.err(), HasSubstr("coordinator at unix:c not reached"));
    EXPECT_EQ(cli_.out(), "");
  }
  EXPECT_EQ(Run({"jobs"}), 3);
  EXPECT_EQ(Run({"submit", job_}), 3);
}

TEST_F(CliTest, JobsAndDescribe) {
  EXPECT_EQ(Run({"jobs"}), 0);
  EXPECT_THAT(cli_.out(), StartsWith("no jobs"));
  *cli_.coordinator.list.add_job() = Description(FAILED, "ps/0 is gone").summary();
  EXPECT_EQ(Run({"jobs"}), 0);
  EXPECT_EQ(cli_.out(),
            "job     state         percent  elapsed s        disk  reason\n"
            "tiny-1  FAILED            0.0        0.0           -  ps/0 is gone\n");
  cli_.coordinator.list.mutable_job(0)->set_disk_bytes(12'900'000);
  EXPECT_EQ(Run({"jobs"}), 0);
  EXPECT_THAT(cli_.out(), HasSubstr("        0.0    12.3 MiB  ps/0 is gone\n"));
  EXPECT_EQ(Run({"jobs", "--json"}), 0);
  EXPECT_THAT(cli_.out(), StartsWith(R"({"schema_version":1,"jobs":[{"job":"tiny-1")"));
  cli_.coordinator.descriptions = {Description(RUNNING)};
  EXPECT_EQ(Run({"describe", "tiny-1", "--json"}), 0);
  EXPECT_THAT(cli_.out(), StartsWith(R"({"schema_version":1,"job":"tiny-1")"));
  EXPECT_EQ(Run({"describe", "latest"}), 0);
  EXPECT_THAT(cli_.out(), AllOf(HasSubstr("state        RUNNING\n"), HasSubstr("accuracy -")));
}

TEST_F(CliTest, SubmitSendsTheLoadedJob) {
  EXPECT_EQ(Run({"submit", job_, "--json", "--name=try", "--set=seed=7", "--set", "stop.epochs=3"}),
            0);
  EXPECT_EQ(cli_.out(), "{\"schema_version\":1,\"job\":\"try-1\",\"state\":\"PENDING\"}\n");
  ASSERT_EQ(cli_.coordinator.submitted.size(), 1u);
  const SubmitRequest& request = cli_.coordinator.submitted[0];
  EXPECT_EQ(request.job().seed(), 7u);
  EXPECT_EQ(request.job().stop().epochs(), 3);
  EXPECT_FALSE(request.init());
}

TEST_F(CliTest, SubmitOfABatchJob) {
  // An override makes a chain of the Downpour job; its defaults are filled in.
  EXPECT_EQ(Run({"submit", job_, "--set=sandblaster={history: 5}", "--set=sandblaster.l2=0.5"}), 0);
  ASSERT_EQ(cli_.coordinator.submitted.size(), 1u);
  const Job& job = cli_.coordinator.submitted[0].job();
  EXPECT_TRUE(job.has_downpour());
  EXPECT_EQ(job.sandblaster().history(), 5u);
  EXPECT_EQ(job.sandblaster().l2(), 0.5);
  EXPECT_EQ(job.sandblaster().chunk_examples(), 8u);
  EXPECT_EQ(Run({"submit", job_, "--set=sandblaster.history=21"}), 2);
  EXPECT_THAT(cli_.err(), HasSubstr("--set sandblaster.history=21: error: sandblaster.history: 21 "
                                    "is more than 20"));
  EXPECT_EQ(cli_.coordinator.submitted.size(), 1u);
}

TEST_F(CliTest, DescribeAndWatchABatchJob) {
  JobDescription job = Description(SUCCEEDED);
  JobDescription::Sandblaster* const batch = job.mutable_sandblaster();
  batch->set_iteration(7);
  batch->set_f(0.25);
  batch->set_gradient_norm(1.5e-6);
  batch->set_evaluations(9);
  batch->set_overflows(1);
  batch->set_chunks_done(30);
  batch->set_chunks_total(40);
  batch->set_end_reason("converged");
  batch->set_reproducibility("same bits");
  cli_.coordinator.descriptions = {job};
  EXPECT_EQ(Run({"describe", "tiny-1"}), 0);
  EXPECT_THAT(cli_.out(),
              AllOf(HasSubstr("sandblaster  iteration 7, f 0.25, |g| 1.500e-06, step length -\n"),
                    HasSubstr("evaluations  9, 1 repeated on overflow; same bits\n"),
                    HasSubstr("chunks       30 of 40 done, 0 outstanding, 0 backup, affinity -\n"),
                    HasSubstr("end reason   converged\n")));
  EXPECT_EQ(Run({"describe", "tiny-1", "--json"}), 0);
  EXPECT_THAT(cli_.out(), HasSubstr(R"("sandblaster":{"iteration":7,"f":0.25,)"));
  EXPECT_EQ(Run({"watch", "tiny-1"}), 0);
  EXPECT_THAT(cli_.out(), AllOf(HasSubstr(" iteration=7 "), HasSubstr(" chunks=30/40 ")));
}

TEST_F(CliTest, SubmitRefusesBadFilesBeforeAnyCall) {
  EXPECT_EQ(Run({"submit", folder_ + "/none.textproto"}), 2);
  EXPECT_EQ(Run({"submit", Write("bad.textproto", "batch_sise: 3\n")}), 2);
  EXPECT_THAT(cli_.err(), HasSubstr("bad.textproto:1:1: error: "));
  EXPECT_EQ(Run({"submit", job_, "--set=batch=3"}), 2);
  EXPECT_EQ(Run({"submit", job_, "--init=" + folder_ + "/none.npz"}), 2);
  EXPECT_THAT(cli_.err(), HasSubstr("none.npz"));
  EXPECT_THAT(cli_.coordinator.calls, ElementsAre());
}

TEST_F(CliTest, SubmitInitWritesThenStarts) {
  const ParameterLayout layout = Layout();
  std::vector<float> parameters(layout.size(), 0.0f);
  parameters[0] = 1.5f;
  ASSERT_OK(WriteModelFile(layout, parameters, model_));
  cli_.coordinator.descriptions = {Description(PENDING), Description(INITIALIZING)};
  EXPECT_EQ(Run({"submit", job_, "--init", model_}), 0);
  EXPECT_TRUE(cli_.coordinator.submitted.at(0).init());
  EXPECT_THAT(cli_.coordinator.calls,
              ElementsAre("Submit tiny", "Describe tiny-1", "Describe tiny-1", "Locate tiny-1",
                          "Start tiny-1"));
  EXPECT_EQ(cli_.transfer.parameters, parameters);
}

TEST_F(CliTest, SubmitInitCancelsWhatItCannotStart) {
  const ParameterLayout layout = Layout();
  ASSERT_OK(WriteModelFile(layout, std::vector<float>(layout.size()), model_));
  cli_.coordinator.descriptions = {Description(INITIALIZING)};
  cli_.transfer.status = absl::UnavailableError("ps/0 does not answer");
  EXPECT_EQ(Run({"submit", job_, "--init=" + model_}), 3);
  EXPECT_THAT(cli_.err(), HasSubstr("ps/0 does not answer"));
  EXPECT_EQ(cli_.coordinator.calls.back(), "Cancel tiny-1");

  cli_.coordinator.descriptions = {Description(PENDING)};
  EXPECT_EQ(Run({"submit", job_, "--init=" + model_, "--timeout=2"}), 4);
  EXPECT_THAT(cli_.err(), HasSubstr("tiny-1 is still PENDING after 2 s"));
  EXPECT_EQ(cli_.coordinator.calls.back(), "Cancel tiny-1");
}

TEST_F(CliTest, WatchPrintsUntilTheEnd) {
  JobDescription done = Description(SUCCEEDED);
  done.set_final_test_accuracy(0.5);
  cli_.coordinator.descriptions = {Description(PENDING), Description(RUNNING), done};
  EXPECT_EQ(Run({"watch", "latest"}), 0);
  EXPECT_THAT(cli_.out(), AllOf(StartsWith("t=0.0 job=tiny-1 state=PENDING epoch="),
                                HasSubstr("\nt=0.0 job=tiny-1 state=RUNNING epoch="),
                                HasSubstr("\ndone job=tiny-1 state=SUCCEEDED test_acc=0.5000 "
                                          "elapsed_s=0\n")));
  EXPECT_THAT(cli_.coordinator.calls,
              ElementsAre("Describe latest", "Describe tiny-1", "Describe tiny-1"));
  EXPECT_EQ(cli_.waited, absl::Milliseconds(200));  // each change is shown at once
}

TEST_F(CliTest, WatchPrintsALineASecondAndSeesTheEndSoon) {
  cli_.coordinator.descriptions.assign(26, Description(RUNNING));
  cli_.coordinator.descriptions.push_back(Description(SUCCEEDED));
  EXPECT_EQ(Run({"watch", "tiny-1"}), 0);
  EXPECT_EQ(cli_.waited, absl::Milliseconds(2600));
  const std::vector<std::string> lines = absl::StrSplit(cli_.out(), '\n');
  EXPECT_THAT(lines, ElementsAre(HasSubstr("RUNNING"), HasSubstr("RUNNING"), HasSubstr("RUNNING"),
                                 HasSubstr("SUCCEEDED"), StartsWith("done job=tiny-1"), ""));
}

TEST_F(CliTest, WatchTellsWhyAJobFailed) {
  cli_.coordinator.descriptions = {Description(FAILED, "worker/1: loss is not finite")};
  EXPECT_EQ(Run({"watch", "tiny-1"}), 1);
  EXPECT_THAT(cli_.out(), HasSubstr("done job=tiny-1 state=FAILED"));
  EXPECT_THAT(cli_.err(), HasSubstr("tiny-1 failed: worker/1: loss is not finite"));
  cli_.coordinator.descriptions = {Description(CANCELLED)};
  EXPECT_EQ(Run({"watch", "tiny-1"}), 1);
}

TEST_F(CliTest, WatchTellsADataErrorByItsExitCode) {
  cli_.coordinator.descriptions = {Description(FAILED, "data: worker/0: train.gz is truncated")};
  EXPECT_EQ(Run({"watch", "tiny-1"}), 5);
}

TEST_F(CliTest, WatchJsonIsOneObject) {
  cli_.coordinator.descriptions = {Description(RUNNING), Description(SUCCEEDED)};
  EXPECT_EQ(Run({"watch", "tiny-1", "--json"}), 0);
  EXPECT_THAT(cli_.out(), StartsWith(R"({"schema_version":1,"job":"tiny-1",)"));
  EXPECT_THAT(cli_.out(), Not(HasSubstr("done job")));
  EXPECT_THAT(cli_.err(), HasSubstr("done job"));
}

TEST_F(CliTest, WatchSurvivesAShortAbsenceOnly) {
  // For a second it is not worth a word.
  const absl::Status bye = absl::CancelledError("bye");
  cli_.coordinator.descriptions = {Description(RUNNING),  bye, bye, bye, bye, bye, kDown,
                                   Description(SUCCEEDED)};
  EXPECT_EQ(Run({"watch", "tiny-1"}), 0);
  EXPECT_THAT(cli_.err(),
              AllOf(HasSubstr("bye; asking again for 59 s"), HasSubstr("it answers again")));

  cli_.coordinator.descriptions = {Description(RUNNING), kDown};
  cli_.waited = absl::ZeroDuration();
  EXPECT_EQ(Run({"watch", "tiny-1"}), 3);
  EXPECT_THAT(cli_.err(), HasSubstr("not reached"));
  EXPECT_GE(cli_.waited, absl::Seconds(59));
  EXPECT_LE(cli_.waited, absl::Seconds(61));
  cli_.coordinator.descriptions = {Description(RUNNING), kDown};
  cli_.waited = absl::ZeroDuration();
  EXPECT_EQ(Run({"watch", "tiny-1", "--patience=3"}), 3);
  EXPECT_LE(cli_.waited, absl::Seconds(4));

  cli_.coordinator.descriptions = {kDown};
  EXPECT_EQ(Run({"watch", "tiny-1"}), 3);
  cli_.coordinator.descriptions = {Description(RUNNING), absl::NotFoundError("no job tiny-1")};
  EXPECT_EQ(Run({"watch", "tiny-1"}), 2);
}

TEST_F(CliTest, CtrlCLeavesTheJobRunning) {
  cli_.coordinator.descriptions = {Description(RUNNING)};
  cli_.signal_after = absl::Seconds(3);
  EXPECT_EQ(Run({"watch", "tiny-1"}), 130);
  EXPECT_THAT(cli_.err(), HasSubstr("tiny-1 goes on"));
  EXPECT_THAT(cli_.coordinator.calls, Not(::testing::Contains("Cancel tiny-1")));
  cli_.signal = SIGTERM;
  EXPECT_EQ(Run({"submit", job_, "--watch"}), 143);
}

TEST_F(CliTest, TheTerminalIsRedrawn) {
  cli_.environment().terminal = true;
  cli_.coordinator.descriptions = {Description(RUNNING), Description(SUCCEEDED)};
  EXPECT_EQ(Run({"watch", "tiny-1"}), 0);
  EXPECT_THAT(cli_.out(), AllOf(HasSubstr("\x1b[5A\r\x1b[J"), HasSubstr("tiny-1  SUCCEEDED"),
                                Not(HasSubstr("\x1b[32m"))));
}

TEST_F(CliTest, CancelWaits) {
  cli_.coordinator.cancel_state = RUNNING;
  cli_.coordinator.descriptions = {Description(RUNNING), Description(CANCELLED)};
  EXPECT_EQ(Run({"cancel", "tiny-1"}), 0);
  EXPECT_EQ(cli_.out(), "tiny-1 is asked to end, state RUNNING\n");
  EXPECT_EQ(Run({"cancel", "tiny-1", "--wait", "--json"}), 0);
  EXPECT_THAT(cli_.out(), HasSubstr(R"("state":"CANCELLED")"));
  cli_.coordinator.descriptions = {Description(RUNNING)};
  EXPECT_EQ(Run({"cancel", "tiny-1", "--wait", "--timeout=5"}), 4);
  EXPECT_THAT(cli_.err(), HasSubstr("tiny-1 is still RUNNING after 5 s"));
}

// A job whose newest generation is `held`.
JobDescription Durable(uint64_t held, uint64_t ordered, const std::string& error = "") {
  JobDescription job = Description(RUNNING);
  job.mutable_durability()->set_generation(held);
  job.mutable_durability()->set_ordered(ordered);
  job.mutable_durability()->set_disk_bytes(12'900'000);
  job.mutable_durability()->set_error(error);
  job.mutable_durability()->add_state_dir("ps/0: /var/lib/monsoon");
  return job;
}

TEST_F(CliTest, CheckpointWaitsUntilItIsOnTheDisk) {
  cli_.coordinator.checkpoint->set_job("tiny-1");
  cli_.coordinator.checkpoint->set_generation(7);
  cli_.coordinator.descriptions = {Durable(5, 6), Durable(6, 7), Durable(7, 0)};
  EXPECT_EQ(Run({"checkpoint", "latest"}), 0);
  EXPECT_EQ(cli_.out(), "tiny-1: generation 7 is on the disk (12.3 MiB)\n");
  EXPECT_THAT(cli_.coordinator.calls, ElementsAre("Checkpoint latest", "Describe tiny-1",
                                                  "Describe tiny-1", "Describe tiny-1"));
  EXPECT_EQ(Run({"checkpoint", "tiny-1", "--json"}), 0);
  EXPECT_EQ(cli_.out(),
            "{\"schema_version\":1,\"job\":\"tiny-1\",\"generation\":7,"
            "\"disk_bytes\":12900000}\n");
}

TEST_F(CliTest, CheckpointThatIsNotWritten) {
  cli_.coordinator.checkpoint->set_job("tiny-1");
  cli_.coordinator.checkpoint->set_generation(7);
  cli_.coordinator.descriptions = {Durable(6, 7, "ps/1: No space left on device")};
  EXPECT_EQ(Run({"checkpoint", "tiny-1", "--timeout=5"}), 4);
  EXPECT_THAT(cli_.err(), HasSubstr("tiny-1: generation 7 is not on the disk after 5 s: ps/1: No "
                                    "space left on device"));
  EXPECT_EQ(cli_.waited, absl::Seconds(5));

  JobDescription failed = Durable(6, 0);
  failed.mutable_summary()->set_state(FAILED);
  failed.mutable_summary()->set_reason("ps/1 restarted");
  cli_.coordinator.descriptions = {Durable(6, 7), failed};
  EXPECT_EQ(Run({"checkpoint", "tiny-1"}), 1);
  EXPECT_THAT(cli_.err(), HasSubstr("FAILED before generation 7 was written: ps/1 restarted"));

  cli_.coordinator.checkpoint = absl::FailedPreconditionError("it is kept in memory only");
  EXPECT_EQ(Run({"checkpoint", "tiny-1"}), 2);
  EXPECT_THAT(cli_.err(), HasSubstr("it is kept in memory only"));
  cli_.coordinator.checkpoint = kDown;
  EXPECT_EQ(Run({"checkpoint", "tiny-1"}), 3);
}

TEST_F(CliTest, DescribeTellsOfCheckpoints) {
  cli_.coordinator.descriptions = {Durable(0, 0)};
  EXPECT_EQ(Run({"describe", "tiny-1"}), 0);
  EXPECT_THAT(cli_.out(), AllOf(HasSubstr("checkpoint   none yet\n"),
                                HasSubstr("\n             ps/0: /var/lib/monsoon\n")));
  JobDescription job = Durable(6, 7, "ps/1: disk full");
  job.mutable_durability()->set_age_s(3.25);
  cli_.coordinator.descriptions = {job};
  EXPECT_EQ(Run({"describe", "tiny-1"}), 0);
  EXPECT_THAT(cli_.out(),
              AllOf(HasSubstr("checkpoint   generation 6, 3.2 s old; 12.3 MiB on the disk; "
                              "generation 7 is being written\n"),
                    HasSubstr("not written: ps/1: disk full\n")));
  job.mutable_counts()->set_restores(2);
  job.mutable_counts()->set_replayed(64);
  LostPushes* const lost = job.mutable_durability()->add_lost();
  lost->set_shard(1);
  lost->set_worker(2);
  lost->set_incarnation(3);
  lost->set_from(13);
  lost->set_to(20);
  cli_.coordinator.descriptions = {job};
  EXPECT_EQ(Run({"describe", "tiny-1"}), 0);
  EXPECT_THAT(cli_.out(), AllOf(HasSubstr("restored 2 times, 64 records sent again\n"),
                                HasSubstr("lost: pushes 13 to 20 of worker/2#3 on ps/1\n")));
  job.mutable_durability()->clear_state_dir();
  cli_.coordinator.descriptions = {job};
  EXPECT_EQ(Run({"describe", "tiny-1"}), 0);
  EXPECT_THAT(cli_.out(), HasSubstr("checkpoint   none: the parameter servers keep it in memory"));
}

TEST_F(CliTest, ExportWritesTheFetchedModel) {
  const ParameterLayout layout = Layout();
  cli_.transfer.parameters.assign(layout.size(), 0.0f);
  cli_.transfer.parameters[0] = 2.5f;
  EXPECT_EQ(Run({"export", "latest", "--out=" + model_, "--json"}), 0);
  EXPECT_EQ(cli_.out(), absl::StrCat(R"({"schema_version":1,"job":"tiny-1","out":")", model_,
                                     R"(","tensors":2,"parameters":8,"tables":0})", "\n"));
  ASSERT_OK_AND_ASSIGN(const std::vector<float> read, ReadModelFile(layout, model_));
  EXPECT_EQ(read, cli_.transfer.parameters);

  cli_.transfer.status = absl::UnavailableError("ps/0 has been started anew");
  EXPECT_EQ(Run({"export", "latest", "--out=" + folder_ + "/none.npz"}), 3);
  EXPECT_NE(access((folder_ + "/none.npz").c_str(), F_OK), 0);
  cli_.transfer.status = absl::OkStatus();
  EXPECT_EQ(Run({"export", "latest", "--out=/no/such/folder/a.npz"}), 2);
}

TEST_F(CliTest, EvaluateRunsTheSiblingWorker) {
  ASSERT_EQ(mkdir((folder_ + "/worker").c_str(), 0700), 0);
  const std::string worker = Write("worker/worker", "#!/bin/sh\n");
  ASSERT_EQ(chmod(worker.c_str(), 0700), 0);
  cli_.run_result = CapturedRun{
      .output = R"({"schema_version":1,"test_accuracy":0.875,"test_loss":0.5,"examples":10000})"
                "\n"};
  EXPECT_EQ(Run({"evaluate", "--model=m.npz", "--job=j.textproto", "--bin_dir=" + folder_}), 0);
  EXPECT_THAT(cli_.ran, ElementsAre(worker, "--evaluate", "--model=m.npz", "--job=j.textproto"));
  EXPECT_EQ(cli_.out(), "test accuracy 0.8750, loss 0.5000, 10000 examples\n");
  EXPECT_EQ(
      Run({"evaluate", "--model=m.npz", "--job=j.textproto", "--bin_dir=" + folder_, "--json"}), 0);
  EXPECT_EQ(cli_.out(), cli_.run_result->output);

  cli_.run_result = CapturedRun{.output = "what?"};
  EXPECT_EQ(Run({"evaluate", "--model=m.npz", "--job=j", "--bin_dir=" + folder_}), 5);
  cli_.run_result = CapturedRun{.end = {.code = 2}};
  EXPECT_EQ(Run({"evaluate", "--model=m.npz", "--job=j", "--bin_dir=" + folder_}), 2);
  EXPECT_EQ(Run({"evaluate", "--model=m.npz"}), 2);
  EXPECT_EQ(Run({"evaluate", "--model=m.npz", "--job=j", "--bin_dir=/none"}), 2);
  EXPECT_THAT(cli_.err(), HasSubstr("/none/worker/worker"));
}

TEST_F(CliTest, ValidateTellsAllErrors) {
  EXPECT_EQ(Run({"validate", cluster_, job_}), 0);
  EXPECT_EQ(cli_.out(), absl::StrCat(cluster_, ": ok (cluster)\n", job_, ": ok (job)\n"));
  const std::string bad = Write("bad.textproto", "batch_sise: 3\nseed: x\ntrain { }\n");
  EXPECT_EQ(Run({"validate", bad, cluster_}), 2);
  EXPECT_THAT(cli_.err(), AllOf(HasSubstr(bad + ":1:1: error: "), HasSubstr("batch_size"),
                                HasSubstr(bad + ":2:7: error: ")));
  EXPECT_EQ(Run({"validate", bad, "--json"}), 2);
  EXPECT_THAT(cli_.out(),
              AllOf(StartsWith(R"({"schema_version":1,"ok":false,"files":[{"file":")"),
                    HasSubstr(R"("kind":"job","ok":false)"), HasSubstr(R"("line":1,"column":1,)")));
  EXPECT_EQ(Run({"validate", "/no/such/file"}), 2);
  EXPECT_THAT(cli_.err(), HasSubstr("/no/such/file"));
  EXPECT_EQ(Run({"validate", Write("zoo.txt", "zebra: 1"), "--json"}), 2);
  EXPECT_THAT(cli_.out(), HasSubstr(R"("kind":null,"ok":false)"));
  EXPECT_THAT(cli_.err(), HasSubstr("zoo.txt:1:1: error: this is neither a cluster"));
  EXPECT_EQ(Run({"validate", job_, cluster_, "--json"}), 0);
  EXPECT_THAT(cli_.out(), HasSubstr(R"("ok":true)"));
}

TEST_F(CliTest, ValidateSaysHowManyWorkersAServerTakes) {
  EXPECT_EQ(Run({"validate", cluster_}), 0);
  EXPECT_THAT(cli_.err(), HasSubstr(": ps/0: message_memory_mib: 256 is enough for 3"));
  std::string many =
      "coordinator { address: \"unix:/c\" }\n"
      "ps { address: \"unix:/p\" message_memory_mib: 16 }\n";
  for (int i = 0; i < 100; ++i) {
    absl::StrAppend(&many, "worker { address: \"unix:/w", i, "\" }\n");
  }
  EXPECT_EQ(Run({"validate", Write("many.textproto", many)}), 0);
  EXPECT_THAT(cli_.err(), AllOf(HasSubstr("many.textproto: warning: ps/0: "),
                                HasSubstr(" workers, but there are 100\n")));
}

TEST_F(CliTest, ValidateHoldsTheJobAgainstTheCluster) {
  const std::string greedy = Write(
      "greedy.textproto", absl::StrReplaceAll(kJob, {{"downpour {", "downpour { workers: 9"}}));
  EXPECT_EQ(Run({"validate", greedy}), 0);
  EXPECT_EQ(Run({"validate", greedy, cluster_}), 2);
  EXPECT_THAT(cli_.err(), HasSubstr("greedy.textproto"));
  EXPECT_EQ(cli_.out(), absl::StrCat(cluster_, ": ok (cluster)\n"));
}

TEST_F(CliTest, Version) {
#ifdef MONSOON_CUDA_BUILT_IN
  const char* const cuda = R"("cuda":true)";
#else
  const char* const cuda = R"("cuda":false)";
#endif
  EXPECT_EQ(Run({"version", "--json"}), 0);
  EXPECT_THAT(cli_.out(),
              AllOf(StartsWith(R"({"schema_version":1,"version":")"), HasSubstr(R"("git":")"),
                    HasSubstr(cuda), HasSubstr(R"("compiler":")"), HasSubstr(R"("cpu":")")));
  EXPECT_EQ(Run({"--version"}), 0);
  EXPECT_THAT(cli_.out(), StartsWith("monsoon "));
}

}  // namespace
}  // namespace monsoon
