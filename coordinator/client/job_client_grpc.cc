#include <algorithm>
#include <memory>
#include <string>

#include "common/transport/grpc/channel.h"
#include "common/transport/grpc/unary_call.h"
#include "coordinator/client/job_client.h"
#include "proto/coordinator.grpc.pb.h"

namespace monsoon {
namespace {

using Stub = JobService::Stub;

// The coordinator reads what describes the data, of tables all of it, before it answers.
constexpr absl::Duration kSubmitDeadline = absl::Seconds(60);

JobRequest Named(const std::string& job) {
  JobRequest request;
  request.set_job(job);
  return request;
}

class GrpcJobClient : public JobClient {
 public:
  GrpcJobClient(const std::string& address, absl::Duration deadline)
      : address_(address),
        deadline_(deadline),
        channel_(MakeChannel(address)),
        stub_(JobService::NewStub(channel_)) {}

  absl::StatusOr<SubmitReply> Submit(const SubmitRequest& request) override {
    return UnaryCall(channel_, stub_.get(), &Stub::Submit, request,
                     std::max(deadline_, kSubmitDeadline), address_);
  }
  absl::StatusOr<JobSummary> Start(const std::string& job) override {
    return UnaryCall(channel_, stub_.get(), &Stub::Start, Named(job), deadline_, address_);
  }
  absl::StatusOr<ListReply> List() override {
    return UnaryCall(channel_, stub_.get(), &Stub::List, ListRequest(), deadline_, address_);
  }
  absl::StatusOr<JobDescription> Describe(const std::string& job) override {
    return UnaryCall(channel_, stub_.get(), &Stub::Describe, Named(job), deadline_, address_);
  }
  absl::StatusOr<JobSummary> Cancel(const std::string& job) override {
    return UnaryCall(channel_, stub_.get(), &Stub::Cancel, Named(job), deadline_, address_);
  }
  absl::StatusOr<JobSummary> Delete(const std::string& job) override {
    return UnaryCall(channel_, stub_.get(), &Stub::Delete, Named(job), deadline_, address_);
  }
  absl::StatusOr<CheckpointOrder> Checkpoint(const std::string& job) override {
    return UnaryCall(channel_, stub_.get(), &Stub::Checkpoint, Named(job), deadline_, address_);
  }
  absl::StatusOr<JobLocation> Locate(const std::string& job) override {
    return UnaryCall(channel_, stub_.get(), &Stub::Locate, Named(job), deadline_, address_);
  }
  absl::StatusOr<TaskStatus> Drain(uint32_t worker) override {
    DrainRequest request;
    request.set_worker(worker);
    return UnaryCall(channel_, stub_.get(), &Stub::Drain, request, deadline_, address_);
  }
  absl::StatusOr<InfoReply> Info() override {
    return UnaryCall(channel_, stub_.get(), &Stub::Info, InfoRequest(), deadline_, address_);
  }

 private:
  const std::string address_;
  const absl::Duration deadline_;
  const std::shared_ptr<grpc::Channel> channel_;
  const std::unique_ptr<Stub> stub_;
};

}  // namespace

std::unique_ptr<JobClient> JobClient::Create(const std::string& address, absl::Duration deadline) {
  return std::make_unique<GrpcJobClient>(address, deadline);
}

}  // namespace monsoon
