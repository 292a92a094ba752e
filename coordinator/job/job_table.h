// JobTable: the jobs of one coordinator, oldest first, and their names. Also
// the admission: what all slices on a shard take must fit its memory limit.
//
// Not thread safe. Records keep their addresses until removed.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "coordinator/job/job_record.h"
#include "coordinator/state/state_writer.h"
#include "proto/checkpoint.pb.h"
#include "proto/cluster.pb.h"
#include "proto/tensor.pb.h"

namespace monsoon {

// Of all jobs in the list, ended ones too: each stays in memory and in the journal until it is
// deleted.
inline constexpr size_t kMostJobs = 10000;
inline constexpr uint64_t kMostJobsBytes = uint64_t{64} << 20;  // of their settings
// That one member may have in the list, however many others have some.
inline constexpr size_t kLeastJobs = 100;
inline constexpr uint64_t kLeastJobsBytes = uint64_t{4} << 20;

class JobTable {
 public:
  // The jobs' durable state is `writer`'s, which outlives this; those that are in it are
  // here from the beginning.
  explicit JobTable(StateWriter* writer);

  // RESOURCE_EXHAUSTED where the list is full (kMostJobs, kMostJobsBytes), or the share of the
  // member `by` (QuotaName, common/security/caller.h) of it, or with the sum when the plan does not
  // fit a shard beside the jobs that are there. `told` is by shard what it said that all jobs may
  // take, where that may be less than the cluster file says; 0, or none: it has said nothing.
  absl::Status Admit(const JobPlan& plan, const Cluster& cluster, const std::string& by,
                     const std::vector<uint64_t>& told = {}) const;

  // What a client submits besides the plan.
  struct Submission {
    std::string client_id;  // drawn by the client; "": none
    std::string by;         // whose share of the list it takes, as in Admit
    bool init = false;      // the client writes the parameters
    std::optional<ResumePoint> resume;
    bool resume_held = false;  // the shards hold what is resumed
    // What workers have found in its data files, for people; "": there are none, or they were not
    // looked at.
    std::string data_seen;
    int64_t unix_ms = 0;
  };
  // The id is NAME-N with N counting all jobs of the cluster's life. Ids in
  // `taken` (slices that an earlier coordinator left) are passed over.
  JobRecord* Add(const JobPlan& plan, const Submission& submission,
                 const std::set<std::string>& taken);
  // The job that was submitted under this id, not ""; null when there is none.
  JobRecord* FindClient(const std::string& client_id) const;

  // "latest" is the newest job. NOT_FOUND names the job and how to list them.
  absl::StatusOr<JobRecord*> Find(const std::string& id) const;
  // Null when there is none.
  JobRecord* Lookup(const std::string& id) const;

  // The oldest job of the queue that could run now; null when there is none.
  JobRecord* NextToRun() const;
  // The job is being deleted. By value: the id may be the record's own.
  void Remove(std::string id);

  const std::vector<std::unique_ptr<JobRecord>>& jobs() const { return jobs_; }

  // ---- jobs that have replicas, or could ----
  // JOB_ACTIVE or JOB_ENDING; one of the queue at most.
  const std::vector<JobRecord*>& active() const { return active_; }
  void BeginActive(JobRecord* job) { active_.push_back(job); }
  void NoLongerActive(const JobRecord* job) { std::erase(active_, job); }
  // Of the queue for the cluster's workers, which is active; null: none.
  JobRecord* ActiveOfQueue() const;
  // The active job in which the worker has a session, be it closing; null: none.
  JobRecord* JobOfWorker(uint32_t worker) const;
  // The active or ending job if `session` is one of its sessions; else null.
  JobRecord* JobOfSession(const SessionKey& session) const;
  // The same where the session is open; FAILED_PRECONDITION says that it is not.
  absl::StatusOr<JobRecord*> JobOfOpenSession(const SessionKey& session) const;
  // The session's job is ending, or has ended.
  bool IsOver(const SessionKey& session) const;
  // A guest that enters `job`, or "", is not to get this number.
  bool Shuns(uint32_t worker, const std::string& job) const;

 private:
  absl::Status CheckListed(const Job& job, const std::string& by) const;
  // That the member's share has room for another one of this size. `listed` has the size of each
  // that is there, `taken` their sum.
  absl::Status CheckShare(const std::string& by, uint64_t size, const std::vector<uint64_t>& listed,
                          uint64_t taken) const;

  StateWriter* const writer_;
  std::vector<std::unique_ptr<JobRecord>> jobs_;
  std::vector<JobRecord*> active_;
};

// What whoever names a session that is not open is told.
absl::Status SessionClosed(const SessionKey& session);

}  // namespace monsoon
