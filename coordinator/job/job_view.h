// JobView: what holds of a job now, as its state and the shards are: each condition once, in one
// sentence. Controllers decide by them, and people are told of them.
//
// A value that refers to the job and the shards; not kept.
#pragma once

#include <cstdint>
#include <string>

#include "coordinator/job/job_record.h"
#include "coordinator/shards/shard_command.h"
#include "coordinator/shards/shard_monitor.h"
#include "proto/job.pb.h"

namespace monsoon {

// "": all shards keep state. Else which ones do not.
std::string KeepNothing(const ShardMonitor& shards);

class JobView {
 public:
  JobView(const JobRecord& job, const ShardMonitor& shards) : job_(job), shards_(shards) {}

  // ---- what it is kept on ----
  // Checkpoints of the job are made.
  bool IsDurable() const;
  // Slices are there, with parameters that somebody may want.
  bool HasParameters() const;
  // Pushes change the parameters, and nothing but pushes.
  bool IsPushedTo() const;
  // No session is open, nor will one be.
  bool SessionsAreClosed() const;
  // By what its best generation is kept; a job that makes none keeps none.
  TestMetric BestMetric() const;

  // ---- what it waits for ----
  // A shard that dies gets the job's slice back from its disk, so the job waits for it. A
  // job that trains needs no generation yet: its workers send again what is missing.
  bool IsRestorable() const;
  // The shard was started anew, and has no slice of the restorable job yet.
  bool AwaitsRestore(uint32_t shard) const;
  // Some shard does not answer, or has no slice of the restorable job yet.
  bool AwaitsShard() const;
  // Programs wrote the joined job's parameters, and no generation holds them: a shard that
  // dies takes them along, and programs that train do not write them again. So none does yet.
  bool AwaitsFirstGeneration() const;
  // All is trained, and what is to be tested is not on the disks yet.
  bool WaitsForTestGeneration() const;
  // All replicas were told to finish, or to go on to the second part of a chain; until what
  // they have pushed is on the disk of all shards they keep it, to send it again.
  bool WaitsForLeaving() const;
  // All sessions of the ending job are closed, and its last generation is not held.
  bool WaitsForLastCheckpoint() const;
  // The batch stands still until a generation is on the disks.
  bool BatchWaitsForDisk() const;
  // It goes on, in one way or another, when a generation is on the disks.
  bool WaitsForGeneration() const;

  // ---- batches ----
  // A generation is held that the batch can go on from.
  bool CanReturn() const;
  // How to go on with a job that has lost slices; "": that is not known here.
  std::string ResumeHint() const;

  // `answer`, unless it only says that the shard has no slice of the job, as one that was
  // started anew a moment ago: that it could not be reached, then.
  ShardAnswer Excused(const ShardCommand& command, const ShardAnswer& answer) const;

 private:
  const JobRecord& job_;
  const ShardMonitor& shards_;
};

}  // namespace monsoon
