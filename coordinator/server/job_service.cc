#include "coordinator/server/job_service.h"

#include "common/process/host_name.h"
#include "common/transport/grpc/serve_call.h"
#include "proto/coordinator.grpc.pb.h"

namespace monsoon {
namespace {

using grpc::ServerContext;
using grpc::Status;

class JobServiceImpl : public JobService::Service {
 public:
  JobServiceImpl(Coordinator* coordinator, FaultInjector* fault)
      : coordinator_(coordinator), fault_(fault) {}

  Status Submit(ServerContext*, const SubmitRequest* request, SubmitReply* reply) override {
    return ServeWithFaults(fault_, reply, [&] { return coordinator_->Submit(*request); });
  }
  Status Start(ServerContext*, const JobRequest* request, JobSummary* reply) override {
    return ServeWithFaults(fault_, reply, [&] { return coordinator_->Start(request->job()); });
  }
  Status List(ServerContext*, const ListRequest*, ListReply* reply) override {
    return ServeWithFaults(fault_, reply, [&] { return coordinator_->List(); });
  }
  Status Describe(ServerContext*, const JobRequest* request, JobDescription* reply) override {
    return ServeWithFaults(fault_, reply, [&] { return coordinator_->Describe(request->job()); });
  }
  Status Cancel(ServerContext*, const JobRequest* request, JobSummary* reply) override {
    return ServeWithFaults(fault_, reply, [&] { return coordinator_->Cancel(request->job()); });
  }
  Status Delete(ServerContext*, const JobRequest* request, JobSummary* reply) override {
    return ServeWithFaults(fault_, reply, [&] { return coordinator_->Delete(request->job()); });
  }
  Status Checkpoint(ServerContext*, const JobRequest* request, CheckpointOrder* reply) override {
    return ServeWithFaults(fault_, reply, [&] { return coordinator_->Checkpoint(request->job()); });
  }
  Status Locate(ServerContext*, const JobRequest* request, JobLocation* reply) override {
    return ServeWithFaults(fault_, reply, [&] { return coordinator_->Locate(request->job()); });
  }
  Status Drain(ServerContext*, const DrainRequest* request, TaskStatus* reply) override {
    return ServeWithFaults(fault_, reply, [&] { return coordinator_->Drain(request->worker()); });
  }
  Status Info(ServerContext*, const InfoRequest*, InfoReply* reply) override {
    return ServeWithFaults(fault_, reply, [&] {
      absl::StatusOr<InfoReply> info = coordinator_->Info();
      if (info.ok()) {
        info->set_host(HostName());
      }
      return info;
    });
  }

 private:
  Coordinator* const coordinator_;
  FaultInjector* const fault_;
};

}  // namespace

std::unique_ptr<grpc::Service> MakeJobService(Coordinator* coordinator, FaultInjector* fault) {
  return std::make_unique<JobServiceImpl>(coordinator, fault);
}

}  // namespace monsoon
