// Entering: programs that enter a joined job: which job that is, who of them writes its initial
// parameters, and what they are told when it has ended.
//
// Whoever asks first is told to write, as writer 1, and has that part as long as it asks often
// enough and reaches all shards; after that the next one that asks is writer 2. The numbers are
// durable before they are told; that a writer is silent, or cut off from a shard, is found out anew
// by each life.
#pragma once

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "coordinator/job/controller.h"
#include "coordinator/job/job_plan.h"
#include "proto/coordinator.pb.h"

namespace monsoon {

// FAILED_PRECONDITION, with both versions, unless the program speaks as this coordinator.
absl::Status CheckProgram(const EnterRequest& request);

// Of a joined job that lacks a program.
std::string ProgramReason(const JobRecord& job);
// Where the job's slices are.
JobLocation LocationOf(const JobRecord& job, const Cluster& cluster);

class Entering : public Controller {
 public:
  explicit Entering(Registry* registry) : Controller(registry) {}

  // Of a program that comes back to a job that has ended meanwhile: that. Else nothing.
  std::optional<EnterReply> EndOfEntered(const EnterRequest& request) const;
  // The job that the program enters, made if there is none; its settings are the program's, and it
  // is of the member `by` (JobTable::Admit).
  absl::StatusOr<JobRecord*> FindOrMakeJob(const EnterRequest& request, const JobPlan& plan,
                                           const std::string& by, Moment moment);
  // The job waits for its initial parameters, and its newest writer says that it has sealed
  // them: they are there from now on.
  bool TakeSeal(const EnterRequest& request, JobRecord* job);
  // The same of what nobody has sealed yet: who writes.
  void FindPart(const EnterRequest& request, JobRecord* job, Moment moment, EnterReply* reply);
  // What every program of the job is told.
  EnterReply Greet(const JobRecord& job) const;
  // The rest: whether it is to train, or why not. An error for a job that has ended.
  absl::StatusOr<EnterReply> Admit(const EnterRequest& request, const JobRecord& job,
                                   EnterReply reply) const;
  // The job that the guest has entered is there; or it has entered none.
  bool Knows(const HeartbeatRequest& request) const;
  // False: the guest's job has ended or is gone, which `reply` says. It also says where that needs
  // its initial parameters once more.
  bool TellOfJob(const HeartbeatRequest& request, HeartbeatReply* reply) const;
  // The writer of initial parameters may have become silent.
  void WatchWriter(JobRecord* job, absl::Duration now);

  // For a program that writes the initial parameters, or is to.
  std::string WaitsFor(const JobRecord& job, Moment moment) const override;
  void Recover(JobRecord* job, absl::Duration now) override;

 private:
  // Null: a new one is to be made.
  absl::StatusOr<JobRecord*> JobToEnter(const EnterRequest& request) const;
  absl::StatusOr<JobRecord*> MakeJobToEnter(const EnterRequest& request, const JobPlan& plan,
                                            const std::string& by, Moment moment);
  // What its writer says with it.
  void HearWriter(const EnterRequest& request, JobRecord* job, absl::Duration now) const;
  // It has not reached a shard for so long that another program may write in its place.
  bool WriterIsCut(const JobRecord& job, absl::Duration now) const;
  void ChooseWriter(const EnterRequest& request, JobRecord* job, absl::Duration now);
  // Who writes the joined job's initial parameters, and since when.
  std::string WriterReason(const JobRecord& job, absl::Duration now) const;
};

}  // namespace monsoon
