// SynchronousJob: what each replica of a job that trains synchronously does next. All replicas are
// members of one group, which has a generation; the coordinator names its members, and leases it
// steps, a batch of the job's order (BatchOrder) for each replica of a step. What a step takes, the
// members sum among themselves (worker/synchronous).
//
//   kIdle -> kRunning -> kDraining -> kFinalEvaluation -> kLeaving -> kDone
//
// A group ends when a replica comes or goes: no more is leased then, or its members find out by
// themselves that one is missing. Each asks once it rests, with how far its state has come; when
// all have, the next generation begins. All go on from the furthest state: whoever has it took the
// step with everybody's gradients, and a step that nobody had whole is taken again by those who are
// left. So nobody votes, and nothing counts twice. A step is *done* when every member has it; what
// is told to people and to generations is what is done.
//
// The shards store: now and then a member writes its state to them (StoreOrders). Where all
// members are gone, the next group goes on from that.
//
// kDraining: all steps are done, and the last state is being written.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "coordinator/job/batch_order.h"
#include "coordinator/job/job_record.h"
#include "coordinator/job/procedure_base.h"
#include "coordinator/job/stored_parameters.h"
#include "coordinator/state/state_writer.h"
#include "coordinator/synchronous/group_members.h"
#include "coordinator/synchronous/lease_length.h"
#include "coordinator/synchronous/state_store.h"
#include "coordinator/synchronous/synchronous_options.h"
#include "proto/checkpoint.pb.h"
#include "proto/coordinator.pb.h"

namespace monsoon {

class SynchronousJob : public ProcedureBase {
 public:
  // `writer`'s job has begun SYNCHRONOUS with options.resumed, and has come as far as its state
  // says.
  SynchronousJob(const SynchronousOptions& options, const JobWriter& writer);

  Procedure kind() const override { return SYNCHRONOUS; }
  bool pushes() const override { return true; }
  const char* work_name() const override { return "batches"; }

  void AddReplica(uint32_t worker, absl::Duration now) override;
  uint64_t RemoveReplica(uint32_t worker, absl::Duration now) override;
  bool WorkIsNear(uint32_t) const override { return false; }
  absl::Status ReportEvaluation(uint32_t worker, const ReportEvaluationRequest& request,
                                absl::Duration now) override;

  uint64_t work_done_by(uint32_t) const override { return 0; }
  uint64_t examples_done() const override { return order_.ExamplesOf(state().done().batches()); }
  double epoch() const override { return order_.EpochOf(state().done().batches()); }
  double planned_epochs() const override;
  std::optional<uint64_t> planned_examples() const override;
  double fraction(absl::Duration now) const override;
  void Describe(JobDescription* description) const override;

  StoredParameters* stored() override { return &store_; }

 private:
  absl::Status TakeReport(uint32_t worker, const NextWorkRequest& request,
                          absl::Duration now) override;
  void Decide(uint32_t worker, absl::Duration now, NextWorkReply* reply) override;
  void Advance(absl::Duration now) override;
  bool Works(uint32_t worker) const override;
  uint64_t steps_done() const override { return state().done().batches(); }

  // What is known of the end of a group that ended before its lease.
  struct Breakage {
    absl::Duration since;  // known
    std::string why;
    bool gone = false;      // a member is
    absl::Duration waited;  // by then, of members
  };

  // ---- what was told ----
  void NoteDone(const SynchronousPosition& done);
  // The group has ended before its lease: `why`, for people.
  void NoteBroken(const std::string& why, bool in_step, absl::Duration now);

  // ---- groups ----
  // A member is gone, or has found another one missing.
  bool IsBroken() const;
  // The members of a group that goes on are at one step, with nothing to do.
  bool AllStand() const;
  bool MayForm(absl::Duration now) const;
  void Form(absl::Duration now);
  // False: there is nothing for the replica now.
  bool Train(uint32_t worker, absl::Duration now, NextWorkReply* reply);

  // ---- leases ----
  // Where no lease goes beyond, in batches.
  uint64_t Limit() const;
  // The end of a lease of so many steps of the group from `from` on.
  uint64_t LeaseEnd(uint64_t from, uint64_t steps) const;
  bool Extend(absl::Duration now);
  // The group has come to where no lease goes beyond.
  bool AtLimit() const;

  void Stop(const std::string& why);
  const SynchronousState& state() const { return job_.job().synchronous(); }
  const SynchronousGroup& group() const { return state().group(); }

  const SynchronousOptions options_;
  const BatchOrder order_;
  const std::optional<uint64_t> end_;  // of the plan, in batches; nothing: none
  GroupMembers members_;
  StateStore store_;
  LeaseLength lengths_;
  absl::Duration patience_;
  // The first group waits for those who are expected, so long.
  absl::Duration gather_until_;
  std::optional<Breakage> breakage_;
};

// The job, JOB_ACTIVE, begins to train so.
void BeginSynchronous(const SynchronousOptions& options, JobRecord* job);
// It goes on with what it has begun, in an earlier life of the coordinator.
void ContinueSynchronous(const SynchronousOptions& options, JobRecord* job);

}  // namespace monsoon
