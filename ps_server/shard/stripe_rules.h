// StripeRules: the settings by which a stripe applies what is pushed to it, and those that take
// their place while it is in use (Shard::ChangeSettings).
//
// Thread safety: none; the stripe's lock is held.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "common/optimizer/optimizer.h"
#include "ps_server/shard/round.h"

namespace monsoon {

class StripeRules {
 public:
  static constexpr uint32_t kAnyStaleness = UINT32_MAX;

  // `kernel` outlives this. `rounds` is not looked at where a stripe has none.
  StripeRules(const OptimizerKernel* kernel, double damping, uint32_t most_stale,
              const RoundRule& rounds)
      : kernel_(kernel), damping_(damping), rounds_(rounds), most_stale_(most_stale) {}

  const OptimizerKernel& kernel() const { return *kernel_; }
  double damping() const { return damping_; }
  // A push whose base is more versions old is dropped.
  uint32_t most_stale() const { return most_stale_; }
  const RoundRule& rounds() const { return rounds_; }

  struct Change {
    std::shared_ptr<const OptimizerKernel> kernel;  // with as many slots of state
    double damping = 0.0;
    uint32_t most_stale = kAnyStaleness;
    RoundRule rounds;  // but for its clock
  };
  // The push, or round, that makes version `from` is the first by `change`, or the next one of a
  // stripe that is at `version`, if that is later: which it is. A change that was to come is
  // forgotten, and rounds are held no more.
  uint64_t Take(Change change, uint64_t from, uint64_t version);
  // The stripe has come to that version.
  void Reach(uint64_t version);

  // No round is to end before the next Take.
  void HoldRounds() { changing().rounds_are_held = true; }
  bool rounds_are_held() const { return changing_ != nullptr && changing_->rounds_are_held; }

 private:
  // Of a stripe whose settings change, or have changed: few have, and there are many stripes.
  struct Changing {
    std::shared_ptr<const OptimizerKernel> kernel;  // kernel_; null: that of the beginning
    std::optional<Change> next;
    uint64_t from = 0;  // of `next`
    bool rounds_are_held = false;
  };
  Changing& changing() {
    if (changing_ == nullptr) {
      changing_ = std::make_unique<Changing>();
    }
    return *changing_;
  }

  const OptimizerKernel* kernel_;
  double damping_;
  RoundRule rounds_;
  uint32_t most_stale_;
  std::unique_ptr<Changing> changing_;  // null: they never did
};

}  // namespace monsoon
