#include "coordinator/server/replica_service.h"

#include "common/base/status.h"

namespace monsoon {
namespace {

// Answers requests of the session's worker alone.
template <typename Serve>
auto OfItsSession(Coordinator* coordinator, Serve serve) {
  return
      [coordinator, serve](const Caller& caller, const auto& request) -> decltype(serve(request)) {
        RETURN_IF_ERROR(coordinator->CheckSession(request.session(), caller));
        return serve(request);
      };
}

}  // namespace

void AddReplicaCalls(Coordinator* coordinator, FaultInjector* faults, CallTable* calls) {
  calls->Add<EnterRequest>("/monsoon.ReplicaService/Enter", faults,
                           [=](const Caller& caller, const EnterRequest& request) {
                             return coordinator->Enter(request, caller);
                           });
  calls->Add<HeartbeatRequest>("/monsoon.ReplicaService/Heartbeat", faults,
                               [=](const Caller& caller, const HeartbeatRequest& request) {
                                 return coordinator->Heartbeat(request, caller);
                               });
  calls->Add<NextWorkRequest>("/monsoon.ReplicaService/NextWork", faults,
                              OfItsSession(coordinator, [=](const NextWorkRequest& request) {
                                return coordinator->NextWork(request);
                              }));
  calls->Add<ReportEvaluationRequest>(
      "/monsoon.ReplicaService/ReportEvaluation", faults,
      OfItsSession(coordinator, [=](const ReportEvaluationRequest& request) {
        return coordinator->ReportEvaluation(request);
      }));
  calls->Add<TakeStreamRequest>("/monsoon.ReplicaService/TakeStream", faults,
                                OfItsSession(coordinator, [=](const TakeStreamRequest& request) {
                                  return coordinator->TakeStream(request);
                                }));
  calls->Add<ClockRequest>("/monsoon.ReplicaService/TellClock", faults,
                           OfItsSession(coordinator, [=](const ClockRequest& request) {
                             return coordinator->TellClock(request);
                           }));
  calls->Add<ReportFailureRequest>(
      "/monsoon.ReplicaService/ReportFailure", faults,
      OfItsSession(coordinator, [=](const ReportFailureRequest& request) {
        return coordinator->ReportFailure(request);
      }));
}

}  // namespace monsoon
