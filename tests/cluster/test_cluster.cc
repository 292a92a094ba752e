#include "tests/cluster/test_cluster.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/status.h"
#include "common/config/cluster.h"
#include "common/config/job.h"
#include "common/model/parameter_layout.h"
#include "common/model/shard_map.h"
#include "common/testing/socket_folder.h"
#include "ps_server/client/parameter_client.h"

namespace monsoon::testing {
namespace {

constexpr absl::Duration kCallDeadline = absl::Seconds(10);

// Answers UNAVAILABLE while muted.
class MutableClient : public ReplicaClient {
 public:
  MutableClient(std::unique_ptr<ReplicaClient> client, std::function<bool()> muted)
      : client_(std::move(client)), muted_(std::move(muted)) {}

  absl::StatusOr<EnterReply> Enter(const EnterRequest& request) override {
    return muted_() ? Lost() : client_->Enter(request);
  }
  absl::StatusOr<HeartbeatReply> Heartbeat(const HeartbeatRequest& request) override {
    return muted_() ? Lost() : client_->Heartbeat(request);
  }
  absl::StatusOr<NextWorkReply> NextWork(const NextWorkRequest& request) override {
    return muted_() ? Lost() : client_->NextWork(request);
  }
  absl::StatusOr<ReportEvaluationReply> ReportEvaluation(
      const ReportEvaluationRequest& request) override {
    return muted_() ? Lost() : client_->ReportEvaluation(request);
  }
  absl::StatusOr<TakeStreamReply> TakeStream(const TakeStreamRequest& request) override {
    return muted_() ? Lost() : client_->TakeStream(request);
  }
  absl::StatusOr<ClockReply> TellClock(const ClockRequest& request) override {
    return muted_() ? Lost() : client_->TellClock(request);
  }
  absl::StatusOr<ReportFailureReply> ReportFailure(const ReportFailureRequest& request) override {
    return muted_() ? Lost() : client_->ReportFailure(request);
  }

 private:
  static absl::Status Lost() { return absl::UnavailableError("muted by the test"); }

