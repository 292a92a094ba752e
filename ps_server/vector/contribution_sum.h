// ContributionSum: the sum of the contributions to one evaluation over a slice,
// each counted exactly once, with the same bits in any order (fixed_point.h).
//
// Life of an evaluation: Open, Add for each (contribution, stripe), then
// CheckClose, Round for each stripe, Close. At most one is open; opening
// another abandons it. Each stripe keeps the set of contributions it has: the
// first wins. Contributions to an evaluation that is not open are refused.
//
// The quanta come from the largest |value| of each line in any contribution of
// the evaluation that was closed last, as a probe, with a sum or without one; an
// abandoned one leaves nothing. A line that was all zero in it keeps what it had
// before; one that always was gets the largest value of its stripe, or 1.
//
// An evaluation has no sum when a value did not fit its line's quantum, and when a
// line's values were so much smaller than expected that the quantum cut off digits
// of a float32: a sum of 0 would look like convergence. Both depend on all of its
// contributions and not on their order, so they are told at the close; the quanta
// of the next evaluation then fit.
//
// Thread safe: Add takes the lock of its stripe only. The other calls are made
// by one thread at a time. A complete evaluation does not change any more, since
// whatever still comes is a duplicate; so CheckClose's answer stands.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/mutex.h"
#include "proto/tensor.pb.h"

namespace monsoon {

class ContributionSum {
 public:
  static constexpr uint32_t kMostContributions = 1 << 20;
  // What a stripe takes beside what memory_bytes() says, at most.
  static constexpr size_t kStripeBytes = 448;

  // `floats` in stripes of `stripe_floats`, a multiple of 16; the last one may
  // be shorter. Takes no memory for sums before the first Open.
  ContributionSum(size_t floats, size_t stripe_floats);
  ~ContributionSum();

  // InvalidArgument for the number of contributions, FailedPrecondition for an
  // id that does not grow. Changes nothing.
  absl::Status CheckOpen(uint64_t evaluation, uint32_t contributions) const;
  // Bytes this holds after such an Open; what was taken before is kept.
  uint64_t MemoryAfterOpen(uint32_t contributions, bool probe) const;
  // CheckOpen was OK. A probe notes the largest values and sums nothing.
  void Open(uint64_t evaluation, uint32_t contributions, bool probe);

  // APPLIED, DUPLICATE, REFUSED_CLOSED, or REFUSED_REQUEST for an id beyond the
  // evaluation's contributions.
  struct Answer {
    Verdict verdict = APPLIED;
    std::string message;
  };
  // `values` has the stripe's length and is finite.
  Answer Add(uint64_t evaluation, uint32_t contribution, uint32_t stripe,
             std::span<const float> values);

  // Values may be smaller than expected by this power of two: those of up to 2^12
  // contributions still keep 27 bits, more than a float32 has.
  static constexpr int kMostFall = 12;

  enum class Outcome { kSum, kOverflow, kTooCoarse, kProbe };
  // FailedPrecondition when the evaluation is not open, or names the first
  // contribution that is missing and its stripe. Changes nothing.
  absl::StatusOr<Outcome> CheckClose(uint64_t evaluation) const;
  // After kSum: out = factor * sum + shift * shift_vector of one stripe, rounded
  // once; shift_vector may be empty.
  void Round(uint32_t stripe, double factor, double shift, std::span<const float> shift_vector,
             std::span<float> out) const;
  // After CheckClose was OK: refuses what still comes and keeps the maxima.
  void Close();
  // Refuses what still comes and forgets the evaluation.
  void Abandon();

  // Largest |value| of each line of a stripe that the quanta of the next evaluation come
  // from; empty before the first Open.
  std::vector<float> Maxima(uint32_t stripe) const;
  // Makes them `maxima`, one for each line, finite and at least 0, before the first
  // Open.
  void RestoreMaxima(uint32_t stripe, std::span<const float> maxima);
  size_t lines(uint32_t stripe) const;

  // The open evaluation, or 0.
  uint64_t open() const;
  uint64_t memory_bytes() const;

 private:
  struct Part;

  const size_t stripe_floats_;
  std::vector<std::unique_ptr<Part>> parts_;  // one a stripe, filled by the constructor

  // Taken before any lock of a part.
  mutable Mutex mutex_;
  uint64_t open_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t last_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace monsoon
