#include "coordinator/server/job_service.h"

#include <type_traits>

#include "common/base/status.h"
#include "common/process/host_name.h"

namespace monsoon {
namespace {

// Answers requests for this cluster alone.
template <typename Serve>
auto OfThisCluster(Coordinator* coordinator, Serve serve) {
  return [coordinator,
          serve](const auto& request) -> std::invoke_result_t<const Serve&, decltype(request)> {
    RETURN_IF_ERROR(coordinator->CheckCluster(request.cluster()));
    return serve(request);
  };
}

}  // namespace

void AddJobCalls(Coordinator* coordinator, const std::string& open_at, FaultInjector* faults,
                 CallTable* calls) {
  calls->Add<SubmitRequest>("/monsoon.JobService/Submit", faults,
                            OfThisCluster(coordinator, [=](const SubmitRequest& request) {
                              return coordinator->Submit(request);
                            }));
  calls->Add<JobRequest>("/monsoon.JobService/Start", faults,
                         OfThisCluster(coordinator, [=](const JobRequest& request) {
                           return coordinator->Start(request.job());
                         }));
  calls->Add<ListRequest>(
      "/monsoon.JobService/List", faults,
      OfThisCluster(coordinator, [=](const ListRequest&) -> absl::StatusOr<ListReply> {
        ASSIGN_OR_RETURN(ListReply list, coordinator->List());
        list.set_open_at(open_at);
        return list;
      }));
  calls->Add<JobRequest>("/monsoon.JobService/Describe", faults,
                         OfThisCluster(coordinator, [=](const JobRequest& request) {
                           return coordinator->Describe(request.job());
                         }));
  calls->Add<JobRequest>("/monsoon.JobService/Cancel", faults,
                         OfThisCluster(coordinator, [=](const JobRequest& request) {
                           return coordinator->Cancel(request.job());
                         }));
  calls->Add<JobRequest>("/monsoon.JobService/Delete", faults,
                         OfThisCluster(coordinator, [=](const JobRequest& request) {
                           return coordinator->Delete(request.job());
                         }));
  calls->Add<JobRequest>("/monsoon.JobService/Checkpoint", faults,
                         OfThisCluster(coordinator, [=](const JobRequest& request) {
                           return coordinator->Checkpoint(request.job());
                         }));
  calls->Add<JobRequest>("/monsoon.JobService/Locate", faults,
                         OfThisCluster(coordinator, [=](const JobRequest& request) {
                           return coordinator->Locate(request.job());
                         }));
  calls->Add<DrainRequest>("/monsoon.JobService/Drain", faults,
                           OfThisCluster(coordinator, [=](const DrainRequest& request) {
                             return coordinator->Drain(request.worker());
                           }));
  calls->Add<GiveUpRequest>("/monsoon.JobService/GiveUp", faults,
                            OfThisCluster(coordinator, [=](const GiveUpRequest& request) {
                              return coordinator->GiveUp(request);
                            }));
  calls->Add<InfoRequest>("/monsoon.JobService/Info", faults, [=](const InfoRequest&) {
    absl::StatusOr<InfoReply> info = coordinator->Info();
    if (info.ok()) {
      info->set_host(HostName());
    }
    return info;
  });
}

}  // namespace monsoon
