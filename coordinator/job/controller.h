// Controller: looks after one thing that jobs need of the cluster. It reads jobs and the
// registry, makes updates of what is durable, keeps what is not, and says what shards are to do.
//
// The coordinator asks all of them in one order, which is law: what stands earlier has been done
// for a job before what stands later looks at it (CoordinatorCore has the list, and why).
//
// Pure: time is an argument. Not thread safe.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "coordinator/job/job_record.h"
#include "coordinator/job/job_table.h"
#include "coordinator/job/job_view.h"
#include "coordinator/job/registry.h"
#include "coordinator/session/membership.h"
#include "coordinator/shards/shard_command.h"
#include "coordinator/shards/shard_monitor.h"
#include "proto/cluster.pb.h"

namespace monsoon {

class Controller {
 public:
  virtual ~Controller() = default;
  Controller(const Controller&) = delete;
  Controller& operator=(const Controller&) = delete;

  // Brings the job, which is active or ending, as far as may be now. False: for now it goes no
  // further, and nothing that stands later in the order is done for it.
  virtual bool Advance(JobRecord*, absl::Duration) { return true; }
  // Adds what shards are to do now, for all jobs; each command is answered.
  virtual void TakeCommands(absl::Duration, std::vector<ShardCommand>*) {}
  // What came of a command of this controller; the job is there still.
  virtual void OnAnswer(JobRecord*, const ShardCommand&, const ShardAnswer&, absl::Duration) {}
  // A shard was started anew, as `text` tells people, and the job gets its slice back there.
  virtual void OnShardRestarted(JobRecord*, const ShardChange&, const std::string& /*text*/,
                                absl::Duration) {}
  // Why the job, which has not ended, waits; "": not for anything of this controller. The
  // first in the order that is not empty is what people see.
  virtual std::string WaitsFor(const JobRecord&, Moment) const { return ""; }
  // Goes on with a job where an earlier life of the coordinator ended.
  virtual void Recover(JobRecord*, absl::Duration) {}

 protected:
  // What is shared outlives this.
  explicit Controller(Registry* registry)
      : registry_(registry),
        cluster_(registry->cluster),
        membership_(registry->membership),
        shards_(registry->shards),
        jobs_(registry->jobs) {}

  JobView View(const JobRecord& job) const { return JobView(job, shards_); }
  void Log(std::string line) const { registry_->Log(std::move(line)); }
  uint64_t term() const { return registry_->term(); }
  // For the shard's present life; what its request says is the caller's.
  ShardCommand CommandFor(const JobRecord& job, uint32_t shard, ShardCommand::Kind kind) const {
    ShardCommand command;
    command.kind = kind;
    command.shard = shard;
    command.job = job.id();
    command.job_term = job.state().term();
    command.shard_epoch = shards_.shard(shard).status.shard_epoch();
    return command;
  }
  // Of which job a request is, and of which life of the coordinator.
  template <typename Request>
  void SetJob(const JobRecord& job, Request* request) const {
    request->set_job(job.id());
    request->set_job_term(job.state().term());
    request->set_term(term());
  }

  Registry* const registry_;
  // Its parts.
  const Cluster& cluster_;
  Membership& membership_;
  ShardMonitor& shards_;
  JobTable& jobs_;
};

}  // namespace monsoon
