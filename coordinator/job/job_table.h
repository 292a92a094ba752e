// JobTable: the jobs of one coordinator, oldest first, and their names. Also
// the admission: what all slices on a shard take must fit its memory limit.
//
// Not thread safe. Records keep their addresses until removed.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "coordinator/job/job_record.h"
#include "proto/cluster.pb.h"

namespace monsoon {

class JobTable {
 public:
  // RESOURCE_EXHAUSTED with the sum when the plan does not fit a shard beside
  // the jobs that are there.
  absl::Status Admit(const JobPlan& plan, const Cluster& cluster) const;

  // The id is NAME-N with N counting all jobs of the table's life. Ids in
  // `taken` (slices that an earlier coordinator left) are passed over.
  JobRecord* Add(JobPlan plan, const std::set<std::string>& taken);

  // "latest" is the newest job. NOT_FOUND names the job and how to list them.
  absl::StatusOr<JobRecord*> Find(const std::string& id) const;
  // Null when there is none.
  JobRecord* Lookup(const std::string& id) const;

  // The oldest job that could run now; null when there is none.
  JobRecord* NextToRun() const;
  // By value: the id may be the record's own.
  void Remove(std::string id);

  const std::vector<std::unique_ptr<JobRecord>>& jobs() const { return jobs_; }

 private:
  uint64_t count_ = 0;
  std::vector<std::unique_ptr<JobRecord>> jobs_;
};

}  // namespace monsoon
