#include "coordinator/replicas/cut_workers.h"

#include <algorithm>
#include <map>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "coordinator/job/job_view.h"
#include "coordinator/job/replica_set.h"
#include "proto/downpour.pb.h"
#include "proto/job.pb.h"

namespace monsoon {
namespace {

// A worker that was cut off is tried again after so many times lost_after.
constexpr int kKeptOut = 6;

}  // namespace

std::string NotReached(const CutWorker& cut, const Cluster& cluster, absl::Duration now) {
  return absl::StrFormat("has not reached %s at %s for %.0f s", ShardName(cut.shard),
                         cluster.ps(static_cast<int>(cut.shard)).address(),
                         absl::ToDoubleSeconds(now - cut.since));
}

void CutWorkers::Hear(uint32_t worker, const HeartbeatRequest& request, absl::Duration now) {
  JobRecord* const job = registry_->jobs.JobOfWorker(worker);
  if (job == nullptr) {
    return;
  }
  const uint32_t shard = request.silent_shard();
  const bool is_cut = request.has_silent_shard() && request.has_session() &&
                      job->ledger()->IsOpen(request.session()) && IsThere(*job, shard);
  const auto known = job->figures.cut.find(worker);
  if (!is_cut) {
    job->figures.cut.erase(worker);
  } else if (known == job->figures.cut.end() || known->second.shard != shard) {
    job->figures.cut[worker] = {shard, now};
  }
}

bool CutWorkers::IsThere(const JobRecord& job, uint32_t shard) const {
  return shard < registry_->shards.size() &&
         registry_->shards.shard(shard).state == ShardView::State::kUp &&
         !JobView(job, registry_->shards).AwaitsRestore(shard);
}

bool CutWorkers::OthersReach(const JobRecord& job, uint32_t shard) const {
  return std::ranges::any_of(job.state().session(), [&](const DurableSession& session) {
    const auto cut = job.figures.cut.find(session.worker());
    return session.state() == DurableSession::OPEN && registry_->membership.up(session.worker()) &&
           (cut == job.figures.cut.end() || cut->second.shard != shard);
  });
}

std::vector<std::pair<uint32_t, std::string>> CutWorkers::TakeLost(absl::Duration now) {
  const absl::Duration lost_after = absl::Milliseconds(registry_->cluster.lost_after_ms());
  std::vector<std::pair<uint32_t, std::string>> lost;
  for (JobRecord* const job : registry_->jobs.active()) {
    for (auto cut = job->figures.cut.begin(); cut != job->figures.cut.end();) {
      if (now - cut->second.since < lost_after || !IsThere(*job, cut->second.shard) ||
          !OthersReach(*job, cut->second.shard)) {
        ++cut;
        continue;
      }
      lost.emplace_back(cut->first, absl::StrCat(WorkerName(cut->first), " ",
                                                 NotReached(cut->second, registry_->cluster, now),
                                                 ", which others reach"));
      job->figures.kept_out[cut->first] = now + kKeptOut * lost_after;
      cut = job->figures.cut.erase(cut);
    }
  }
  return lost;
}

std::string CutWorkers::WaitsFor(const JobRecord& job, absl::Duration now) const {
  for (const auto& [worker, cut] : job.figures.cut) {
    if (now - cut.since >= absl::Milliseconds(registry_->cluster.lost_after_ms()) / 2) {
      return absl::StrCat("waits for ", WorkerName(worker), ", which ",
                          NotReached(cut, registry_->cluster, now));
    }
  }
  return "";
}

void CutWorkers::NoteClosed(JobRecord* job, const ShardCommand& command,
                            const ShardAnswer& answer) {
  const std::optional<ShardJobStatus>& slice = job->figures.shard_status[command.shard];
  // Of fragments each stripe has pushes of its own.
  if (command.kind == ShardCommand::Kind::kCloseSession && answer.status.ok() &&
      slice.has_value() && slice->stripes() > 0 &&
      !job->plan.job.downpour().local().has_fragments()) {
    const std::pair key(command.session.worker(), command.session.incarnation());
    job->figures.closed_pushes[key][command.shard] = answer.closed.applied() / slice->stripes();
  }
}

std::optional<uint64_t> CutWorkers::PushesOf(const JobRecord& job,
                                             const DurableSession& session) const {
  const auto found = job.figures.closed_pushes.find({session.worker(), session.incarnation()});
  if (found == job.figures.closed_pushes.end()) {
    return std::nullopt;
  }
  return std::ranges::max_element(found->second, {}, [](const auto& entry) { return entry.second; })
      ->second;
}

void CutWorkers::EndSession(JobRecord* job, const DurableSession& session, absl::Duration now) {
  job->figures.cut.erase(session.worker());
  const auto found = job->figures.closed_pushes.find({session.worker(), session.incarnation()});
  if (found == job->figures.closed_pushes.end()) {
    return;
  }
  const std::map<uint32_t, uint64_t> pushes = std::move(found->second);
  job->figures.closed_pushes.erase(found);
  const auto [least, most] =
      std::ranges::minmax_element(pushes, {}, [](const auto& entry) { return entry.second; });
  // The last push of one that dies can be on some shards and not on others.
  if (most->second - least->second < 2) {
    return;
  }
  const std::string address = registry_->cluster.ps(static_cast<int>(least->first)).address();
  const std::string who = absl::StrCat(WorkerName(session.worker()), "#", session.incarnation());
  job->AddEvent(now, "pushes_incomplete", WorkerName(session.worker()),
                absl::StrCat(ShardName(least->first), " at ", address, " never got ",
                             most->second - least->second, " pushes of ", who, ", of which ",
                             ShardName(most->first), " has ", most->second));
}

}  // namespace monsoon
