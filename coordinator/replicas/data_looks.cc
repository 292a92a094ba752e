#include "coordinator/replicas/data_looks.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/config/job.h"
#include "coordinator/downpour/resume.h"
#include "coordinator/job/shard_reason.h"

namespace monsoon {
namespace {

bool AwaitsData(const JobRecord& job) { return job.plan.awaits_data && job.stage() == JOB_QUEUED; }

// The job's plan with so many samples, judged as at its submission.
absl::StatusOr<JobPlan> PlanWith(const JobRecord& job, uint64_t examples, const Cluster& cluster) {
  JobPlan plan = job.plan;
  absl::Status status = plan.TakeData(examples, cluster);
  if (status.ok() && job.state().has_resume()) {
    status = CheckResume(plan, {.init = true, .resume = job.state().resume()});
  }
  return status.ok() ? absl::StatusOr<JobPlan>(std::move(plan)) : status;
}

}  // namespace

// ---- of a submission ---------------------------------------------------------

uint64_t DataLooks::Ask(const JobPlan& plan, absl::Duration now) {
  DataLook look(plan.job, now);
  const bool all = cluster_.open() && WantedWorkers(plan.job) == 0;
  uint32_t candidates = 0;
  for (uint32_t worker = 0; worker < membership_.size(); ++worker) {
    const bool may_train = membership_.Entered(worker) == nullptr;
    if (!may_train || (!all && candidates >= plan.replicas)) {
      continue;
    }
    ++candidates;
    const Member member = membership_.member(worker);
    if (membership_.up(worker) && !membership_.draining(worker)) {
      look.Ask(worker, member.incarnation,
               absl::StrCat("worker/", worker, member.host.empty() ? "" : " on ", member.host));
    }
  }
  if (look.hopeless()) {
    return 0;
  }
  looks_.emplace(++last_, Look{std::move(look), ""});
  return last_;
}

std::optional<DataVerdict> DataLooks::Verdict(uint64_t number, absl::Duration now) const {
  const auto found = looks_.find(number);
  return found == looks_.end() ? std::nullopt : found->second.look.Verdict(now);
}

void DataLooks::Adopt(uint64_t number, const std::string& job) {
  const auto found = looks_.find(number);
  if (found == looks_.end()) {
    return;
  }
  if (FindLook(job) != looks_.end()) {
    looks_.erase(found);  // The submission was repeated, and asked twice.
  } else {
    found->second.job = job;
  }
}

// ---- with heartbeats ---------------------------------------------------------

void DataLooks::Hear(uint32_t worker, const HeartbeatRequest& request) {
  const DataReport& report = request.data_report();
  if (request.has_data_report() && report.term() == term()) {
    if (const auto found = looks_.find(report.number()); found != looks_.end()) {
      found->second.look.Answer(worker, request.incarnation(), report);
    }
  }
}

void DataLooks::Tell(uint32_t worker, HeartbeatReply* reply) const {
  const uint64_t incarnation = membership_.member(worker).incarnation;
  for (const auto& [number, look] : looks_) {
    if (look.look.Awaits(worker, incarnation)) {
      reply->mutable_data_question()->set_number(number);
      *reply->mutable_data_question()->mutable_job() = look.look.job();
      return;
    }
  }
}

// ---- of jobs that wait -------------------------------------------------------

std::map<uint64_t, DataLooks::Look>::iterator DataLooks::FindLook(const std::string& job) {
  return std::ranges::find_if(looks_, [&](const auto& each) { return each.second.job == job; });
}

void DataLooks::Tidy() {
  for (auto& [number, each] : looks_) {
    for (const auto& [worker, incarnation] : each.look.asked()) {
      if (!membership_.up(worker) || membership_.member(worker).incarnation != incarnation) {
        each.look.NoteGone(worker, incarnation);
      }
    }
  }
  std::erase_if(looks_, [this](const auto& each) {
    const Look& look = each.second;
    if (look.job.empty()) {
      return false;  // Whoever submits ends it.
    }
    const JobRecord* const job = jobs_.Lookup(look.job);
    return job == nullptr || !AwaitsData(*job) || look.look.hopeless();
  });
}

void DataLooks::AdvanceWaiting(absl::Duration now) {
  if (!looks_.empty()) {
    Tidy();
  }
  for (const auto& job : jobs_.jobs()) {
    if (!AwaitsData(*job)) {
      continue;
    }
    const auto found = FindLook(job->id());
    if (found == looks_.end()) {
      Adopt(Ask(job->plan, now), job->id());
    } else if (const std::optional<DataVerdict> verdict = found->second.look.Verdict(now)) {
      looks_.erase(found);
      Take(job.get(), *verdict, now);
    }
  }
}

void DataLooks::Take(JobRecord* job, const DataVerdict& verdict, absl::Duration now) {
  std::vector<std::string> errors;
  for (const DataFinding& error : verdict.errors) {
    errors.push_back(FindingText(error));
  }
  if (errors.empty()) {
    absl::StatusOr<JobPlan> plan = PlanWith(*job, verdict.examples, cluster_);
    if (plan.ok()) {
      job->TakeData(*std::move(plan));
      job->AddEvent(now, "data_seen", "", verdict.seen);
      for (const DataFinding& warning : verdict.warnings) {
        job->AddEvent(now, "data_warning", "", FindingText(warning));
      }
      return;
    }
    errors.push_back(std::string(plan.status().message()));
  }
  const std::string text = JoinSome(errors);
  Log(absl::StrCat("job ", job->id(), ": its data are not right: ", text));
  job->AddEvent(now, "data_error", "", text);
  registry_->End(job, FAILED, absl::StrCat("data: ", text), now);
}

std::string DataLooks::WaitsFor(const JobRecord& job, Moment) const {
  if (!AwaitsData(job)) {
    return "";
  }
  for (const auto& [number, each] : looks_) {
    if (each.job == job.id()) {
      return absl::StrCat("waits for ", JoinSome(each.look.awaited()),
                          " to look at its data files");
    }
  }
  return "waits for a worker to look at its data files: none is there";
}

}  // namespace monsoon
