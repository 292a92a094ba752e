// What a training step tells besides its gradient.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/time/time.h"
#include "common/model/tensor_slices.h"

namespace monsoon {

struct StepResult {
  double loss_mean = 0;  // over the batch; may be non-finite, the caller judges
  // Samples whose largest output is their label's; of sequences the sum of the samples' shares of
  // such steps.
  double correct = 0;
  uint64_t examples = 0;
  // Of a network that takes several before it tells of them (worker/sidecar); 0: there was
  // nothing to compute, and the gradient counts nothing.
  uint64_t steps = 1;
  // False: the loss is not known.
  bool has_loss = true;
  // Of the examples: nobody has said whether they are right; correct is of the others.
  uint64_t unjudged = 0;
  // What computing took, without waits for others. Zero: the network does not tell, and
  // ReplicaGroup does.
  absl::Duration computing;
  // Tensors that have no gradient in this step, as torch's grad is None, rising: the gradient is
  // zero there, and where no step of a push has one, the shards leave them alone.
  std::vector<TensorSlice> absent = {};

  // Share of right ones, in [0, 1]; nothing where that is not known.
  std::optional<double> accuracy() const {
    if (examples <= unjudged) {
      return std::nullopt;
    }
    return correct / static_cast<double>(examples - unjudged);
  }
};

}  // namespace monsoon
