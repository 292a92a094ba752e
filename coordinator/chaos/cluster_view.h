// ClusterView: what the cluster's coordinator says of its tasks and of one job, and which
// tasks can be processes of this machine.
//
// Thread safety: a value.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "proto/coordinator.pb.h"

namespace monsoon {

struct TaskView {
  std::string name;  // "ps/0"
  // TaskStatus.state; a coordinator that answers is "UP".
  std::string state;
  uint32_t pid = 0;
  std::string address;
  // A worker that the cluster file does not list: nobody is known to start it again.
  bool guest = false;
  // Why its process is not one of this machine; "": it may be.
  std::string elsewhere;

  // A coordinator that was just started takes workers for UP that it has not heard yet,
  // and knows no pid of theirs.
  bool up() const { return state == "UP" && pid != 0; }
};

struct ClusterView {
  // When the coordinator was asked: what it says was so then, or later.
  absl::Duration asked_at;
  std::vector<TaskView> tasks;  // coordinator, parameter servers, workers
  JobDescription job;

  // Null when the cluster has no such task.
  const TaskView* Find(const std::string& task) const;
  uint64_t generation() const { return job.durability().generation(); }
  // In any way.
  bool job_has_ended() const;
  // Whether a parameter server that is UP has not shown its slice of the job since it was
  // started, or the coordinator does not know yet.
  bool job_is_restoring() const;
};

// `host` is this machine's name, `coordinator` the address in the cluster file. The job is
// asked for after the tasks: so a slice that it shows belongs to the process that they
// name, or to a later one.
ClusterView MakeClusterView(absl::Duration asked_at, const std::string& coordinator,
                            const std::string& host, const InfoReply& info, JobDescription job);

}  // namespace monsoon
