// VirtualNetwork: processes that die, stand still and are started again, and the messages
// between them, which come late, in another order, twice, or not at all.
//
// A call is answered once: by who was called, or by an error (Unavailable,
// DeadlineExceeded). One that was not answered may have been served, and may still be
// served later, in the life of the process that it was sent to.
//
// Not thread safe.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/status.h"
#include "tests/simulation/dice.h"
#include "tests/simulation/simulated_process.h"
#include "tests/simulation/virtual_time.h"

namespace monsoon::simulation {

class VirtualNetwork {
 public:
  VirtualNetwork(VirtualTime* time, Dice* dice) : time_(time), dice_(dice) {}

  // One of so many calls arrives once more.
  void set_copies_in(uint32_t calls) { copies_in_ = calls; }
  // Without faults messages are quick, none is lost or comes twice, and no link is cut.
  void set_faults(bool faults) {
    faults_ = faults;
    cut_until_.clear();
  }

  // In the life that `process` has now: `delay` from now, or when it goes on after that.
  void In(SimulatedProcess* process, absl::Duration delay, std::function<void()> what) {
    AtIn(process, process->life, time_->now() + delay, std::move(what));
  }

  // Nothing gets from one to the other for so long.
  void Cut(const SimulatedProcess* a, const SimulatedProcess* b, absl::Duration duration) {
    cut_until_[Ends(a, b)] = time_->now() + duration;
  }
  bool IsCut(const SimulatedProcess* a, const SimulatedProcess* b) const {
    const auto found = cut_until_.find(Ends(a, b));
    return found != cut_until_.end() && found->second > time_->now();
  }

  // How long one message takes.
  absl::Duration Delay() {
    if (faults_ && dice_->Once(50)) {
      return dice_->Between(absl::Milliseconds(5), absl::Milliseconds(400));
    }
    return dice_->Between(absl::Microseconds(100), absl::Milliseconds(2));
  }

  template <typename Reply>
  using Answer = std::function<void(absl::StatusOr<Reply>)>;
  // `serve` runs in `to`, which gives its answer to the function that it gets, once or
  // never; `done` runs in `from`.
  template <typename Reply>
  void Call(SimulatedProcess* from, SimulatedProcess* to, absl::Duration deadline,
            std::function<void(Answer<Reply>)> serve, Answer<Reply> done) {
    auto finish = [open = std::make_shared<bool>(true),
                   done = std::move(done)](absl::StatusOr<Reply> reply) {
      if (std::exchange(*open, false)) {
        done(std::move(reply));
      }
    };
    In(from, deadline, [finish] { finish(absl::DeadlineExceededError("no answer in time")); });
    const bool silent = faults_ && dice_->Once(100);  // the call is lost
    if (silent || IsCut(from, to)) {
      return;
    }
    const uint64_t sender = from->life;
    if (!to->alive) {
      absl::Status refused = absl::UnavailableError("connection refused");
      MarkNobodyListens(&refused);
      In(from, Delay(), [finish, refused] { finish(refused); });
      return;
    }
    if (faults_ && dice_->Once(100)) {
      // The connection breaks; the call may have got through.
      In(from, Delay(), [finish] { finish(absl::UnavailableError("connection reset")); });
    }
    In(to, Delay(), [=, this] {
      if (faults_ && dice_->Once(copies_in_)) {
        // What was asked again overtook the first try, which comes after all.
        const absl::Duration late = absl::Milliseconds(dice_->Once(2) ? 60 : 2000);
        In(to, dice_->Between(absl::ZeroDuration(), late),
           [serve] { serve([](const absl::StatusOr<Reply>&) {}); });
      }
      serve([=, this](absl::StatusOr<Reply> reply) {
        const bool lost = faults_ && dice_->Once(100);
        if (!lost && !IsCut(from, to)) {
          AtIn(from, sender, time_->now() + Delay(),
               [finish, reply = std::move(reply)] { finish(reply); });
        }
      });
    });
  }

 private:
  using Link = std::pair<const SimulatedProcess*, const SimulatedProcess*>;
  static Link Ends(const SimulatedProcess* a, const SimulatedProcess* b) {
    return a < b ? Link(a, b) : Link(b, a);
  }

  void AtIn(SimulatedProcess* process, uint64_t life, absl::Duration at,
            std::function<void()> what) {
    time_->At(at, [this, process, life, what = std::move(what)]() mutable {
      if (!process->alive || process->life != life) {
        return;
      }
      if (process->wakes_at > time_->now()) {
        AtIn(process, life, process->wakes_at, std::move(what));
        return;
      }
      what();
    });
  }

  VirtualTime* const time_;
  Dice* const dice_;
  bool faults_ = true;
  uint32_t copies_in_ = 20;
  std::map<Link, absl::Duration> cut_until_;
};

}  // namespace monsoon::simulation
