// RoundWait: whether the fetches of a session stand still in a job with rounds. A fetch waits
// until the rounds are over that the session has pushed to. Some can be over while others lack
// what another worker has yet to push, which waits in its turn for a round that lacks our next
// push: then nobody goes on. That is so where some are over, and no other one becomes so.
//
// Thread safety: none.
#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>

#include "absl/time/time.h"

namespace monsoon {

// Between looks whether a round is over.
inline constexpr absl::Duration kRoundPause = absl::Milliseconds(20);

class RoundWait {
 public:
  // A fetch begins: another one, or again the one that has found a round open.
  void Begin() {
    if (open_.empty()) {
      since_.reset();
      most_ = 0;
    }
    over_ = 0;
    open_.clear();
  }
  // A part of it is there, for which no round is open.
  void NoteOver(absl::Duration now) {
    if (++over_ > most_) {
      most_ = over_;
      since_ = now;
    }
  }
  // For another one a round is, and says whom it waits for.
  void NoteOpen(std::string round) { open_ = std::move(round); }
  void End() { *this = RoundWait(); }

  const std::string& open() const { return open_; }
  // True once each `patience` (ParameterClientOptions, round_patience), while it is so.
  bool StandsStill(absl::Duration now, absl::Duration patience) {
    if (!since_.has_value()) {
      since_ = now;
    }
    const bool stands = !open_.empty() && over_ > 0 && now - *since_ >= patience;
    since_ = stands ? now : since_;
    return stands;
  }

 private:
  // When the last part came that had not come before, or the first look at this fetch: most are
  // over before it, and read no clock.
  std::optional<absl::Duration> since_;
  size_t over_ = 0;   // parts, in this try
  size_t most_ = 0;   // in any
  std::string open_;  // "": no round is known to be
};

}  // namespace monsoon
