// VectorShards: one vector operation on all shards of a job at once (Dean et
// al. 2012, section 4.2: the coordinator issues commands, each shard executes
// them by itself). It numbers the operations, so that a repeated one is not
// done twice, and never carries a vector.
//
// Thread safety: one caller at a time; statistics() may be called beside it.
// A call blocks until every shard has answered: a shard that cannot be reached
// is asked again until `stopped` says so, since whether it is dead is for
// membership to say.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/parameter_server.pb.h"

namespace monsoon {

class VectorShards {
 public:
  // One shard's call: ShardGateway::Vector.
  using Call = std::function<absl::StatusOr<VectorReply>(const VectorRequest&)>;

  struct Options {
    std::string job;
    uint64_t job_term = 0;               // in which it was submitted
    uint64_t term = 0;                   // the coordinator's
    uint64_t attempt = 0;                // of the job's slices
    std::vector<uint64_t> shard_epochs;  // one a shard
    std::vector<Call> calls;             // one a shard
    std::function<bool()> stopped;       // asked between repetitions
  };

  explicit VectorShards(Options options) : options_(std::move(options)) {}

  // Gives `request` (its op, what it frees and what comes before) to every shard;
  // their replies in shard order. CANCELLED when stopped; other errors name the shard, the
  // first shard's first. After an error the object must not be used again:
  // shards may differ in what they have done.
  absl::StatusOr<std::vector<VectorReply>> Run(VectorRequest request);

  size_t size() const { return options_.calls.size(); }

  struct Statistics {
    uint64_t rounds = 0;    // calls of Run
    uint64_t commands = 0;  // messages to shards
    uint64_t bytes = 0;     // of these, serialised
    uint64_t largest = 0;   // bytes of the largest
  };
  Statistics statistics() const;

 private:
  absl::StatusOr<VectorReply> RunOn(size_t shard, VectorRequest request);

  const Options options_;
  uint64_t op_id_ = 0;
  std::atomic<uint64_t> commands_{0};
  std::atomic<uint64_t> bytes_{0};
  std::atomic<uint64_t> largest_{0};
  std::atomic<uint64_t> rounds_{0};
};

}  // namespace monsoon
