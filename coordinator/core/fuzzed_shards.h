// FuzzedShards: two shards that do as the coordinator of a FuzzedCoordinator tells them, or die.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "coordinator/core/core_fuzz_jobs.h"
#include "coordinator/core/fake_shard.h"
#include "coordinator/shards/shard_command.h"
#include "proto/parameter_server.pb.h"

namespace monsoon::testing {

class FuzzedShards {
 public:
  FuzzedShards() : shards_(kShards) {
    for (uint32_t i = 0; i < kShards; ++i) {
      shards_[i].pid = 100 + i;
      shards_[i].state_dir = absl::StrCat("/state/", i);
    }
  }

  absl::StatusOr<ShardStatusReply> StatusOf(uint32_t index) const {
    const FakeShard& shard = shards_[index];
    if (shard.silent) {
      return absl::DeadlineExceededError("no answer");
    }
    if (!shard.alive) {
      absl::Status refused = absl::UnavailableError("connection refused");
      MarkNobodyListens(&refused);
      return refused;
    }
    ShardStatusReply reply;
    reply.set_cluster("c");
    reply.set_task(index);
    reply.set_pid(shard.pid);
    reply.set_shard_epoch(shard.epoch);
    reply.set_term(shard.term);
    reply.set_state_dir(shard.state_dir);
    for (const auto& [job, written] : shard.jobs) {
      ShardJobStatus* const status = reply.add_job();
      status->set_job(job);
      status->set_job_term(job_terms_.at(job));
      status->set_stripes(2);
      status->set_version_min(shard.version);
      status->set_version_max(shard.version);
      const auto held = shard.generation.find(job);
      status->set_generation(held == shard.generation.end() ? 0 : held->second);
      const auto error = shard.checkpoint_error.find(job);
      status->set_checkpoint_error(error == shard.checkpoint_error.end() ? "" : error->second);
      const auto reduced = shard.reductions.find(job);
      status->set_rate_reductions(reduced == shard.reductions.end() ? 0 : reduced->second);
      shard.AddSettings(job, status);
    }
    return reply;
  }

  void Trouble(uint32_t index, int which) {
    FakeShard& shard = shards_[index];
    switch (which) {
      case 0:
        shard.Restart();
        break;
      case 1:
        shard.alive = false;
        break;
      case 2:
        shard.silent = !shard.silent;
        break;
      default:
        shard.disk_error = shard.disk_error.empty() ? "the disk is full" : "";
        break;
    }
  }

  ShardAnswer Execute(const ShardCommand& command) {
    FakeShard& shard = shards_[command.shard];
    if (const absl::Status reached = StatusOf(command.shard).status(); !reached.ok()) {
      return {.status = reached};
    }
    shard.term = std::max(shard.term, command.term);
    ShardAnswer answer{.shard_epoch = shard.epoch};
    switch (command.kind) {
      case ShardCommand::Kind::kCreateJob:
        shard.jobs[command.job] = command.create.written_by_client();
        shard.MadeWith(command.create);
        job_terms_[command.job] = command.job_term;
        break;
      case ShardCommand::Kind::kDeleteJob:
        shard.jobs.erase(command.job);
        break;
      case ShardCommand::Kind::kRestoreJob:
        answer.status = shard.Restore(command.restore);
        if (answer.status.ok()) {
          answer.restored = shard.restored;
        }
        break;
      case ShardCommand::Kind::kCheckpoint:
        if (shard.jobs.contains(command.job)) {
          shard.ordered[command.job] = command.checkpoint;
          shard.Write();
        } else {
          answer.status = absl::NotFoundError("no such job");
        }
        break;
      case ShardCommand::Kind::kReduceRate:
        shard.reductions[command.job] = command.reduce.reductions();
        break;
      case ShardCommand::Kind::kChangeSettings:
        answer.status = shard.Change(command.settings);
        answer.version = shard.told_version;
        break;
      case ShardCommand::Kind::kAdopt:
      case ShardCommand::Kind::kOpenSession:
      case ShardCommand::Kind::kCloseSession:
        break;
    }
    return answer;
  }

 private:
  std::vector<FakeShard> shards_;
  std::map<std::string, uint64_t> job_terms_;
};

}  // namespace monsoon::testing
