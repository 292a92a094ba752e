#include "coordinator/server/replica_service.h"

namespace monsoon {

void AddReplicaCalls(Coordinator* coordinator, FaultInjector* faults, CallTable* calls) {
  calls->Add<EnterRequest>(
      "/monsoon.ReplicaService/Enter", faults,
      [=](const EnterRequest& request) { return coordinator->Enter(request); });
  calls->Add<HeartbeatRequest>(
      "/monsoon.ReplicaService/Heartbeat", faults,
      [=](const HeartbeatRequest& request) { return coordinator->Heartbeat(request); });
  calls->Add<NextWorkRequest>(
      "/monsoon.ReplicaService/NextWork", faults,
      [=](const NextWorkRequest& request) { return coordinator->NextWork(request); });
  calls->Add<ReportEvaluationRequest>("/monsoon.ReplicaService/ReportEvaluation", faults,
                                      [=](const ReportEvaluationRequest& request) {
                                        return coordinator->ReportEvaluation(request);
                                      });
  calls->Add<ReportFailureRequest>(
      "/monsoon.ReplicaService/ReportFailure", faults,
      [=](const ReportFailureRequest& request) { return coordinator->ReportFailure(request); });
}

}  // namespace monsoon
