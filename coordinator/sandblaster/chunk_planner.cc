#include "coordinator/sandblaster/chunk_planner.h"

#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"

namespace monsoon {
namespace {

constexpr uint64_t kMaxContributionExamples = std::numeric_limits<uint32_t>::max();

// Without the overflow of (a + b - 1).
uint64_t CeilDivide(uint64_t a, uint64_t b) { return a / b + (a % b != 0 ? 1 : 0); }

}  // namespace

absl::StatusOr<ChunkPlan> ChunkPlan::Make(const ChunkPlanOptions& options) {
  if (options.examples == 0 || options.chunk_examples == 0 || options.replicas == 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a batch of ", options.examples, " samples in chunks of ", options.chunk_examples, " for ",
        options.replicas, " replicas cannot be cut: each must be at least 1"));
  }
  const uint64_t chunks = CeilDivide(options.examples, options.chunk_examples);
  const uint64_t least = CeilDivide(chunks, kMaxContributions);
  uint64_t per_contribution = options.chunks_per_contribution;
  if (per_contribution == 0) {
    per_contribution = std::max(least, chunks / (kContributionsPerReplica * options.replicas));
    per_contribution = std::max<uint64_t>(per_contribution, 1);
  } else if (per_contribution < least) {
    return absl::InvalidArgumentError(absl::StrCat(
        "chunks_per_contribution: ", per_contribution, " cuts ", chunks, " chunks into ",
        CeilDivide(chunks, per_contribution), " contributions; at most ", kMaxContributions,
        " are possible: set at least ", least, ", or leave it out"));
  }
  // Longer than the batch makes no difference.
  per_contribution = std::min(per_contribution, chunks);
  if (per_contribution > kMaxContributionExamples / options.chunk_examples) {
    return absl::InvalidArgumentError(
        absl::StrCat("chunk_examples: ", options.chunk_examples,
                     " times chunks_per_contribution: ", per_contribution, " is more than ",
                     kMaxContributionExamples, " samples in a contribution: set smaller chunks"));
  }
  ChunkPlan plan;
  plan.examples_ = options.examples;
  plan.chunks_per_contribution_ = static_cast<uint32_t>(per_contribution);
  plan.contribution_examples_ = per_contribution * options.chunk_examples;
  plan.contributions_ =
      static_cast<uint32_t>(CeilDivide(options.examples, plan.contribution_examples_));
  CHECK_LE(plan.contributions_, kMaxContributions);
  return plan;
}

ChunkPlan::Piece ChunkPlan::piece(uint32_t contribution) const {
  CHECK_LT(contribution, contributions_);
  const uint64_t first = contribution * contribution_examples_;
  return {first, static_cast<uint32_t>(std::min(contribution_examples_, examples_ - first))};
}

}  // namespace monsoon
