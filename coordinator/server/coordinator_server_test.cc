// The services over gRPC, through the clients that the CLI and workers use.
#include "coordinator/server/coordinator_server.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <memory>
#include <random>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/testing/socket_folder.h"
#include "common/testing/status_matchers.h"
#include "common/transport/frame/protocol.h"
#include "coordinator/client/job_client.h"
#include "coordinator/client/replica_client.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/downpour.pb.h"
#include "proto/job.pb.h"
#include "proto/optimizer.pb.h"

namespace monsoon {
namespace {

using ::monsoon::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class CoordinatorServerTest : public ::testing::Test {
 protected:
  std::string Name(const std::string& task) const {
    return testing::SocketAddress(absl::StrCat(unique_, "-", task));
  }
  CoordinatorServer::Options Options() const {
    CoordinatorServer::Options options;
    options.cluster.set_name("c");
    options.cluster.mutable_coordinator()->set_address(Name("coordinator"));
    options.cluster.add_ps()->set_address(Name("ps0"));
    options.cluster.add_worker()->set_address(Name("w0"));
    return options;
  }
  static SubmitRequest SmallJob() {
    SubmitRequest request;
    Job& job = *request.mutable_job();
    job.set_name("small");
    job.mutable_model()->set_name("m");
    job.mutable_model()->add_input_shape(8);
    job.mutable_model()->add_layer()->mutable_dense()->set_units(4);
    job.mutable_train()->mutable_synthetic()->set_examples(100);
    job.mutable_train()->mutable_synthetic()->set_classes(4);
    job.set_batch_size(10);
    job.mutable_downpour()->mutable_optimizer()->mutable_sgd()->set_rate(0.1);
    job.mutable_stop()->set_epochs(1);
    return request;
  }

  const uint64_t unique_ = (uint64_t{std::random_device()()} << 32) | std::random_device()();
};

TEST_F(CoordinatorServerTest, ANewLifeHasTheJobsOfTheOneBefore) {
  CoordinatorServer::Options options = Options();
  options.state_dir = ::testing::TempDir() + absl::StrCat("/state-", unique_);
  const auto client = JobClient::Create(Name("coordinator"), absl::Seconds(10));
  SubmitRequest request = SmallJob();
  request.set_client_id("drawn");
  {
    ASSERT_OK_AND_ASSIGN(const auto server, CoordinatorServer::Start(options));
    ASSERT_OK(client->Submit(request));
    // Nobody else may use the folder.
    EXPECT_THAT(CoordinatorServer::Start(options).status(),
                StatusIs(absl::StatusCode::kFailedPrecondition,
                         AllOf(HasSubstr("/coordinator/lock"), HasSubstr("process"))));
  }
  ASSERT_OK_AND_ASSIGN(const auto server, CoordinatorServer::Start(options));
  ASSERT_OK_AND_ASSIGN(const SubmitReply again, client->Submit(request));
  EXPECT_EQ(again.job(), "small-1");
  ASSERT_OK_AND_ASSIGN(const ListReply list, client->List());
  ASSERT_EQ(list.job_size(), 1);
  EXPECT_EQ(list.job(0).state(), PENDING);
}

// As with a copy of the folder: shards hear nothing of one that cannot listen.
TEST_F(CoordinatorServerTest, OneWhoseAddressIsTakenAsksNoShard) {
  const std::string path = Name("ps0").substr(std::string("unix:").size());
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof(address.sun_path) - 1);
  const int shard = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  ASSERT_EQ(bind(shard, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  ASSERT_EQ(listen(shard, 10), 0);
  CoordinatorServer::Options options = Options();
  options.cluster.mutable_ps(0)->set_address(Name("another"));
  ASSERT_OK_AND_ASSIGN(const auto first, CoordinatorServer::Start(options));
  EXPECT_THAT(CoordinatorServer::Start(Options()).status(),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("in use")));
  EXPECT_LT(accept(shard, nullptr, nullptr), 0) << "it was asked";
  EXPECT_EQ(errno, EAGAIN);
  close(shard);
}

TEST_F(CoordinatorServerTest, RefusesWhatIsForAnotherCluster) {
  ASSERT_OK_AND_ASSIGN(const auto server, CoordinatorServer::Start(Options()));
  const auto own = JobClient::Create(server->address(), absl::Seconds(10), "c");
  ASSERT_OK(own->Submit(SmallJob()));
  const auto other = JobClient::Create(server->address(), absl::Seconds(10), "d");
  const auto is_refused = StatusIs(
      absl::StatusCode::kFailedPrecondition,
      AllOf(HasSubstr("is that of cluster \"c\""), HasSubstr("request is for cluster \"d\"")));
  EXPECT_THAT(other->Submit(SmallJob()).status(), is_refused);
  EXPECT_THAT(other->Start("latest").status(), is_refused);
  EXPECT_THAT(other->List().status(), is_refused);
  EXPECT_THAT(other->Describe("latest").status(), is_refused);
  EXPECT_THAT(other->Cancel("latest").status(), is_refused);
  EXPECT_THAT(other->Delete("latest").status(), is_refused);
  EXPECT_THAT(other->Checkpoint("latest").status(), is_refused);
  EXPECT_THAT(other->Locate("latest").status(), is_refused);
  EXPECT_THAT(other->Drain(0).status(), is_refused);
  ASSERT_OK_AND_ASSIGN(const InfoReply info, other->Info());
  EXPECT_EQ(info.cluster(), "c");
  ASSERT_OK_AND_ASSIGN(const ListReply list, own->List());
  EXPECT_EQ(list.job_size(), 1);
}

TEST_F(CoordinatorServerTest, ServesProgramsThatEnterAJob) {
  ASSERT_OK_AND_ASSIGN(const auto server, CoordinatorServer::Start(Options()));
  const auto replica = ReplicaClient::Create(server->address(), absl::Seconds(10));
  EnterRequest request;
  request.set_protocol_version(kProtocolVersion + 1);
  request.set_version("monsoon 9.0.0");
  request.set_guest(77);
  request.set_pid(5);
  EXPECT_THAT(replica->Enter(request).status(),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr(absl::StrCat("program: monsoon 9.0.0 (protocol ",
                                              kProtocolVersion + 1, "), coordinator: monsoon "))));
  request.set_protocol_version(kProtocolVersion);
  *request.mutable_job() = SmallJob().job();
  EXPECT_THAT(replica->Enter(request).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("lists no tensors")));
  request.mutable_job()->clear_model();
  request.mutable_job()->mutable_model()->add_tensor()->set_name("w");
  request.mutable_job()->mutable_model()->mutable_tensor(0)->add_shape(64);
  EXPECT_THAT(replica->Enter(request).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("joiners")));
  request.mutable_job()->mutable_train()->mutable_joiners()->set_examples(100);
  ASSERT_OK_AND_ASSIGN(const EnterReply reply, replica->Enter(request));
  EXPECT_EQ(reply.job(), "small-1");
  EXPECT_EQ(reply.part(), EnterReply::WAIT);
  EXPECT_THAT(reply.reason(), HasSubstr(absl::StrCat("waits for ps/0 at ", Name("ps0"))));
  EXPECT_EQ(reply.config().downpour().n_fetch(), 1u) << "with its defaults";
  const auto jobs = JobClient::Create(server->address(), absl::Seconds(10));
  SubmitRequest submit;
  *submit.mutable_job() = request.job();
  EXPECT_THAT(jobs->Submit(submit).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("programs that join")));
}

