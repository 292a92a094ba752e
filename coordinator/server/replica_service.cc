#include "coordinator/server/replica_service.h"

#include "common/transport/grpc/serve_call.h"
#include "proto/coordinator.grpc.pb.h"

namespace monsoon {
namespace {

using grpc::ServerContext;
using grpc::Status;

class ReplicaServiceImpl : public ReplicaService::Service {
 public:
  ReplicaServiceImpl(Coordinator* coordinator, FaultInjector* fault)
      : coordinator_(coordinator), fault_(fault) {}

  Status Enter(ServerContext*, const EnterRequest* request, EnterReply* reply) override {
    return ServeWithFaults(fault_, reply, [&] { return coordinator_->Enter(*request); });
  }
  Status Heartbeat(ServerContext*, const HeartbeatRequest* request,
                   HeartbeatReply* reply) override {
    return ServeWithFaults(fault_, reply, [&] { return coordinator_->Heartbeat(*request); });
  }
  Status NextWork(ServerContext*, const NextWorkRequest* request, NextWorkReply* reply) override {
    return ServeWithFaults(fault_, reply, [&] { return coordinator_->NextWork(*request); });
  }
  Status ReportEvaluation(ServerContext*, const ReportEvaluationRequest* request,
                          ReportEvaluationReply* reply) override {
    return ServeWithFaults(fault_, reply, [&] { return coordinator_->ReportEvaluation(*request); });
  }
  Status ReportFailure(ServerContext*, const ReportFailureRequest* request,
                       ReportFailureReply* reply) override {
    return ServeWithFaults(fault_, reply, [&] { return coordinator_->ReportFailure(*request); });
  }

 private:
  Coordinator* const coordinator_;
  FaultInjector* const fault_;
};

}  // namespace

std::unique_ptr<grpc::Service> MakeReplicaService(Coordinator* coordinator, FaultInjector* fault) {
  return std::make_unique<ReplicaServiceImpl>(coordinator, fault);
}

}  // namespace monsoon
