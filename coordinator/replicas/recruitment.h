// Recruitment: who may take part in a job, who gets a session, and what becomes of a job that
// nobody trains.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "coordinator/job/controller.h"

namespace monsoon {

// For people: where the worker listens, or whose machine it is on.
std::string AddressOf(const Registry& registry, uint32_t worker);

class Recruitment : public Controller {
 public:
  explicit Recruitment(Registry* registry) : Controller(registry) {}

  // Opens sessions, and fails a job that has begun to train and has had no worker for too long.
  bool Advance(JobRecord* job, absl::Duration now) override;
  // Of an active job without a replica.
  std::string WaitsFor(const JobRecord& job, Moment moment) const override;

 private:
  // Any number of workers that the cluster file does not list may take part.
  bool AdmitsGuests(const JobRecord& job) const;
  // Who may have a session, rising: of a joined job those that have entered it, else the
  // first of the others. The cluster file may have fewer by now.
  std::vector<uint32_t> WorkersOf(const JobRecord& job) const;
  void OpenSessions(JobRecord* job, absl::Duration now);
  void AwaitReplica(JobRecord* job, absl::Duration now);
  std::string ReplicaReason(const JobRecord& job, absl::Duration now) const;
  std::string NoWorkerFor(const JobRecord& job, absl::Duration now) const;
  std::string AbsentWorkers(const JobRecord& job, absl::Duration now) const;
  absl::Duration worker_wait() const { return absl::Milliseconds(cluster_.worker_wait_ms()); }
};

}  // namespace monsoon
