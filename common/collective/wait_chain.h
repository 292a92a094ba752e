// WaitChain: who is to blame where a member waits. It asks the one it waits for, for whom that
// waits, and so on: the last one that waits for nobody, or does not answer, holds up all of them.
//
// Not thread safe; plain values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/collective/peer_header.h"

namespace monsoon {

class WaitChain {
 public:
  void Clear() { ranks_.clear(); }

  // This member waits for `rank`. True: that is to be asked.
  bool Begin(uint32_t rank);
  // What `rank` answered; this member is `self` of `members`, in its `collective`-th call. Gives
  // who is to be asked next.
  std::optional<uint32_t> Note(uint32_t rank, const PeerAnswer& answer, uint32_t self,
                               uint32_t members, uint64_t collective);

  // The last of the chain; `otherwise` where nobody was asked.
  uint32_t blamed(uint32_t otherwise) const { return ranks_.empty() ? otherwise : ranks_.back(); }
  // What the last one said of itself, and who waits for it; begins with "; " or is empty.
  std::string Describe(const std::vector<std::string>& names) const;

 private:
  // This member waits for the first, that for the second, ...
  std::vector<uint32_t> ranks_;
  std::string state_;  // of the last one; "": it has not answered
};

}  // namespace monsoon
