#include "worker/backend/cuda/kernels/attention_kernels.h"

#include "worker/backend/cuda/kernels/launch.h"

namespace monsoon::cuda {

void MoveToHeads(Stream& stream, const SplitHeads& op, uint64_t count) {
  ForEach(stream, "split heads", count, op);
}

void MoveFromHeads(Stream& stream, const JoinHeads& op, uint64_t count) {
  ForEach(stream, "join heads", count, op);
}

void SoftmaxOfSeen(Stream& stream, const SeenSteps& seen, float scale, float* scores,
                   float* scratch, uint64_t rows) {
  float* const largest = scratch;
  float* const sums = scratch + rows;
  ReduceRows(stream, "largest score", rows, LargestScore{seen, scores, largest});
  ReduceRows(stream, "sums of scores", rows, ScoreSum{seen, scale, scores, largest, sums});
  ForEach(stream, "attention", rows * seen.steps.value(),
          ScoresToShares{seen, scale, largest, sums, scores});
}

void SoftmaxOfSeenGradient(Stream& stream, uint32_t steps, float scale, const float* shares,
                           float* diffs, float* scratch, uint64_t rows) {
  ReduceRows(stream, "attention sums", rows, ShareDiffMean{steps, shares, diffs, scratch});
  ForEach(stream, "attention gradient", rows * steps,
          ShareDiffsToScores{Divisor(steps), scale, shares, scratch, diffs});
}

}  // namespace monsoon::cuda
