#include "coordinator/job/job_table.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "common/base/status.h"
#include "common/security/member_shares.h"

namespace monsoon {
namespace {

double Mib(uint64_t bytes) { return static_cast<double>(bytes) / (1 << 20); }

// Unset in the cluster file.
constexpr uint32_t kDefaultMemoryLimitMib = 4096;

}  // namespace

JobTable::JobTable(StateWriter* writer) : writer_(writer) {
  for (const DurableJob& job : writer->state().snapshot().job()) {
    jobs_.push_back(std::make_unique<JobRecord>(JobWriter(writer, job.id())));
  }
}

absl::Status JobTable::CheckListed(const Job& job, const std::string& by) const {
  const uint64_t size = job.ByteSizeLong();
  std::vector<uint64_t> sizes;
  for (const auto& other : jobs_) {
    sizes.push_back(other->plan.job.ByteSizeLong());
  }
  const uint64_t bytes = std::accumulate(sizes.begin(), sizes.end(), uint64_t{0});
  if (jobs_.size() < kMostJobs && bytes + size <= kMostJobsBytes) {
    return CheckShare(by, size, sizes, bytes);
  }
  return absl::ResourceExhaustedError(absl::StrFormat(
      "the list has %d jobs, and with this one %.1f MiB of their settings; it takes "
      "%d and %.1f MiB: delete ended jobs",
      jobs_.size(), Mib(bytes + size), kMostJobs, Mib(kMostJobsBytes)));
}

absl::Status JobTable::CheckShare(const std::string& by, uint64_t size,
                                  const std::vector<uint64_t>& listed, uint64_t taken) const {
  constexpr char kRemedy[] = "delete ended ones (`coordinator delete`)";
  MemberShares count({.what = "jobs in the list",
                      .total = kMostJobs,
                      .least = kLeastJobs,
                      .most = MemberShares::MostBeside(kMostJobs, kLeastJobs, jobs_.size()),
                      .remedy = kRemedy});
  MemberShares sizes({.what = "bytes of settings in the list of jobs",
                      .total = kMostJobsBytes,
                      .least = kLeastJobsBytes,
                      .most = MemberShares::MostBeside(kMostJobsBytes, kLeastJobsBytes, taken),
                      .remedy = kRemedy});
  for (size_t i = 0; i < jobs_.size(); ++i) {
    count.Count(jobs_[i]->state().by(), 1);
    sizes.Count(jobs_[i]->state().by(), listed[i]);
  }
  RETURN_IF_ERROR(count.Take(by, 1));
  return sizes.Take(by, size);
}

absl::Status JobTable::Admit(const JobPlan& plan, const Cluster& cluster, const std::string& by,
                             const std::vector<uint64_t>& told) const {
  RETURN_IF_ERROR(CheckListed(plan.job, by));
  std::vector<std::string> errors;
  for (size_t shard = 0; shard < plan.shard_bytes.size(); ++shard) {
    uint64_t used = 0;
    std::vector<std::string> holders;
    for (const auto& job : jobs_) {
      const bool holds_or_will =
          !job->state().slices_lost() && (job->state().slices_begun() || !job->ended_or_deleting());
      if (holds_or_will) {
        used += job->plan.shard_bytes[shard];
        holders.push_back(job->id());
      }
    }
    const uint32_t mib = cluster.ps(static_cast<int>(shard)).memory_limit_mib();
    uint64_t limit = uint64_t{mib != 0 ? mib : kDefaultMemoryLimitMib} << 20;
    const bool less = shard < told.size() && told[shard] != 0 && told[shard] < limit;
    if (less) {
      limit = told[shard];
    }
    if (used + plan.shard_bytes[shard] > limit) {
      errors.push_back(absl::StrFormat(
          "ps/%d: the job needs %.1f MiB for parameters, optimizer state and vectors, %s %.1f MiB, "
          "together %.1f MiB of %.1f MiB%s",
          shard, Mib(plan.shard_bytes[shard]),
          holders.empty() ? "others" : absl::StrJoin(holders, ", "), Mib(used),
          Mib(used + plan.shard_bytes[shard]), Mib(limit),
          less ? ", which is what its machine or container leaves for jobs" : ""));
    }
  }
  if (errors.empty()) {
    return absl::OkStatus();
  }
  return absl::ResourceExhaustedError(
      absl::StrCat("not enough memory: ", absl::StrJoin(errors, "; "),
                   "; delete ended jobs or raise memory_limit_mib"));
}

JobRecord* JobTable::Add(const JobPlan& plan, const Submission& submission,
                         const std::set<std::string>& taken) {
  uint64_t number = writer_->state().snapshot().jobs_counted();
  std::string id;
  do {
    id = absl::StrCat(plan.job.name(), "-", ++number);
  } while (taken.contains(id));
  StateUpdate update;
  update.set_job(id);
  JobSubmitted* const submitted = update.mutable_job_submitted();
  submitted->set_number(number);
  submitted->set_client_id(submission.client_id);
  submitted->set_by(submission.by);
  *submitted->mutable_plan() = plan.ToStored();
  submitted->set_created_ms(submission.unix_ms);
  submitted->set_init(submission.init);
  if (submission.resume) {
    *submitted->mutable_resume() = *submission.resume;
  }
  if (submission.resume_held) {
    const JobRecord& source = *Lookup(submission.resume->source_job());
    submitted->mutable_source()->set_job(source.id());
    submitted->mutable_source()->set_job_term(source.state().term());
  }
  submitted->set_term(writer_->state().snapshot().term());
  writer_->Apply(update);
  jobs_.push_back(std::make_unique<JobRecord>(JobWriter(writer_, id)));
  return jobs_.back().get();
}

JobRecord* JobTable::FindClient(const std::string& client_id) const {
  const DurableJob* const job = writer_->state().FindClient(client_id);
  return job == nullptr ? nullptr : Lookup(job->id());
}

JobRecord* JobTable::Lookup(const std::string& id) const {
  if (id == "latest") {
    return jobs_.empty() ? nullptr : jobs_.back().get();
  }
  for (const auto& job : jobs_) {
    if (job->id() == id) {
      return job.get();
    }
  }
  return nullptr;
}

absl::StatusOr<JobRecord*> JobTable::Find(const std::string& id) const {
  JobRecord* const job = Lookup(id);
  if (job == nullptr) {
    return absl::NotFoundError(
        jobs_.empty() ? absl::StrCat("no job \"", id, "\": there are no jobs yet")
                      : absl::StrCat("no job \"", id, "\"; the newest is ", jobs_.back()->id(),
                                     ", `coordinator jobs` lists all"));
  }
  return job;
}

JobRecord* JobTable::NextToRun() const {
  for (const auto& job : jobs_) {
    if (job->stage() < JOB_ACTIVE && !job->joined() && !job->waits_for_client()) {
      return job.get();
    }
  }
  return nullptr;
}

void JobTable::Remove(std::string id) {
  std::erase_if(jobs_, [&id](const auto& job) { return job->id() == id; });
  StateUpdate update;
  update.set_job(id);
  update.mutable_job_removed();
  writer_->Apply(update);
}

// ---- jobs that have replicas, or could ---------------------------------------

JobRecord* JobTable::ActiveOfQueue() const {
  const auto found =
      std::ranges::find_if(active_, [](const JobRecord* job) { return !job->joined(); });
  return found == active_.end() ? nullptr : *found;
}

JobRecord* JobTable::JobOfWorker(uint32_t worker) const {
  const auto found = std::ranges::find_if(
      active_, [worker](const JobRecord* job) { return job->ledger()->Find(worker) != nullptr; });
  return found == active_.end() ? nullptr : *found;
}

JobRecord* JobTable::JobOfSession(const SessionKey& session) const {
  const auto found = std::ranges::find_if(active_, [&session](const JobRecord* job) {
    return job->id() == session.job() && job->state().term() == session.job_term();
  });
  if (found == active_.end()) {
    return nullptr;
  }
  const DurableSession* const known = (*found)->ledger()->Find(session.worker());
  return known != nullptr && known->incarnation() == session.incarnation() ? *found : nullptr;
}

absl::StatusOr<JobRecord*> JobTable::JobOfOpenSession(const SessionKey& session) const {
  JobRecord* const job = JobOfSession(session);
  return job != nullptr && job->ledger()->IsOpen(session) ? absl::StatusOr<JobRecord*>(job)
                                                          : SessionClosed(session);
}

bool JobTable::IsOver(const SessionKey& session) const {
  const JobRecord* const job = Lookup(session.job());
  return job != nullptr && job->state().term() == session.job_term() && job->stage() >= JOB_ENDING;
}

bool JobTable::Shuns(uint32_t worker, const std::string& job) const {
  return std::ranges::any_of(active_, [&](const JobRecord* active) {
    const bool its_own = active->joined() ? active->id() == job : job.empty();
    return its_own ? active->excluded(worker) : active->ledger()->Find(worker) != nullptr;
  });
}

absl::Status SessionClosed(const SessionKey& session) {
  return absl::FailedPreconditionError(absl::StrCat("session ", session.job(), "/worker/",
                                                    session.worker(), "#", session.incarnation(),
                                                    " is not open: join again"));
}

}  // namespace monsoon
