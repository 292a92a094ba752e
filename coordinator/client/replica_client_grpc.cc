#include <memory>
#include <string>

#include "common/transport/grpc/channel.h"
#include "common/transport/grpc/unary_call.h"
#include "coordinator/client/replica_client.h"
#include "proto/coordinator.grpc.pb.h"

namespace monsoon {
namespace {

using Stub = ReplicaService::Stub;

class GrpcReplicaClient : public ReplicaClient {
 public:
  GrpcReplicaClient(const std::string& address, absl::Duration deadline,
                    const std::shared_ptr<Tls>& tls)
      : address_(address),
        deadline_(deadline),
        tls_(tls),
        channel_(MakeChannel(address, tls, Role::kCoordinator)),
        stub_(ReplicaService::NewStub(channel_)) {}

  absl::StatusOr<EnterReply> Enter(const EnterRequest& request) override {
    return UnaryCall(channel_, stub_.get(), &Stub::Enter, request, deadline_, address_, tls_);
  }
  absl::StatusOr<HeartbeatReply> Heartbeat(const HeartbeatRequest& request) override {
    return UnaryCall(channel_, stub_.get(), &Stub::Heartbeat, request, deadline_, address_, tls_);
  }
  absl::StatusOr<NextWorkReply> NextWork(const NextWorkRequest& request) override {
    return UnaryCall(channel_, stub_.get(), &Stub::NextWork, request, deadline_, address_, tls_);
  }
  absl::StatusOr<ReportEvaluationReply> ReportEvaluation(
      const ReportEvaluationRequest& request) override {
    return UnaryCall(channel_, stub_.get(), &Stub::ReportEvaluation, request, deadline_, address_,
                     tls_);
  }
  absl::StatusOr<TakeStreamReply> TakeStream(const TakeStreamRequest& request) override {
    return UnaryCall(channel_, stub_.get(), &Stub::TakeStream, request, deadline_, address_, tls_);
  }
  absl::StatusOr<ClockReply> TellClock(const ClockRequest& request) override {
    return UnaryCall(channel_, stub_.get(), &Stub::TellClock, request, deadline_, address_, tls_);
  }
  absl::StatusOr<ReportFailureReply> ReportFailure(const ReportFailureRequest& request) override {
    return UnaryCall(channel_, stub_.get(), &Stub::ReportFailure, request, deadline_, address_,
                     tls_);
  }

 private:
  const std::string address_;
  const absl::Duration deadline_;
  const std::shared_ptr<Tls> tls_;
  const std::shared_ptr<grpc::Channel> channel_;
  const std::unique_ptr<Stub> stub_;
};

}  // namespace

std::unique_ptr<ReplicaClient> ReplicaClient::Create(const std::string& address,
                                                     absl::Duration deadline,
                                                     const std::shared_ptr<Tls>& tls) {
  return std::make_unique<GrpcReplicaClient>(address, deadline, tls);
}

}  // namespace monsoon
