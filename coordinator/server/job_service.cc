#include "coordinator/server/job_service.h"

#include <algorithm>
#include <string>
#include <type_traits>
#include <utility>

#include "common/base/status.h"
#include "common/process/host_name.h"
#include "common/security/access.h"

namespace monsoon {
namespace {

// Answers requests for this cluster alone.
template <typename Serve>
auto OfThisCluster(Coordinator* coordinator, Serve serve) {
  return [coordinator, serve](const auto& request) -> decltype(serve(request)) {
    RETURN_IF_ERROR(coordinator->CheckCluster(request.cluster()));
    return serve(request);
  };
}

// Serves requests of one job, by its id. Who is there for one job alone is served of no other;
// tokens of operators have none, so nothing that changes a job needs this.
template <typename Serve>
auto OfItsJob(Coordinator* coordinator, Serve serve) {
  return [coordinator, serve](
             const Caller& caller,
             const JobRequest& request) -> std::invoke_result_t<const Serve&, const std::string&> {
    RETURN_IF_ERROR(coordinator->CheckCluster(request.cluster()));
    if (!caller.member.has_value() || caller.member->identity.job.empty()) {
      return serve(request.job());
    }
    ASSIGN_OR_RETURN(const JobDescription found, coordinator->Describe(request.job()));
    RETURN_IF_ERROR(CheckJob(caller, found.summary().job()));
    return serve(found.summary().job());
  };
}

// Without the jobs that the caller is not there for.
ListReply ForCaller(const Caller& caller, ListReply list) {
  const auto hide = [&caller](auto* entries) {
    entries->erase(
        std::remove_if(entries->begin(), entries->end(),
                       [&](const auto& entry) { return !CheckJob(caller, entry.job()).ok(); }),
        entries->end());
  };
  hide(list.mutable_job());
  hide(list.mutable_orphan());
  return list;
}

}  // namespace

void AddJobCalls(Coordinator* coordinator, const std::string& open_at, FaultInjector* faults,
                 CallTable* calls) {
  calls->Add<SubmitRequest>(
      "/monsoon.JobService/Submit", faults,
      [=](const Caller& caller, const SubmitRequest& request) -> absl::StatusOr<SubmitReply> {
        RETURN_IF_ERROR(coordinator->CheckCluster(request.cluster()));
        return coordinator->Submit(request, caller);
      });
  calls->Add<JobRequest>("/monsoon.JobService/Start", faults,
                         OfThisCluster(coordinator, [=](const JobRequest& request) {
                           return coordinator->Start(request.job());
                         }));
  calls->Add<ListRequest>(
      "/monsoon.JobService/List", faults,
      [=](const Caller& caller, const ListRequest& request) -> absl::StatusOr<ListReply> {
        RETURN_IF_ERROR(coordinator->CheckCluster(request.cluster()));
        ASSIGN_OR_RETURN(ListReply list, coordinator->List());
        list.set_open_at(open_at);
        return ForCaller(caller, std::move(list));
      });
  calls->Add<JobRequest>(
      "/monsoon.JobService/Describe", faults,
      OfItsJob(coordinator, [=](const std::string& job) { return coordinator->Describe(job); }));
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
  calls->Add<JobRequest>(
      "/monsoon.JobService/Locate", faults,
      OfItsJob(coordinator, [=](const std::string& job) { return coordinator->Locate(job); }));
  calls->Add<DrainRequest>("/monsoon.JobService/Drain", faults,
                           OfThisCluster(coordinator, [=](const DrainRequest& request) {
                             return coordinator->Drain(request.worker());
                           }));
  calls->Add<GiveUpRequest>("/monsoon.JobService/GiveUp", faults,
                            OfThisCluster(coordinator, [=](const GiveUpRequest& request) {
                              return coordinator->GiveUp(request);
                            }));
  calls->Add<SetRequest>("/monsoon.JobService/Set", faults,
                         OfThisCluster(coordinator, [=](const SetRequest& request) {
                           return coordinator->Set(request);
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
