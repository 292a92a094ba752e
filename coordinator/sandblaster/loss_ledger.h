// LossLedger: the sum of one evaluation's losses. Each contribution counts
// once, and the sum has the same bits in whatever order the results arrive:
// it is taken in double, in order of the contribution id.
//
// A pure state machine. Not thread safe.
#pragma once

#include <cstdint>
#include <vector>

namespace monsoon {

struct ContributionLoss {
  double loss_sum = 0;  // over its samples
  uint64_t examples = 0;
  double correct = 0;
  bool finite = true;  // loss and gradient
};

class LossLedger {
 public:
  // Forgets everything; contributions 0 .. `contributions` - 1 are awaited.
  void Begin(uint32_t contributions);

  // False, and no change, when `contribution` was counted before. `loss` is not
  // finite when it says so or its loss_sum is not.
  bool Add(uint32_t contribution, const ContributionLoss& loss);

  uint32_t counted() const { return counted_; }
  bool complete() const { return counted_ == entries_.size(); }
  // No contribution that was counted is not finite.
  bool finite() const { return finite_; }

  // Of what was counted. loss_sum is +infinity unless finite().
  ContributionLoss Total() const;

 private:
  struct Entry {
    bool counted = false;
    ContributionLoss loss;
  };

  std::vector<Entry> entries_;
  uint32_t counted_ = 0;
  bool finite_ = true;
};

}  // namespace monsoon
