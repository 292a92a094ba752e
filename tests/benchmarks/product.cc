#include "tests/benchmarks/product.h"

#include <cstdlib>
#include <filesystem>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status.h"
#include "common/security/credential_store.h"
#include "common/transport/grpc/tls.h"
#include "tests/benchmarks/expected_model.h"

namespace monsoon {
namespace {

constexpr absl::Duration kDeadline = absl::Seconds(60);
constexpr uint32_t kLineFloats = 16;
// Of the cluster file that StartPsProcess writes.
constexpr char kCluster[] = "test";

// The processes that are started from now on are this member of the cluster.
absl::Status BecomeMember(const testing::TestAuthority& authority, Role role,
                          const std::string& name, const std::string& folder) {
  const CredentialStore store(folder);
  RETURN_IF_ERROR(store.Save(authority.Issue(role, name), OtherAuthority::kRefuse));
  setenv(kCredentialsVariable, folder.c_str(), /*replace=*/1);
  return absl::OkStatus();
}

}  // namespace

Optimizer BenchmarkOptimizer() {
  Optimizer optimizer;
  optimizer.mutable_adagrad()->set_rate(0.01);
  return optimizer;
}

std::unique_ptr<OptimizerKernel> BenchmarkKernel() {
  absl::StatusOr<std::unique_ptr<OptimizerKernel>> kernel =
      OptimizerKernel::Create(BenchmarkOptimizer());
  CHECK_OK(kernel.status());
  return *std::move(kernel);
}

absl::StatusOr<std::unique_ptr<BenchmarkShard>> BenchmarkShard::Start(uint32_t message_memory_mib,
                                                                      bool tls) {
  std::unique_ptr<BenchmarkShard> shard(new BenchmarkShard());
  std::string directory = (std::filesystem::temp_directory_path() / "monsoon-XXXXXX").string();
  if (mkdtemp(directory.data()) == nullptr) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot make ", directory));
  }
  shard->directory_ = directory;
  if (tls) {
    shard->authority_.emplace(kCluster);
    RETURN_IF_ERROR(BecomeMember(*shard->authority_, Role::kPs, "0", directory + "/credentials"));
  }
  ASSIGN_OR_RETURN(
      PsProcess server,
      StartPsProcess(directory, absl::StrCat("message_memory_mib: ", message_memory_mib), {}));
  unsetenv(kCredentialsVariable);
  shard->server_ = std::make_unique<PsProcess>(std::move(server));
  ASSIGN_OR_RETURN(std::shared_ptr<Tls> coordinator, shard->TlsOf(Role::kCoordinator));
  shard->control_ =
      ShardControl::Create(shard->server_->address, kDeadline, {}, std::move(coordinator));
  return shard;
}

BenchmarkShard::~BenchmarkShard() {
  server_.reset();
  std::error_code ignored;
  std::filesystem::remove_all(directory_, ignored);
}

absl::StatusOr<std::shared_ptr<Tls>> BenchmarkShard::TlsOf(Role role) const {
  return authority_.has_value() ? Tls::Open(authority_->File(role, "0")) : nullptr;
}

absl::StatusOr<ParameterClientOptions> BenchmarkShard::ClientOptions(const TestJob& job) const {
  ParameterClientOptions options;
  options.job = job.name;
  options.layout_hash = job.layout.Hash();
  options.map = job.map;
  options.addresses = {server_->address};
  ASSIGN_OR_RETURN(options.tls, TlsOf(Role::kWorker));
  options.deadline = kDeadline;
  return options;
}

absl::StatusOr<TestJob> BenchmarkShard::CreateJob(const std::string& name, uint64_t floats) {
  const Model model = TestModel(kLineFloats, static_cast<uint32_t>(floats / kLineFloats));
  TestJob job;
  job.name = name;
  ASSIGN_OR_RETURN(job.layout, ParameterLayout::Create(model));
  ASSIGN_OR_RETURN(job.map, ShardMap::Create(job.layout.size(), /*shards=*/1));
  CHECK_EQ(job.map.size(), floats);
  CreateShardJobRequest request;
  request.set_job(name);
  *request.mutable_model() = model;
  *request.mutable_optimizer() = BenchmarkOptimizer();
  request.set_shards(1);
  request.set_max_stripe_bytes(kMaxStripeBytes);
  request.set_layout_hash(job.layout.Hash());
  request.set_written_by_client(true);
  RETURN_IF_ERROR(control_->CreateJob(request).status());
  ASSIGN_OR_RETURN(ParameterClientOptions options, ClientOptions(job));
  options.read_only = true;
  options.transport = Transport::GRPC;
  ASSIGN_OR_RETURN(const std::unique_ptr<ParameterClient> writer,
                   ParameterClient::Create(std::move(options)));
  std::vector<float> parameters(floats);
  ExpectedModel::Fill(ExpectedModel().parameters(), parameters);
  RETURN_IF_ERROR(writer->Write(parameters));
  return job;
}

absl::Status BenchmarkShard::DeleteJob(const TestJob& job) { return control_->DeleteJob(job.name); }

absl::StatusOr<ShardJobStatus> BenchmarkShard::JobStatus(const TestJob& job) {
  ASSIGN_OR_RETURN(const ShardStatusReply reply, control_->GetStatus(/*cluster=*/""));
  for (const ShardJobStatus& status : reply.job()) {
    if (status.job() == job.name) {
      return status;
    }
  }
  return absl::NotFoundError(absl::StrCat("the shard has no job ", job.name));
}

absl::StatusOr<std::unique_ptr<ParameterClient>> BenchmarkShard::Join(const TestJob& job,
                                                                      uint32_t worker,
                                                                      Transport transport,
                                                                      uint32_t connections) {
  ASSIGN_OR_RETURN(ParameterClientOptions options, ClientOptions(job));
  options.connections = connections;
  options.worker = worker;
  options.incarnation = ++incarnation_;
  SessionKey session;
  session.set_job(job.name);
  session.set_worker(worker);
  session.set_incarnation(options.incarnation);
  ASSIGN_OR_RETURN(const OpenSessionReply reply, control_->OpenSession(session));
  options.shard_epochs = {reply.shard_epoch()};
  options.transport = transport;
  return ParameterClient::Create(std::move(options));
}

}  // namespace monsoon
