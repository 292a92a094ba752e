#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "common/transport/grpc/channel.h"
#include "common/transport/grpc/unary_call.h"
#include "coordinator/client/job_client.h"
#include "proto/coordinator.grpc.pb.h"

namespace monsoon {
namespace {

using Stub = JobService::Stub;

// Workers look at the job's data files before the coordinator answers.
constexpr absl::Duration kSubmitDeadline = absl::Seconds(60);

class GrpcJobClient : public JobClient {
 public:
  GrpcJobClient(const std::string& address, absl::Duration deadline, std::string cluster,
                const std::shared_ptr<Tls>& tls)
      : address_(address),
        deadline_(deadline),
        cluster_(std::move(cluster)),
        tls_(tls),
        channel_(MakeChannel(address, tls, Role::kCoordinator)),
        stub_(JobService::NewStub(channel_)) {}

  absl::StatusOr<SubmitReply> Submit(const SubmitRequest& request) override {
    SubmitRequest named = request;
    named.set_cluster(cluster_);
    return UnaryCall(channel_, stub_.get(), &Stub::Submit, named,
                     std::max(deadline_, kSubmitDeadline), address_, tls_);
  }
  absl::StatusOr<JobSummary> Start(const std::string& job) override {
    return UnaryCall(channel_, stub_.get(), &Stub::Start, Named(job), deadline_, address_, tls_);
  }
  absl::StatusOr<ListReply> List() override {
    return UnaryCall(channel_, stub_.get(), &Stub::List, For<ListRequest>(), deadline_, address_,
                     tls_);
  }
  absl::StatusOr<JobDescription> Describe(const std::string& job) override {
    return UnaryCall(channel_, stub_.get(), &Stub::Describe, Named(job), deadline_, address_, tls_);
  }
  absl::StatusOr<JobSummary> Cancel(const std::string& job) override {
    return UnaryCall(channel_, stub_.get(), &Stub::Cancel, Named(job), deadline_, address_, tls_);
  }
  absl::StatusOr<JobSummary> Delete(const std::string& job) override {
    return UnaryCall(channel_, stub_.get(), &Stub::Delete, Named(job), deadline_, address_, tls_);
  }
  absl::StatusOr<CheckpointOrder> Checkpoint(const std::string& job) override {
    return UnaryCall(channel_, stub_.get(), &Stub::Checkpoint, Named(job), deadline_, address_,
                     tls_);
  }
  absl::StatusOr<JobLocation> Locate(const std::string& job) override {
    return UnaryCall(channel_, stub_.get(), &Stub::Locate, Named(job), deadline_, address_, tls_);
  }
  absl::StatusOr<TaskStatus> Drain(uint32_t worker) override {
    auto request = For<DrainRequest>();
    request.set_worker(worker);
    return UnaryCall(channel_, stub_.get(), &Stub::Drain, request, deadline_, address_, tls_);
  }
  absl::StatusOr<GiveUpReply> GiveUp(const std::string& task, const std::string& by) override {
    auto request = For<GiveUpRequest>();
    request.set_task(task);
    request.set_by(by);
    return UnaryCall(channel_, stub_.get(), &Stub::GiveUp, request, deadline_, address_, tls_);
  }
  absl::StatusOr<SetReply> Set(const std::string& job,
                               const std::vector<std::string>& settings) override {
    auto request = For<SetRequest>();
    request.set_job(job);
    request.mutable_setting()->Assign(settings.begin(), settings.end());
    return UnaryCall(channel_, stub_.get(), &Stub::Set, request, deadline_, address_, tls_);
  }
  absl::StatusOr<InfoReply> Info() override {
    return UnaryCall(channel_, stub_.get(), &Stub::Info, InfoRequest(), deadline_, address_, tls_);
  }

 private:
  template <typename Request>
  Request For() const {
    Request request;
    request.set_cluster(cluster_);
    return request;
  }
  JobRequest Named(const std::string& job) const {
    auto request = For<JobRequest>();
    request.set_job(job);
    return request;
  }

  const std::string address_;
  const absl::Duration deadline_;
  const std::string cluster_;
  const std::shared_ptr<Tls> tls_;
  const std::shared_ptr<grpc::Channel> channel_;
  const std::unique_ptr<Stub> stub_;
};

}  // namespace

std::unique_ptr<JobClient> JobClient::Create(const std::string& address, absl::Duration deadline,
                                             const std::string& cluster,
                                             const std::shared_ptr<Tls>& tls) {
  return std::make_unique<GrpcJobClient>(address, deadline, cluster, tls);
}

}  // namespace monsoon
