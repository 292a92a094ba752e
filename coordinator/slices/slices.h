// Slices: the parts of jobs' parameter vectors on the shards: how they are made and freed, what
// polls say of them, and what becomes of a job that has lost one. A job that is kept on the disk
// gets its slice back instead (Restores).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "coordinator/job/controller.h"

namespace monsoon {

// How long the client of submit --init may take to write the parameters.
inline constexpr absl::Duration kInitTimeout = absl::Hours(1);

// Lives of a shard that may end while they make a job's slice, one after the other: a slice that
// is too large for the memory that is there has it killed each time. By chance, or by somebody
// who kills shards on purpose, it hardly happens so often; and `up` gives up after five deaths,
// with the whole cluster.
inline constexpr int kMostCreationDeaths = 3;

class Slices : public Controller {
 public:
  explicit Slices(Registry* registry) : Controller(registry) {}

  // What has become of a job's slice on a shard.
  enum class Loss { kUnreachable, kRestarted, kDeleted, kNotRestored };

  // ---- made and freed ----
  // Makes the slices of a job that could run, or begin to be written, once they are made.
  void AdvanceCreation(JobRecord* job, absl::Duration now);
  // Of a job whose client has not written the parameters for too long.
  void WatchClient(JobRecord* job, absl::Duration now);
  // A job whose slices are to be made from those of `job`, which must stay until then; null: none.
  const JobRecord* MadeFrom(const JobRecord& job) const;
  // The job, which has ended, is to go: frees its slices.
  void BeginDeletion(JobRecord* job, absl::Duration now);

  // ---- what polls say ----
  // Durable, so that the next life knows which shard has been started anew.
  void RememberShard(uint32_t shard);
  // What people see of each slice, and how far shards are apart.
  void RecordShards(uint64_t round);
  // Jobs whose slices `shard` should have, and has not.
  void FindMissingSlices(uint32_t shard, uint64_t round, absl::Duration now);
  // A shard was started anew, as `text` tells people, and the job does not get its slice back.
  // A job whose creation ends life after life of a shard fails.
  void OnFreshShard(JobRecord* job, const ShardChange& change, const std::string& text,
                    absl::Duration now);
  void LoseSlices(JobRecord* job, Loss loss, const std::string& reason, absl::Duration now);

  // A job that ends otherwise than well waits for no shard that is lost or has lost its slice.
  bool Advance(JobRecord* job, absl::Duration now) override;
  void TakeCommands(absl::Duration now, std::vector<ShardCommand>* commands) override;
  void OnAnswer(JobRecord* job, const ShardCommand& command, const ShardAnswer& answer,
                absl::Duration now) override;
  std::string WaitsFor(const JobRecord& job, Moment moment) const override;
  void Recover(JobRecord* job, absl::Duration now) override;

 private:
  // The job whose slices this one's are made from, as long as the shards hold them or get them
  // back; null: it has none.
  const JobRecord* HeldSource(const JobRecord& job) const;
  // A shard that was started anew is to get its slice of that back first.
  bool AwaitsSource(const JobRecord& job) const;
  void AbandonShards(JobRecord* job, absl::Duration now);
  // Counts a life of the shard that ended before it had made the job's slice; the job, once
  // there are too many, fails.
  void CountDeath(JobRecord* job, const ShardChange& change, const std::string& text,
                  absl::Duration now);
};

}  // namespace monsoon
