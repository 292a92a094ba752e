// What the commands tell people: hints, warnings, refusals, the live view; drain and tasks.
#include <unistd.h>

#include <cmath>
#include <ostream>
#include <streambuf>
#include <string>
#include <vector>

#include "absl/strings/str_replace.h"
#include "common/model_file/model_file.h"
#include "common/testing/status_matchers.h"
#include "coordinator/cli/cli_fixture.h"
#include "gmock/gmock.h"
#include "proto/job.pb.h"

namespace monsoon {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;

TEST_F(CliTest, DrainWaitsUntilTheWorkerHasLeft) {
  EXPECT_EQ(Run({"drain", "worker/1"}), 0);
  EXPECT_EQ(cli_.out(), "worker/1 (pid 0) finishes its push and leaves\n");
  cli_.coordinator.worker_states = {"DRAINING", "DRAINING", "LEFT"};
  EXPECT_EQ(Run({"drain", "worker/1", "--wait", "--json"}), 0);
  EXPECT_EQ(cli_.out(),
            "{\"schema_version\":1,\"task\":\"worker/1\",\"pid\":0,\"state\":\"LEFT\"}\n");
  cli_.coordinator.worker_states = {"DRAINING"};
  EXPECT_EQ(Run({"drain", "worker/1", "--wait", "--timeout=5"}), 4);
  EXPECT_THAT(cli_.err(), HasSubstr("worker/1 has not left after 5 s"));
}

TEST_F(CliTest, SetTellsWhatHasChangedAndWhoGoesByIt) {
  SetReply reply;
  reply.set_job("lenet-1");
  reply.set_revision(2);
  SettingChange& change = *reply.add_change();
  change.set_path("downpour.staleness_bound");
  change.set_from("4");
  change.set_to("8");
  change.set_taken_by("each worker, from its next push on");
  cli_.coordinator.set = reply;
  EXPECT_EQ(Run({"set", "lenet-1", "downpour.staleness_bound=8", "downpour.workers=3"}), 0);
  EXPECT_EQ(cli_.out(), "downpour.staleness_bound: 4 -> 8 (each worker, from its next push on)\n");
  EXPECT_THAT(cli_.coordinator.calls,
              ::testing::Contains("Set lenet-1 downpour.staleness_bound=8 downpour.workers=3"));
  EXPECT_EQ(Run({"set", "lenet-1", "downpour.staleness_bound=8", "--json"}), 0);
  EXPECT_EQ(cli_.out(),
            "{\"schema_version\":1,\"job\":\"lenet-1\",\"settings_revision\":2,\"changes\":[{"
            "\"path\":\"downpour.staleness_bound\",\"from\":\"4\",\"to\":\"8\","
            "\"taken_by\":\"each worker, from its next push on\"}]}\n");
  reply.clear_change();
  cli_.coordinator.set = reply;
  EXPECT_EQ(Run({"set", "latest", "downpour.workers=3"}), 0);
  EXPECT_EQ(cli_.out(), "lenet-1 has these settings already\n");
}

TEST_F(CliTest, SetRefusesWhatSetsNothing) {
  EXPECT_EQ(Run({"set", "lenet-1"}), 2);
  EXPECT_EQ(Run({"set", "lenet-1", "downpour.workers"}), 2);
  EXPECT_THAT(cli_.err(), HasSubstr("\"downpour.workers\" sets nothing; say PATH=VALUE"));
  cli_.coordinator.set = absl::FailedPreconditionError("job lenet-1 does not train any more");
  EXPECT_EQ(Run({"set", "lenet-1", "downpour.workers=3"}), 2);
  EXPECT_THAT(cli_.err(), HasSubstr("does not train any more"));
}

// Told again until no job waits for an answer of the shard.
TEST_F(CliTest, GiveUpTellsWhatHasBecomeOfTheJobs) {
  GiveUpReply waiting;
  waiting.add_job("lenet-1");
  JobDescription failed;
  failed.mutable_summary()->set_job("lenet-1");
  failed.mutable_summary()->set_state(FAILED);
  failed.mutable_summary()->set_reason("somebody has given it up");
  cli_.coordinator.descriptions = {failed};
  cli_.coordinator.given_up = {waiting, absl::UnavailableError("it is started anew"), waiting,
                               GiveUpReply()};
  EXPECT_EQ(Run({"give-up", "ps/0"}), 0);
  EXPECT_EQ(cli_.out(), "lenet-1 FAILED: somebody has given it up\n");
  cli_.coordinator.given_up = {waiting, GiveUpReply()};
  EXPECT_EQ(Run({"give-up", "ps/0", "--json"}), 0);
  EXPECT_EQ(cli_.out(),
            "{\"schema_version\":1,\"task\":\"ps/0\",\"jobs\":[{\"job\":\"lenet-1\",\"state\":"
            "\"FAILED\",\"reason\":\"somebody has given it up\"}]}\n");
  cli_.coordinator.given_up = {waiting};
  EXPECT_EQ(Run({"give-up", "ps/0", "--timeout=5"}), 4);
  EXPECT_THAT(cli_.err(), HasSubstr("ps/0 has not answered after 5 s"));
}

TEST_F(CliTest, GiveUpSaysWhoAndIsRefusedWhereNothingWaits) {
  cli_.coordinator.given_up = {GiveUpReply()};
  EXPECT_EQ(Run({"give-up", "ps/0"}), 2);
  EXPECT_THAT(cli_.err(), HasSubstr("no job waits for the state folder of ps/0"));
  EXPECT_THAT(cli_.coordinator.calls.back(),
              AllOf(HasSubstr("GiveUp ps/0 by "), HasSubstr("@here")));
  // The coordinator's own is given up at once.
  EXPECT_EQ(Run({"give-up", "coordinator/0"}), 0);
  EXPECT_EQ(cli_.out(), "coordinator/0: its state folder is given up; no job has failed\n");
  cli_.coordinator.given_up = {absl::FailedPreconditionError("there is nothing to give up")};
  EXPECT_EQ(Run({"give-up", "coordinator/0"}), 2);
  EXPECT_EQ(Run({"give-up"}), 2);
}

TEST_F(CliTest, JobsSaysWhatTheCoordinatorWaitsFor) {
  cli_.coordinator.list.set_waits_for("coordinator/0's state folder");
  EXPECT_EQ(Run({"jobs"}), 0);
  EXPECT_THAT(cli_.err(), HasSubstr("the coordinator waits for coordinator/0's state folder"));
}

TEST_F(CliTest, JobsSaysThatEverybodyMayDoEverything) {
  EXPECT_EQ(Run({"jobs", "--json"}), 0);
  EXPECT_THAT(cli_.out(), HasSubstr("\"insecure\":false}"));
  cli_.coordinator.list.set_open_at("alpha:2221");
  EXPECT_EQ(Run({"jobs"}), 0);
  EXPECT_THAT(cli_.err(), HasSubstr("everybody who reaches alpha:2221 may do everything"));
  EXPECT_EQ(Run({"jobs", "--json"}), 0);
  EXPECT_THAT(cli_.out(), HasSubstr("\"insecure\":true}"));
}

TEST_F(CliTest, ValidateSaysWhereCredentialsAreMissing) {
  cli_.variables["MONSOON_CREDENTIALS"] = ::testing::TempDir() + "/none";
  const std::string spread = Write("spread.textproto", R"pb(
    name: "spread"
    coordinator { address: "10.0.0.1:2221" }
    ps { address: "10.0.0.1:2222" }
  )pb");
  EXPECT_EQ(Run({"validate", spread}), 0);
  EXPECT_THAT(cli_.err(), HasSubstr("no credentials of cluster spread here: `cluster init`"));
  const std::string local = Write("local.textproto", R"pb(
    name: "spread"
    coordinator { address: "127.0.0.1:2221" }
    ps { address: "127.0.0.1:2222" }
  )pb");
  EXPECT_EQ(Run({"validate", local}), 0);
  EXPECT_THAT(cli_.err(), Not(HasSubstr("credentials")));
}

TEST_F(CliTest, DrainTakesWorkersOnly) {
  EXPECT_EQ(Run({"drain", "ps/0"}), 2);
  EXPECT_THAT(cli_.err(), HasSubstr("ps/0 holds a part of every model and cannot leave"));
  EXPECT_EQ(Run({"drain", "1"}), 2);
  EXPECT_THAT(cli_.err(), HasSubstr("\"1\" is no worker; say worker/N"));
  EXPECT_EQ(Run({"drain", "worker/x"}), 2);
  EXPECT_EQ(Run({"drain"}), 2);
  cli_.coordinator.drain_error = absl::NotFoundError("worker/9 is not in the cluster file");
  EXPECT_EQ(Run({"drain", "worker/9"}), 2);
}

TEST_F(CliTest, MessagesNameTheProgramAsItWasCalled) {
  cli_.environment().program = "monsoon";
  EXPECT_EQ(Run({"drian"}), 2);
  EXPECT_THAT(cli_.err(),
              AllOf(HasSubstr("monsoon: there is no verb"), HasSubstr("see: monsoon help")));
  EXPECT_EQ(Run({"help"}), 0);
  EXPECT_THAT(cli_.out(), AllOf(HasSubstr("usage: monsoon VERB"), HasSubstr("\n  monsoon up &\n"),
                                Not(HasSubstr("coordinator VERB"))));
  EXPECT_EQ(Run({"watch", "--help"}), 0);
  EXPECT_THAT(cli_.out(), AllOf(HasSubstr("\n  monsoon watch latest\n"),
                                Not(HasSubstr("  coordinator watch"))));
  EXPECT_EQ(Run({"watch", "--lots"}), 2);
  EXPECT_THAT(cli_.err(), AllOf(HasSubstr("monsoon watch: "), HasSubstr("monsoon watch --help")));
  cli_.coordinator.down = kDown;
  EXPECT_EQ(Run({"jobs"}), 3);
  EXPECT_THAT(cli_.err(),
              AllOf(HasSubstr("monsoon jobs: "), HasSubstr("start it: monsoon up --cluster=")));
}

// As /dev/full is.
class FullDevice : public std::streambuf {
 protected:
  int overflow(int) override { return traits_type::eof(); }
  int sync() override { return -1; }
};

TEST_F(CliTest, NoVerbExitsWith0WhereItsOutputCannotBeWritten) {
  FullDevice device;
  std::ostream full(&device);
  cli_.environment().out = &full;
  for (const Command& command : ClientCommands()) {
    EXPECT_EQ(Run({command.name, "--help"}), 5) << command.name;
    EXPECT_THAT(cli_.err(), HasSubstr("coordinator: the output could not be written"));
  }
  EXPECT_EQ(Run({"help"}), 5);
  cli_.coordinator.descriptions = {Description(SUCCEEDED)};
  for (const std::vector<std::string>& args : {std::vector<std::string>{"jobs"},
                                               {"describe", "tiny-1"},
                                               {"describe", "tiny-1", "--json"},
                                               {"tasks"},
                                               {"version"},
                                               {"validate", job_}}) {
    EXPECT_EQ(Run(args), 5) << args[0];
  }
  // Nobody would hear of the rest.
  cli_.coordinator.descriptions = {Description(RUNNING)};
  EXPECT_EQ(Run({"watch", "tiny-1"}), 5);
  // What failed for another reason keeps its code.
  EXPECT_EQ(Run({"jobs", "--lots"}), 2);
}

TEST_F(CliTest, FlagsMayStandBeforeTheVerb) {
  const std::string other = Write("o.textproto", R"pb(
    coordinator { address: "unix:other" }
    ps { address: "unix:p" })pb");
  EXPECT_EQ(Run({"--cluster=" + other, "jobs"}), 0);
  EXPECT_EQ(cli_.connected_to, "unix:other");
  EXPECT_EQ(Run({"jobs"}), 0);
  EXPECT_EQ(Run({"--cluster", other, "--json", "jobs"}), 0);
  EXPECT_EQ(cli_.connected_to, "unix:other");
  EXPECT_THAT(cli_.out(), HasSubstr("{\"schema_version\":1,\"jobs\":["));
  EXPECT_EQ(Run({"--cluster=" + other, "help"}), 0);
  EXPECT_EQ(Run({"--help"}), 0);
  EXPECT_EQ(Run({"--version"}), 0);
  EXPECT_EQ(Run({"--cluster=" + other}), 2);
  EXPECT_THAT(cli_.err(), HasSubstr("a verb is missing"));
  EXPECT_EQ(Run({"--cluster=" + other, "jbs"}), 2);
  EXPECT_THAT(cli_.err(), HasSubstr("there is no verb \"jbs\"; did you mean \"jobs\"?"));
}

// So that another cluster, which listens there by chance, refuses them.
TEST_F(CliTest, RequestsNameTheCluster) {
  const std::string north = Write("north.textproto", R"pb(
    name: "north"
    coordinator { address: "unix:c" }
    ps { address: "unix:p" }
    worker { address: "unix:w" })pb");
  cli_.coordinator.descriptions = {Description(RUNNING)};
  for (const std::vector<std::string>& args : {std::vector<std::string>{"submit", job_},
                                               {"cancel", "tiny-1"},
                                               {"delete", "tiny-1"},
                                               {"checkpoint", "tiny-1"},
                                               {"drain", "worker/0"},
                                               {"jobs"}}) {
    cli_.connected_cluster.clear();
    std::vector<std::string> call = args;
    call.push_back("--cluster=" + north);
    Run(call);
    EXPECT_EQ(cli_.connected_cluster, "north") << args[0];
  }
  cli_.connected_cluster = "none";
  Run({"jobs", "--cluster=" + Write("any.textproto", R"pb(
                 name: "*"
                 coordinator { address: "unix:c" }
                 ps { address: "unix:p" })pb")});
  EXPECT_EQ(cli_.connected_cluster, "");
}

// What a hint says is to be typed must mean the same cluster.
TEST_F(CliTest, HintsHaveTheClusterThatWasGiven) {
  const std::string other = Write("my cluster.textproto", kCluster);
  cli_.coordinator.descriptions = {Description(RUNNING)};
  cli_.signal_after = absl::Seconds(1);
  EXPECT_EQ(Run({"watch", "tiny-1", "--cluster=" + other}), 130);
  EXPECT_THAT(cli_.err(),
              HasSubstr("watch it again: coordinator watch tiny-1 --cluster='" + other + "'"));
  EXPECT_EQ(Run({"watch", "tiny-1"}), 130);
  EXPECT_THAT(cli_.err(), HasSubstr("watch it again: coordinator watch tiny-1\n"));
  EXPECT_EQ(Run({"jobs", "--cluster=" + cluster_}), 0);
  EXPECT_THAT(cli_.out(), HasSubstr("coordinator submit JOB.textproto --cluster=" + cluster_));
  OrphanJob* const orphan = cli_.coordinator.list.add_orphan();
  orphan->set_job("old-1");
  EXPECT_EQ(Run({"jobs", "--cluster=" + cluster_}), 0);
  EXPECT_THAT(cli_.out(), HasSubstr("`coordinator delete old-1 --cluster=" + cluster_ + "` frees"));
}

TEST_F(CliTest, TasksAreListedWithTheirMachinesAndAddresses) {
  cli_.coordinator.info = [] {
    InfoReply info;
    info.set_cluster("t");
    info.set_pid(7);
    info.set_host("alpha");
    TaskStatus* const shard = info.add_task();
    shard->set_task("ps/0");
    shard->set_state("UP");
    shard->set_pid(8);
    shard->set_address("beta.lan:2222");
    shard->set_silent_s(0.25);
    TaskStatus* const worker = info.add_task();
    worker->set_task("worker/0");
    worker->set_state("NEVER SEEN");
    worker->set_address("gamma.lan:2230");
    return info;
  };
  EXPECT_EQ(Run({"tasks"}), 0);
  EXPECT_EQ(cli_.out(),
            "task           state       pid      host   address          seen\n"
            "coordinator/0  UP          7        alpha  unix:cli-test-c  0.0 s ago\n"
            "ps/0           UP          8        -      beta.lan:2222    0.2 s ago\n"
            "worker/0       NEVER SEEN  -        -      gamma.lan:2230   -\n");
  EXPECT_EQ(Run({"tasks", "--json"}), 0);
  EXPECT_EQ(cli_.out(),
            "{\"schema_version\":1,\"cluster\":\"t\",\"tasks\":["
            "{\"task\":\"coordinator/0\",\"state\":\"UP\",\"pid\":7,\"host\":\"alpha\","
            "\"address\":\"unix:cli-test-c\",\"silent_s\":0},"
            "{\"task\":\"ps/0\",\"state\":\"UP\",\"pid\":8,\"host\":\"\","
            "\"address\":\"beta.lan:2222\",\"silent_s\":0.25},"
            "{\"task\":\"worker/0\",\"state\":\"NEVER SEEN\",\"pid\":0,\"host\":\"\","
            "\"address\":\"gamma.lan:2230\",\"silent_s\":null}]}\n");
}

TEST_F(CliTest, TasksSayWhyOthersMayNotReachThem) {
  cli_.coordinator.info = [] {
    InfoReply info;
    info.set_trouble("cannot reach its own address a:1: No route to host");
    TaskStatus* const shard = info.add_task();
    shard->set_task("ps/0");
    shard->set_state("UP");
    shard->set_trouble("takes no new connections");
    return info;
  };
  EXPECT_EQ(Run({"tasks"}), 0);
  EXPECT_THAT(cli_.out(),
              EndsWith("\ncoordinator/0 cannot reach its own address a:1: No route to host\n"
                       "ps/0 takes no new connections\n"));
  EXPECT_EQ(Run({"tasks", "--json"}), 0);
  EXPECT_THAT(cli_.out(), HasSubstr("\"silent_s\":null,\"trouble\":\"takes no new connections\"}"));
}

TEST_F(CliTest, AResizedTerminalIsDrawnAnew) {
  cli_.environment().terminal = true;
  JobDescription running = Description(RUNNING);
  for (uint32_t i = 0; i < 20; ++i) {
    running.add_worker()->set_task(i);
  }
  cli_.coordinator.descriptions = {running, running, Description(SUCCEEDED)};
  const auto wait = cli_.environment().wait;
  int waits = 0;
  cli_.environment().wait = [&](absl::Duration timeout) {
    // The second wait is cut short by SIGWINCH.
    if (++waits == 2) {
      cli_.terminal_size = {40, 10};
      return wait(timeout / 2);
    }
    return wait(timeout);
  };
  EXPECT_EQ(Run({"watch", "tiny-1"}), 0);
  const std::string out = cli_.out();
  const size_t cleared = out.find("\x1b[H\x1b[2J");
  ASSERT_NE(cleared, std::string::npos);
  EXPECT_NE(out.find("and 3 more: "), std::string::npos);
  EXPECT_LT(out.find("and 3 more: "), cleared);   // 24 rows
  EXPECT_GT(out.find("and 17 more: "), cleared);  // 10 rows
  EXPECT_EQ(out.find("\x1b[H\x1b[2J", cleared + 1), std::string::npos);
  // The next frame of that size goes over it as usual.
  EXPECT_NE(out.find("\x1b[9A\r\x1b[J", cleared), std::string::npos);
}

TEST_F(CliTest, ExportEndsWhenAShardIsKnownToBeLost) {
  cli_.coordinator.locate_error =
      absl::UnavailableError("job tiny-1: its parameters are on ps/0 at h:1 (lost for 4 s)");
  EXPECT_EQ(Run({"export", "latest", "--out=" + model_}), 3);
  EXPECT_THAT(cli_.err(), HasSubstr("ps/0 at h:1 (lost for 4 s)"));
  EXPECT_THAT(cli_.err(), Not(HasSubstr("coordinator up")));
  // Lost while the fetch waits for it.
  cli_.coordinator.locate_error = absl::OkStatus();
  cli_.transfer.parameters.assign(Layout().size(), 0.0f);
  cli_.transfer.during_fetch = [this] {
    cli_.coordinator.locate_error = absl::UnavailableError("ps/0 at h:1 (lost for 3 s)");
  };
  EXPECT_EQ(Run({"export", "latest", "--out=" + model_}), 3);
  EXPECT_THAT(cli_.err(), HasSubstr("(lost for 3 s)"));
  EXPECT_NE(access(model_.c_str(), F_OK), 0);
  // Without the coordinator the shards may still give the model.
  cli_.coordinator.locate_error = absl::OkStatus();
  cli_.transfer.during_fetch = [this] { cli_.coordinator.down = kDown; };
  EXPECT_EQ(Run({"export", "latest", "--out=" + model_}), 0);
}

TEST_F(CliTest, ExportRefusesOtherKindsOfFiles) {
  EXPECT_EQ(Run({"export", "latest", "--out=/tmp/a.b/x.pt"}), 2);
  EXPECT_THAT(cli_.err(), HasSubstr("--out=/tmp/a.b/x.pt: a model is written as a NumPy archive, "
                                    "as safetensors or as ONNX; write --out=/tmp/a.b/x.npz or "
                                    "--out=/tmp/a.b/x.safetensors or --out=/tmp/a.b/x.onnx\n"));
  EXPECT_EQ(Run({"export", "latest", "--out=/tmp/a.b/x"}), 2);
  EXPECT_THAT(cli_.err(), HasSubstr("write --out=/tmp/a.b/x.npz or"));
  EXPECT_EQ(Run({"export", "latest", "--out=/tmp/a.b/x.pt", "--format=safetensors"}), 2);
  EXPECT_THAT(cli_.err(), HasSubstr("write --out=/tmp/a.b/x.safetensors\n"));
  EXPECT_EQ(Run({"export", "latest", "--out=x.npz", "--format=safetensors"}), 2);
  EXPECT_THAT(cli_.err(), HasSubstr("--format=safetensors, but --out=x.npz is called a npz file"));
  EXPECT_EQ(Run({"export", "latest", "--out=x.npz", "--format=hdf5"}), 2);
  EXPECT_THAT(cli_.err(), HasSubstr("--format=hdf5: there are npz, safetensors and onnx"));
  EXPECT_THAT(cli_.coordinator.calls, ElementsAre());
}

TEST_F(CliTest, SubmitInitNamesWhatIsNotFinite) {
  const ParameterLayout layout = Layout();
  std::vector<float> parameters(layout.size(), 0.0f);
  parameters[layout.tensors()[0].offset + layout.tensors()[0].size - 1] = std::nanf("");
  ASSERT_OK(WriteModelFile(layout, parameters, model_));
  EXPECT_EQ(Run({"submit", job_, "--init=" + model_}), 2);
  EXPECT_THAT(cli_.err(),
              HasSubstr(model_ + ": tensor " + layout.tensors()[0].name + " has nan at ["));
  EXPECT_THAT(cli_.coordinator.calls, ElementsAre());
}

TEST_F(CliTest, AnUnreachableCoordinatorCanBeStarted) {
  cli_.coordinator.down = kDown;
  EXPECT_EQ(Run({"jobs"}), 3);
  EXPECT_EQ(cli_.err(), absl::StrCat("coordinator jobs: coordinator at unix:c not reached; "
                                     "is the cluster up? start it: coordinator up --cluster=",
                                     cluster_, "\n"));
}

TEST_F(CliTest, ValidateReadsTheStandardInput) {
  cli_.in.str(kJob);
  EXPECT_EQ(Run({"validate", "-"}), 0);
  EXPECT_EQ(cli_.out(), "<stdin>: ok (job)\n");
  EXPECT_EQ(Run({"validate", "-", "-"}), 2);
  EXPECT_THAT(cli_.err(), HasSubstr("(-) can be one file only"));
}

// 7 x 300,000 weights and 7 biases: 2,100,007 x 4 bytes are 8.01 MiB.
TEST_F(CliTest, ValidateCountsTheConnectionsOfWorkers) {
  const std::string wide = Write("wide.textproto",
                                 "connections: 4\n"
                                 "coordinator { address: 'unix:/c' }\nps { address: 'unix:/p' }\n");
  EXPECT_EQ(Run({"validate", wide}), 0);
  EXPECT_THAT(cli_.err(), HasSubstr(": message_memory_mib: 256 is enough for 86 workers with 4 "
                                    "connections\n"));
}

TEST_F(CliTest, ValidateSaysWhatAModelTakes) {
  const std::string model =
      Write("model.textproto", "input_shape: [300000] layer { dense { units: 7 } } loss: 0");
  EXPECT_EQ(Run({"validate", model}), 0);
  EXPECT_EQ(cli_.out(),
            model +
                ": ok (model)\n  2100007 parameters in 2 tensors: 8.0 MiB in float32; on the "
                "shards 16.0 MiB with Adagrad or momentum, 24.0 MiB with Adam;\n  a worker has "
                "them and their gradient (16.0 MiB), and about 0.00 MiB a sample between the "
                "layers\n");
}

TEST_F(CliTest, WhatTrainsBadlyIsWarnedOf) {
  const std::string risky =
      Write("risky.textproto",
            absl::StrReplaceAll(
                kJob, {{"optimizer { sgd { rate: 0.1 } }",
                        "n_push: 4 optimizer { momentum { rate: 0.1 momentum: 0.9 } }"}}));
  EXPECT_EQ(Run({"validate", risky}), 0);
  EXPECT_THAT(cli_.err(), HasSubstr("warning: downpour.n_push: a push is the sum of 4 gradients"));
  EXPECT_EQ(cli_.out(), risky + ": ok (job)\n");
  EXPECT_EQ(Run({"validate", risky, "--json"}), 0);
  EXPECT_THAT(cli_.out(), AllOf(HasSubstr(R"("ok":true)"), HasSubstr(R"("errors":[])"),
                                HasSubstr(R"("warnings":[{"file":)")));
  EXPECT_EQ(Run({"submit", risky}), 0);
  EXPECT_THAT(cli_.err(), HasSubstr("warning: downpour.n_push"));
}

TEST_F(CliTest, ABatchJobThatMissedItsMinimumSaysSoAndFailsWhereThatIsAsked) {
  JobDescription job = Description(SUCCEEDED);
  for (const std::string reason :
       {"stalled", "line_search_failed", "converged", "max_iterations"}) {
    SCOPED_TRACE(reason);
    job.mutable_sandblaster()->set_end_reason(reason);
    job.mutable_sandblaster()->set_end_detail("F 1.087; no step \"lowers\" F");
    cli_.coordinator.descriptions = {job};
    EXPECT_EQ(Run({"watch", "tiny-1"}), 0);
    EXPECT_THAT(cli_.out(), HasSubstr(" end=\"" + reason + ": F 1.087; no step 'lowers' F\"\n"));
    const int strict = reason == "stalled" || reason == "line_search_failed" ? 1 : 0;
    EXPECT_EQ(Run({"watch", "tiny-1", "--strict"}), strict);
    EXPECT_EQ(Run({"submit", job_, "--watch", "--strict"}), strict);
  }
  EXPECT_EQ(Run({"submit", job_, "--strict"}), 2);
  EXPECT_THAT(cli_.err(), HasSubstr("--strict is of the job's end: it needs --watch"));
}

}  // namespace
}  // namespace monsoon
