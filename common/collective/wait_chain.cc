#include "common/collective/wait_chain.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace monsoon {

bool WaitChain::Begin(uint32_t rank) {
  if (!ranks_.empty() && ranks_.front() == rank) {
    return false;
  }
  ranks_ = {rank};
  state_.clear();
  return true;
}

std::optional<uint32_t> WaitChain::Note(uint32_t rank, const PeerAnswer& answer, uint32_t self,
                                        uint32_t members, uint64_t collective) {
  if (ranks_.empty() || ranks_.back() != rank || !state_.empty()) {
    return std::nullopt;
  }
  const uint32_t next = answer.waits_for;
  if (answer.collective != collective) {
    state_ = answer.collective > collective ? "; it has gone on to another call"
                                            : "; it is there, and has not come to this call";
  } else if (next >= members || next == self || std::ranges::count(ranks_, next) > 0) {
    state_ = "; it is there, in this call";
  } else {
    ranks_.push_back(next);
    return next;
  }
  return std::nullopt;
}

std::string WaitChain::Describe(const std::vector<std::string>& names) const {
  std::string text = ranks_.empty() ? "" : state_;
  for (size_t i = ranks_.size(); i > 1; --i) {
    absl::StrAppend(&text, "; ", names[ranks_[i - 2]], " waits for ", names[ranks_[i - 1]]);
  }
  return text;
}

}  // namespace monsoon
