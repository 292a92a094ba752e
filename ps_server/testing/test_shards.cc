#include "ps_server/testing/test_shards.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/base/status.h"
#include "common/testing/socket_folder.h"
#include "common/transport/grpc/tls.h"

namespace monsoon {
namespace {

constexpr absl::Duration kDeadline = absl::Seconds(20);
constexpr char kAnyPort[] = "127.0.0.1:0";

}  // namespace

Model TestModel(uint32_t inputs, uint32_t units) {
  Model model;
  model.set_name("test");
  model.add_input_shape(inputs);
  Dense* dense = model.add_layer()->mutable_dense();
  dense->set_units(units);
  dense->set_no_bias(true);
  return model;
}

std::string NameOf(Transport transport) {
  switch (transport) {
    case Transport::GRPC:
      return "Grpc";
    case Transport::SHARED_MEMORY:
      return "SharedMemory";
    default:
      return "Auto";
  }
}

Optimizer TestSgd(double rate) {
  Optimizer optimizer;
  optimizer.mutable_sgd()->set_rate(rate);
  return optimizer;
}

TestJobOptions SmallJob() {
  TestJobOptions options;
  options.model = TestModel(64, 64);
  options.optimizer = TestSgd(0.5);
  options.max_stripe_bytes = 1024;
  return options;
}

absl::StatusOr<std::unique_ptr<TestShards>> TestShards::Start(const TestShardsOptions& options) {
  std::unique_ptr<TestShards> shards(new TestShards(options));
  if (options.link == TestLink::kTls) {
    shards->authority_ = std::make_unique<testing::TestAuthority>("test");
  }
  for (uint32_t i = 0; i < options.shards; ++i) {
    shards->addresses_.push_back(options.link == TestLink::kUnix ? testing::UniqueSocketAddress()
                                                                 : kAnyPort);
    ASSIGN_OR_RETURN(std::unique_ptr<PsServer> server, shards->StartServer(i));
    shards->addresses_[i] = server->address();
    shards->servers_.push_back(std::move(server));
    shards->controls_.push_back(shards->MakeControl(i));
  }
  return shards;
}

absl::StatusOr<std::unique_ptr<PsServer>> TestShards::StartServer(uint32_t shard) const {
  PsServerOptions server;
  server.cluster = "test";
  server.task = shard;
  server.address = addresses_[shard];
  server.tls = TlsOf(Role::kPs, absl::StrCat(shard));
  server.memory_limit_bytes = options_.memory_limit_bytes;
  server.message_memory_bytes = options_.message_memory_bytes;
  server.fault = options_.fault;
  server.shared_memory = options_.shared_memory;
  server.state_dir = options_.state_dir;
  return PsServer::Start(server);
}

std::shared_ptr<Tls> TestShards::TlsOf(Role role, const std::string& name,
                                       const std::string& job) const {
  return authority_ == nullptr ? nullptr : Tls::Open(authority_->OwnFile(role, name, job)).value();
}

std::unique_ptr<ShardControl> TestShards::MakeControl(uint32_t shard) const {
  return ShardControl::Create(addresses_[shard], kDeadline, {}, TlsOf(Role::kCoordinator, "0"));
}

absl::Status TestShards::Restart(uint32_t shard) {
  Stop(shard);
  return StartAgain(shard);
}

absl::Status TestShards::StartAgain(uint32_t shard) {
  if (options_.link == TestLink::kTls) {
    addresses_[shard] = kAnyPort;
  }
  ASSIGN_OR_RETURN(servers_[shard], StartServer(shard));
  addresses_[shard] = servers_[shard]->address();
  // A fresh channel: the old one waits before it connects again.
  controls_[shard] = MakeControl(shard);
  return absl::OkStatus();
}

absl::Status TestShards::Checkpoint(const std::string& job, uint64_t generation) {
  for (const auto& control : controls_) {
    CheckpointRequest request;
    request.set_job(job);
    request.set_generation(generation);
    RETURN_IF_ERROR(control->Checkpoint(request).status());
  }
  const absl::Time end = absl::Now() + kDeadline;
  for (uint32_t shard = 0; shard < controls_.size(); ++shard) {
    while (true) {
      ASSIGN_OR_RETURN(const auto status, controls_[shard]->GetStatus("test"));
      if (status.job(0).generation() >= generation) {
        break;
      }
      if (absl::Now() >= end) {
        return absl::DeadlineExceededError(
            absl::StrCat("no generation ", generation, " on ps/", shard));
      }
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<RestoreShardJobReply> TestShards::Restore(const TestJobOptions& options,
                                                         uint32_t shard, uint32_t workers) {
  RestoreShardJobRequest request;
  *request.mutable_create() = CreateRequest(options, shard);
  for (uint32_t worker = 0; worker < workers; ++worker) {
    SessionKey* const session = request.add_session();
    session->set_job(options.name);
    session->set_worker(worker);
    session->set_incarnation(1);
    *request.add_session_member() = owner_;
  }
  return controls_[shard]->RestoreJob(request);
}

CreateShardJobRequest TestShards::CreateRequest(const TestJobOptions& options,
                                                uint32_t shard) const {
  CreateShardJobRequest request;
  request.set_job(options.name);
  *request.mutable_model() = options.model;
  *request.mutable_optimizer() = options.optimizer;
  request.set_seed(options.seed);
  request.set_shard(shard);
  request.set_shards(options_.shards);
  request.set_max_stripe_bytes(options.max_stripe_bytes);
  request.set_layout_hash(ParameterLayout::Create(options.model)->Hash());
  request.set_written_by_client(options.written_by_client);
  request.set_fetch_changes(options.fetch_changes);
  request.set_store_only(options.store_only);
  if (options.rounds.has_value()) {
    *request.mutable_rounds() = *options.rounds;
  }
  return request;
}

absl::StatusOr<TestJob> TestShards::CreateJob(const TestJobOptions& options) {
  TestJob job;
  job.name = options.name;
  job.rounds = options.rounds.has_value();
  job.fetch_changes = options.fetch_changes;
  ASSIGN_OR_RETURN(job.layout, ParameterLayout::Create(options.model));
  ASSIGN_OR_RETURN(job.map,
                   ShardMap::Create(job.layout.size(), options_.shards, options.max_stripe_bytes));
  ASSIGN_OR_RETURN(job.tables, TableMaps(job.layout.tables(), options_.shards));
  for (uint32_t i = 0; i < options_.shards; ++i) {
    RETURN_IF_ERROR(controls_[i]->CreateJob(CreateRequest(options, i)).status());
  }
  return job;
}

absl::StatusOr<ParameterClientOptions> TestShards::OpenSession(const TestJob& job, uint32_t worker,
                                                               uint64_t incarnation) {
  ParameterClientOptions options;
  options.job = job.name;
  options.rounds = job.rounds;
  options.fetch_changes = job.fetch_changes;
  options.worker = worker;
  options.incarnation = incarnation;
  options.layout_hash = job.layout.Hash();
  options.map = job.map;
  options.tables = job.tables;
  options.addresses = addresses_;
  options.tls = TlsOf(Role::kWorker, "local");
  options.deadline = kDeadline;
  options.transport = options_.transport;
  options.connections = options_.connections;
  SessionKey session;
  session.set_job(job.name);
  session.set_worker(worker);
  session.set_incarnation(incarnation);
  for (const auto& control : controls_) {
    ASSIGN_OR_RETURN(const OpenSessionReply reply, control->OpenSession(session, 0, 0, owner_));
    options.shard_epochs.push_back(reply.shard_epoch());
  }
  return options;
}

absl::StatusOr<std::unique_ptr<ParameterClient>> TestShards::Join(const TestJob& job,
                                                                  uint32_t worker,
                                                                  uint64_t incarnation) {
  ASSIGN_OR_RETURN(ParameterClientOptions options, OpenSession(job, worker, incarnation));
  return ParameterClient::Create(std::move(options));
}

absl::StatusOr<std::unique_ptr<ParameterClient>> TestShards::Reader(const TestJob& job) {
  ParameterClientOptions options;
  options.job = job.name;
  options.layout_hash = job.layout.Hash();
  options.map = job.map;
  options.tables = job.tables;
  options.addresses = addresses_;
  options.tls = TlsOf(Role::kWorker, "local");
  options.deadline = kDeadline;
  options.transport = options_.transport;
  options.connections = options_.connections;
  options.read_only = true;
  return ParameterClient::Create(std::move(options));
}

}  // namespace monsoon
