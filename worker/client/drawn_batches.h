// DrawnBatches: what a replica has at hand of its job's samples: batches that the sidecar has
// brought, those that the program has drawn, and the steps that count them. Steps and batches are
// uncounted until the answer to an exchange counts them.
//
// Thread safety: none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "worker/client/exchange.h"
#include "worker/client/monsoon.h"

namespace monsoon {

class DrawnBatches {
 public:
  // Takes the batches of an answer, as they stand in it.
  void ReadLeased(FieldReader* fields);
  // Gives the next one to the program; false: there is none.
  bool Give(monsoon_batch* batch);
  bool has_leased() const { return !leased_.empty(); }

  // Batches that are drawn and that no step has counted.
  size_t unstepped() const { return given_sizes_.size(); }
  // The step counts batches of those.
  void CountStep(const monsoon_step_info& step);
  // Since the last exchange.
  uint64_t uncounted_steps() const { return uncounted_.steps; }
  void WriteUncounted(FieldWriter* fields) const;
  // The exchange was answered, and nothing of it was discarded.
  void TakeCounted();
  // All of this is nobody's any more: the session is lost, or its samples are over.
  void Forget();

  // That were counted.
  uint64_t steps() const { return steps_; }
  uint64_t examples() const { return examples_; }

 private:
  struct Batch {
    uint32_t epoch = 0;
    std::vector<uint32_t> samples;
  };
  // Of steps since the last exchange.
  struct Uncounted {
    uint64_t steps = 0;
    uint64_t examples = 0;
    uint32_t batches = 0;
    double loss_sum = 0;
    uint64_t loss_steps = 0;
    uint64_t judged = 0;  // of the examples: `correct` is of them
    uint64_t correct = 0;
  };

  std::deque<Batch> leased_;        // not given to the program yet
  Batch given_;                     // whose memory the program reads
  std::deque<size_t> given_sizes_;  // of batches that no step has counted
  Uncounted uncounted_;
  uint64_t steps_ = 0;
  uint64_t examples_ = 0;
};

}  // namespace monsoon
