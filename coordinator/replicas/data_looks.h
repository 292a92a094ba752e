// DataLooks: has workers look at the data files of jobs, which are on their disks: the coordinator
// opens none. A submission waits for the answer some seconds, so that data which are not right are
// refused at once; a job that was made without one, since no worker was there, waits in the queue
// until somebody has looked, and fails by name where the data are not right.
//
// Questions travel with the answers to heartbeats, and answers with heartbeats. All of it is
// volatile but what a job's data came to: the next life of the coordinator asks again.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "absl/time/time.h"
#include "coordinator/job/controller.h"
#include "coordinator/job/job_plan.h"
#include "coordinator/replicas/data_look.h"
#include "proto/coordinator.pb.h"

namespace monsoon {

class DataLooks : public Controller {
 public:
  explicit DataLooks(Registry* registry) : Controller(registry) {}

  // ---- of a submission ----
  // Asks the workers that are there and may train the plan's job. The number of the question, for
  // the calls below; 0: no worker is there.
  uint64_t Ask(const JobPlan& plan, absl::Duration now);
  // Nothing: workers are still looking.
  std::optional<DataVerdict> Verdict(uint64_t number, absl::Duration now) const;
  // The answer was taken, or is not wanted any more.
  void End(uint64_t number) { looks_.erase(number); }
  // The submission became this job, which goes on waiting for the answer.
  void Adopt(uint64_t number, const std::string& job);

  // ---- with heartbeats ----
  void Hear(uint32_t worker, const HeartbeatRequest& request);
  void Tell(uint32_t worker, HeartbeatReply* reply) const;

  // Takes what is known by now, for all jobs that wait for it, and asks for the others.
  void AdvanceWaiting(absl::Duration now);
  std::string WaitsFor(const JobRecord& job, Moment moment) const override;

 private:
  struct Look {
    DataLook look;
    std::string job;  // "": of a submission
  };
  std::map<uint64_t, Look>::iterator FindLook(const std::string& job);
  // Of workers that are gone nothing is expected; what belongs to no job that waits is dropped.
  void Tidy();
  void Take(JobRecord* job, const DataVerdict& verdict, absl::Duration now);

  std::map<uint64_t, Look> looks_;  // by number
  uint64_t last_ = 0;               // of this term
};

}  // namespace monsoon