TEST_F(CoordinatorServerTest, ServesJobsAndReplicas) {
  ASSERT_OK_AND_ASSIGN(const auto server, CoordinatorServer::Start(Options()));
  EXPECT_EQ(server->address(), Name("coordinator"));
  const auto jobs = JobClient::Create(server->address(), absl::Seconds(10));
  ASSERT_OK_AND_ASSIGN(const SubmitReply submitted, jobs->Submit(SmallJob()));
  EXPECT_EQ(submitted.job(), "small-1");
  EXPECT_EQ(submitted.state(), PENDING);
  ASSERT_OK_AND_ASSIGN(const JobDescription description, jobs->Describe("latest"));
  EXPECT_EQ(description.summary().job(), "small-1");
  EXPECT_EQ(description.parameters(), 36u);
  EXPECT_THAT(description.summary().reason(), HasSubstr(absl::StrCat("ps/0 at ", Name("ps0"))));
  EXPECT_THAT(jobs->Locate("small-1").status(),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("no parameters yet")));
  EXPECT_THAT(jobs->Start("small-1").status(),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("small-1")));

  const auto replica = ReplicaClient::Create(server->address(), absl::Seconds(10));
  HeartbeatRequest beat;
  beat.set_protocol_version(kProtocolVersion);
  beat.set_cluster("c");
  beat.set_pid(5);
  ASSERT_OK_AND_ASSIGN(const HeartbeatReply joined, replica->Heartbeat(beat));
  EXPECT_EQ(joined.incarnation(), 1u);
  EXPECT_EQ(joined.heartbeat_ms(), 50u);  // it has nothing to run
  EXPECT_FALSE(joined.has_assignment());
  beat.set_pid(6);
  EXPECT_THAT(replica->Heartbeat(beat).status(),
              StatusIs(absl::StatusCode::kAlreadyExists, HasSubstr("pid 5")));
  NextWorkRequest work;
  work.mutable_session()->set_job("small-1");
  work.mutable_session()->set_incarnation(1);
  EXPECT_THAT(replica->NextWork(work).status(),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("small-1/worker/0#1")));
  ReportEvaluationRequest evaluation;
  *evaluation.mutable_session() = work.session();
  EXPECT_FALSE(replica->ReportEvaluation(evaluation).ok());
  ReportFailureRequest failure;
  *failure.mutable_session() = work.session();
  EXPECT_FALSE(replica->ReportFailure(failure).ok());

  ASSERT_OK_AND_ASSIGN(const InfoReply info, jobs->Info());
  ASSERT_EQ(info.task_size(), 2);
  EXPECT_EQ(info.task(0).state(), "NEVER SEEN");
  EXPECT_EQ(info.task(1).task(), "worker/0");
  EXPECT_EQ(info.task(1).state(), "UP");
  ASSERT_OK_AND_ASSIGN(const JobSummary cancelled, jobs->Cancel("small-1"));
  EXPECT_EQ(cancelled.state(), CANCELLED);
  ASSERT_OK(jobs->Delete("small-1"));
  ASSERT_OK_AND_ASSIGN(const ListReply list, jobs->List());
  EXPECT_EQ(list.job_size(), 0);
  EXPECT_THAT(jobs->Describe("latest").status(),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("no jobs yet")));
}

