// ChunkPlan: how a batch is cut into contributions (Dean et al. 2012, section
// 4.2: chunks "much smaller than 1/Nth of the total size of the batch").
//
// A contribution is a run of `chunks_per_contribution` chunks of
// `chunk_examples` samples each: contribution i is the positions
// [i * e, min((i + 1) * e, examples)) of the batch, e = contribution_examples().
// Only the last one may be shorter.
//
// A value. Safe to share between threads once made.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "common/config/job_limits.h"

namespace monsoon {

// Contributions per replica where the job does not say: the last ones to end
// keep the others waiting for at most about 1/50 of an evaluation.
inline constexpr uint64_t kContributionsPerReplica = 50;

struct ChunkPlanOptions {
  uint64_t examples = 0;  // of the batch, > 0
  // Samples of a chunk, > 0.
  uint64_t chunk_examples = 0;
  // 0: as many as give each replica about kContributionsPerReplica
  // contributions, at least 1.
  uint32_t chunks_per_contribution = 0;
  uint32_t replicas = 1;  // > 0
};

class ChunkPlan {
 public:
  struct Piece {
    uint64_t first = 0;     // position in the batch
    uint32_t examples = 0;  // > 0
  };

  // An empty plan: no contributions.
  ChunkPlan() = default;

  // INVALID_ARGUMENT, naming the field and a value that fits, when the options
  // give more than kMaxContributions or a contribution of 2^32 samples.
  static absl::StatusOr<ChunkPlan> Make(const ChunkPlanOptions& options);

  uint64_t examples() const { return examples_; }
  uint32_t contributions() const { return contributions_; }
  uint32_t chunks_per_contribution() const { return chunks_per_contribution_; }
  uint64_t contribution_examples() const { return contribution_examples_; }
  // `contribution` < contributions().
  Piece piece(uint32_t contribution) const;

 private:
  uint64_t examples_ = 0;
  uint32_t contributions_ = 0;
  uint32_t chunks_per_contribution_ = 0;
  uint64_t contribution_examples_ = 0;
};

}  // namespace monsoon
