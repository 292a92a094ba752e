#include "worker/replica/faulty_replica_client.h"

#include <utility>

#include "absl/time/clock.h"

namespace monsoon {
namespace {

class FaultyReplicaClient : public ReplicaClient {
 public:
  FaultyReplicaClient(std::unique_ptr<ReplicaClient> client, const FaultOptions& options)
      : client_(std::move(client)), faults_(options) {}

  absl::StatusOr<HeartbeatReply> Heartbeat(const HeartbeatRequest& request) override {
    return Call<HeartbeatReply>([&] { return client_->Heartbeat(request); });
  }
  absl::StatusOr<NextWorkReply> NextWork(const NextWorkRequest& request) override {
    return Call<NextWorkReply>([&] { return client_->NextWork(request); });
  }
  absl::StatusOr<ReportEvaluationReply> ReportEvaluation(
      const ReportEvaluationRequest& request) override {
    return Call<ReportEvaluationReply>([&] { return client_->ReportEvaluation(request); });
  }
  absl::StatusOr<ReportFailureReply> ReportFailure(const ReportFailureRequest& request) override {
    return Call<ReportFailureReply>([&] { return client_->ReportFailure(request); });
  }

 private:
  template <typename Reply, typename Function>
  absl::StatusOr<Reply> Call(Function call) {
    const Fault fault = faults_.Next();
    absl::SleepFor(fault.delay);
    if (fault.loss == Fault::Loss::kRequest) {
      return absl::UnavailableError("request lost by --fault");
    }
    absl::StatusOr<Reply> reply = call();
    if (fault.loss == Fault::Loss::kReply) {
      return absl::UnavailableError("answer lost by --fault");
    }
    return reply;
  }

  const std::unique_ptr<ReplicaClient> client_;
  FaultInjector faults_;
};

}  // namespace

std::unique_ptr<ReplicaClient> MakeFaultyReplicaClient(std::unique_ptr<ReplicaClient> client,
                                                       const FaultOptions& options) {
  return std::make_unique<FaultyReplicaClient>(std::move(client), options);
}

}  // namespace monsoon