  const std::unique_ptr<ReplicaClient> client_;
  const std::function<bool()> muted_;
};

bool Ended(const JobDescription& description) {
  return description.summary().state() == SUCCEEDED || description.summary().state() == FAILED ||
         description.summary().state() == CANCELLED;
}

}  // namespace

TestCluster::TestCluster(const Options& options)
    : options_(options), muted_(std::make_shared<Muted>(options.workers)) {
  const std::string name = UniqueName();
  const std::string prefix = testing::UniqueSocketAddress() + "-";
  cluster_.set_name(absl::StrCat("test-", name));
  cluster_.set_heartbeat_ms(options.heartbeat_ms);
  cluster_.set_lost_after_ms(options.lost_after_ms);
  cluster_.mutable_coordinator()->set_address(prefix + "coordinator");
  for (int i = 0; i < options.shards; ++i) {
    cluster_.add_ps()->set_address(absl::StrCat(prefix, "ps", i));
  }
  for (int i = 0; i < options.workers; ++i) {
    WorkerTask* worker = cluster_.add_worker();
    worker->set_address(absl::StrCat(prefix, "worker", i));
    worker->set_device(CPU);
    worker->set_replicas(options.replicas);
  }
  FillClusterDefaults(&cluster_);
  workers_.resize(options.workers);
}

TestCluster::~TestCluster() {
  workers_.clear();
  if (coordinator_ != nullptr) {
    coordinator_->Stop();
  }
}

absl::Status TestCluster::Start() {
  for (int i = 0; i < options_.shards; ++i) {
    PsServerOptions shard;
    shard.cluster = cluster_.name();
    shard.task = static_cast<uint32_t>(i);
    shard.address = cluster_.ps(i).address();
    ASSIGN_OR_RETURN(shards_.emplace_back(), PsServer::Start(shard));
  }
  CoordinatorServer::Options coordinator;
  coordinator.cluster = cluster_;
  ASSIGN_OR_RETURN(coordinator_, CoordinatorServer::Start(coordinator));
  client_ = JobClient::Create(coordinator_->address(), kCallDeadline);
  const int started = options_.started_workers < 0 ? options_.workers : options_.started_workers;
  for (int i = 0; i < started; ++i) {
    RETURN_IF_ERROR(StartWorker(i));
  }
  return absl::OkStatus();
}

absl::Status TestCluster::StartWorker(int worker) {
  WorkerOptions options;
  options.cluster = cluster_;
  options.task = static_cast<uint32_t>(worker);
  const auto own_fault = options_.worker_faults.find(worker);
  options.fault =
      own_fault != options_.worker_faults.end() ? own_fault->second : options_.worker_fault;
  if (options_.on_device_lost) {
    options.on_device_lost = [this, worker] { options_.on_device_lost(worker); };
  }
  options.wrap_coordinator = [worker, muted = muted_](std::unique_ptr<ReplicaClient> client) {
    return std::make_unique<MutableClient>(std::move(client),
                                           [worker, muted] { return (*muted)[worker].load(); });
  };
  ASSIGN_OR_RETURN(workers_[worker], Worker::Start(std::move(options)));
  return absl::OkStatus();
}

void TestCluster::DrainWorker(int worker) {
  workers_[worker]->Drain(absl::Seconds(5));
  workers_[worker].reset();
}

absl::StatusOr<std::string> TestCluster::Submit(const Job& job) {
  SubmitRequest request;
  *request.mutable_job() = job;
  FillJobDefaults(request.mutable_job());
  ASSIGN_OR_RETURN(const SubmitReply reply, client_->Submit(request));
  return reply.job();
}

absl::StatusOr<JobDescription> TestCluster::Describe(const std::string& job) {
  return client_->Describe(job);
}

absl::StatusOr<JobDescription> TestCluster::Await(
    const std::string& job, const std::function<bool(const JobDescription&)>& done,
    absl::Duration timeout) {
  absl::StatusOr<JobDescription> description;
  const bool in_time = PollUntil(timeout, [&] {
    description = client_->Describe(job);
    return !description.ok() || done(*description) || Ended(*description);
  });
  if (description.ok() && (!in_time || !done(*description))) {
    return absl::DeadlineExceededError(
        absl::StrCat("not seen of job ", job, ": ", description->ShortDebugString()));
  }
  return description;
}

absl::StatusOr<JobDescription> TestCluster::AwaitEnd(const std::string& job,
                                                     absl::Duration timeout) {
  return Await(job, Ended, timeout);
}

absl::StatusOr<std::vector<float>> TestCluster::Parameters(const std::string& job) {
  ASSIGN_OR_RETURN(const JobLocation location, client_->Locate(job));
  ASSIGN_OR_RETURN(const ParameterLayout layout, ParameterLayout::Create(location.model()));
  ParameterClientOptions options;
  options.job = location.job();
  options.job_term = location.job_term();
  options.layout_hash = location.layout_hash();
  options.addresses = {location.address().begin(), location.address().end()};
  options.read_only = true;
  ASSIGN_OR_RETURN(options.map,
                   ShardMap::Create(layout.size(), static_cast<uint32_t>(location.address_size()),
                                    location.max_stripe_bytes()));
  ASSIGN_OR_RETURN(const auto client, ParameterClient::Create(std::move(options)));
  std::vector<float> parameters(layout.size());
  RETURN_IF_ERROR(client->Fetch(parameters, nullptr, nullptr));
  return parameters;
}

Job SyntheticJob(uint64_t examples, double epochs) {
  Job job;
  job.set_name("synthetic");
  Model* model = job.mutable_model();
  model->set_name("softmax");
  model->add_input_shape(40);
  model->add_layer()->mutable_dense()->set_units(24);
  model->add_layer()->mutable_relu();
  model->add_layer()->mutable_dense()->set_units(5);
  const auto fill = [](SyntheticSource* source, uint64_t count, uint64_t seed) {
    source->set_examples(count);
    source->set_classes(5);
    source->set_seed(seed);
    source->set_center_seed(7);
    source->set_noise(1.0);
  };
  fill(job.mutable_train()->mutable_synthetic(), examples, 1);
  fill(job.mutable_test()->mutable_synthetic(), 200, 2);
  job.set_seed(11);
  job.set_batch_size(16);
  job.set_block_examples(64);
  job.set_stripe_kib(1);
  job.mutable_downpour()->mutable_optimizer()->mutable_sgd()->set_rate(0.05);
  job.mutable_stop()->set_epochs(epochs);
  return job;
}

}  // namespace monsoon::testing
