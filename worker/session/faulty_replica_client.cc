#include "worker/session/faulty_replica_client.h"

#include <utility>

#include "common/transport/frame/faulty_call.h"

namespace monsoon {
namespace {

class FaultyReplicaClient : public ReplicaClient {
 public:
  FaultyReplicaClient(std::unique_ptr<ReplicaClient> client, const FaultOptions& options)
      : client_(std::move(client)), faults_(options) {}

  absl::StatusOr<EnterReply> Enter(const EnterRequest& request) override {
    return CallWithFaults(&faults_, [&] { return client_->Enter(request); });
  }
  absl::StatusOr<HeartbeatReply> Heartbeat(const HeartbeatRequest& request) override {
    return CallWithFaults(&faults_, [&] { return client_->Heartbeat(request); });
  }
  absl::StatusOr<NextWorkReply> NextWork(const NextWorkRequest& request) override {
    return CallWithFaults(&faults_, [&] { return client_->NextWork(request); });
  }
  absl::StatusOr<ReportEvaluationReply> ReportEvaluation(
      const ReportEvaluationRequest& request) override {
    return CallWithFaults(&faults_, [&] { return client_->ReportEvaluation(request); });
  }
  absl::StatusOr<TakeStreamReply> TakeStream(const TakeStreamRequest& request) override {
    return CallWithFaults(&faults_, [&] { return client_->TakeStream(request); });
  }
  absl::StatusOr<ClockReply> TellClock(const ClockRequest& request) override {
    return CallWithFaults(&faults_, [&] { return client_->TellClock(request); });
  }
  absl::StatusOr<ReportFailureReply> ReportFailure(const ReportFailureRequest& request) override {
    return CallWithFaults(&faults_, [&] { return client_->ReportFailure(request); });
  }

 private:
  const std::unique_ptr<ReplicaClient> client_;
  FaultInjector faults_;
};

}  // namespace

std::unique_ptr<ReplicaClient> MakeFaultyReplicaClient(std::unique_ptr<ReplicaClient> client,
                                                       const FaultOptions& options) {
  return std::make_unique<FaultyReplicaClient>(std::move(client), options);
}

}  // namespace monsoon
