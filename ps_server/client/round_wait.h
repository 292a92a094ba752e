// RoundWait: whether the fetches of a session stand still in a job with rounds. A fetch waits
// until the rounds are over that the session has pushed to. Some can be over while others lack
// what another worker has yet to push, which waits in its turn for a round that lacks our next
// push: then nobody goes on. That is so where some are over, and no other one becomes so.
//
// Thread safety: none.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>

#include "absl/time/time.h"

namespace monsoon {

class RoundWait {
 public:
  // Other workers that are there bring a round what it lacks in less than this, where they do not
  // stand still themselves.
  static constexpr absl::Duration kPatience = absl::Seconds(2);

  // A fetch begins: another one, or again the one that has found a round open.
  void Begin(absl::Duration now) {
    since_ = open_.empty() ? now : since_;
    most_ = open_.empty() ? 0 : most_;
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
  // True once each kPatience, while it is so.
  bool StandsStill(absl::Duration now) {
    const bool stands = !open_.empty() && over_ > 0 && now - since_ >= kPatience;
    since_ = stands ? now : since_;
    return stands;
  }

 private:
  absl::Duration since_;  // of the last part that came and had not come before
  size_t over_ = 0;       // parts, in this try
  size_t most_ = 0;       // in any
  std::string open_;      // "": no round is known to be
};

}  // namespace monsoon
