// Round: the differences that a stripe takes together (downpour.proto, Rounds): synchronous DiLoCo
// (Douillard et al. 2023, arXiv 2311.08105) where all learners are waited for, Decoupled DiLoCo
// (arXiv 2604.21428) with a quorum and a grace.
//
// With the differences g_i of weights w_i its mean is sum(w_i g_i) / sum(w_i). Each float32
// product w_i g_i becomes an integer number of quanta (ps_server/vector/fixed_point.h), so
// that the mean has the same bits in whatever order they came, and however the model is cut
// into shards. A line's quantum follows from the stripe's parameters, which stand still
// while a round is open: 2^(m - 40), 2^m being the power of two at or above max(1, the line's
// largest |parameter|). So values of up to 2^(m + 10) fit; others are refused.
//
// A learner is a worker, whatever its incarnation. What it adds a second time counts with
// both weights.
//
// Thread safety: none; the stripe's lock is held.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "proto/shard_checkpoint.pb.h"
#include "ps_server/shard/session_table.h"

namespace monsoon {

class Rounds;

// Of a job with rounds.
struct RoundRule {
  uint32_t quorum = 0;       // 0: all whose session is open
  float adaptive_share = 0;  // Rounds.adaptive_share; 0: the grace is always the same
  absl::Duration grace = absl::ZeroDuration();
  const Clock* clock = nullptr;

  static RoundRule From(const Rounds& rounds, const Clock* clock);
};

class Round {
 public:
  // Floats of state that a sum takes for each parameter.
  static constexpr size_t kSlots = 2;
  // More differences do not join one round: their sum could overflow.
  static constexpr uint64_t kMostPushes = 1 << 12;

  // `sum` has an integer for each of the stripe's floats, all 0, and outlives this.
  explicit Round(std::span<int64_t> sum) : sum_(sum) {}

  struct Member {
    uint64_t pushes = 0;
    double weight = 0;   // of all of them
    uint64_t first = 0;  // sequence of the first of them
    double whole = 0;    // sum of weight * part
  };

  struct Push {
    SessionId session;
    uint64_t sequence = 0;
    float weight = 1;         // above 0
    float damping = 1;        // of the difference, not of its weight
    float part = 1;           // as PushRequest.part
    absl::Duration patience;  // as PushRequest.patience_ms; zero: not known
    std::span<const float> difference;
  };
  // Adds weight * damping * difference. InvalidArgument, and nothing is added, where a product
  // is not finite or too large for its line of `parameters`; ResourceExhausted after
  // kMostPushes.
  absl::Status Add(const Push& push, std::span<const float> parameters, absl::Duration now,
                   const RoundRule& rule);

  bool empty() const { return members_.empty(); }
  const std::map<SessionId, Member>& members() const { return members_; }
  // The quorum is there, and its grace over: that of the rule, or less where one of the members
  // goes on only for so long (Decoupled DiLoCo's equation 3, with the time since its difference
  // came in the place of that of the quorum).
  bool HasQuorum(const RoundRule& rule, absl::Duration now);

  // The mean to `out`; the round is empty after it, for the next one to begin. Returns the mean
  // of the differences' parts, weighted alike.
  float Close(std::span<const float> parameters, std::span<float> out);

  // The sum as two words of 32 bits a parameter, sum_.size() floats each, for checkpoints:
  // parts hold floats in the order of the parameters.
  void Split(std::span<float> low, std::span<float> high) const;
  void AddMembersTo(StripeRecord* record) const;
  // The sum's memory holds what Split gave, low before high: makes it the sum again, of the
  // members that the record has. Its grace begins anew.
  void Restore(const StripeRecord& record);

 private:
  uint32_t Learners() const;

  const std::span<int64_t> sum_;
  std::map<SessionId, Member> members_;
  uint64_t pushes_ = 0;
  // The end of time: it is not there, or nobody awaits it.
  absl::Duration quorum_since_ = absl::InfiniteDuration();
  int64_t awaited_at_ns_ = INT64_MAX;  // by the first of the members
};

}  // namespace monsoon