TEST_F(CoordinatorServerTest, PortZeroAndTwoServersInOneProcess) {
  CoordinatorServer::Options options = Options();
  options.address = "127.0.0.1:0";
  ASSERT_OK_AND_ASSIGN(const auto one, CoordinatorServer::Start(options));
  ASSERT_OK_AND_ASSIGN(const auto two, CoordinatorServer::Start(options));
  EXPECT_THAT(one->address(), StartsWith("127.0.0.1:"));
  EXPECT_NE(one->address(), two->address());
  const auto jobs = JobClient::Create(two->address(), absl::Seconds(10));
  ASSERT_OK(jobs->List());
  options.address = one->address();
  EXPECT_FALSE(CoordinatorServer::Start(options).ok());
}

TEST_F(CoordinatorServerTest, AStoppedCoordinatorIsNamed) {
  ASSERT_OK_AND_ASSIGN(const auto server, CoordinatorServer::Start(Options()));
  const auto jobs = JobClient::Create(server->address(), absl::Seconds(10));
  ASSERT_OK(jobs->List());
  server->Stop();
  EXPECT_THAT(jobs->List().status(),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr(Name("coordinator"))));
}

TEST_F(CoordinatorServerTest, RefusesOpenAddressesAndFaultsThere) {
  CoordinatorServer::Options options = Options();
  options.address = "0.0.0.0:0";
  EXPECT_THAT(CoordinatorServer::Start(options).status(),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("0.0.0.0")));
  options.insecure = true;
  options.fault.delay_ms = 1;
  EXPECT_THAT(CoordinatorServer::Start(options).status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("--fault"), HasSubstr("0.0.0.0"))));
}

TEST_F(CoordinatorServerTest, InjectedFaultsLoseCalls) {
  CoordinatorServer::Options options = Options();
  options.fault.drop = 0.5;
  options.fault.seed = 1;
  ASSERT_OK_AND_ASSIGN(const auto server, CoordinatorServer::Start(options));
  const auto jobs = JobClient::Create(server->address(), absl::Seconds(10));
  int lost = 0;
  for (int i = 0; i < 40; ++i) {
    lost += jobs->List().ok() ? 0 : 1;
  }
  EXPECT_GT(lost, 5);
  EXPECT_LT(lost, 35);
}

}  // namespace
}  // namespace monsoon
