#include "common/transport/grpc/conduct.h"

#include <algorithm>

namespace monsoon {
namespace {

constexpr size_t kLeastPruned = 1024;

}  // namespace

double Conduct::Remembered(const Count& count, absl::Duration now) const {
  return std::max(0.0, count.calls - forgotten_ * absl::ToDoubleSeconds(now - count.at));
}

bool Conduct::NoteInVain(const std::string& peer, absl::Duration now, double calls) {
  if (counts_.size() >= prune_at_) {
    Prune(now);
  }
  Count& count = counts_[peer];
  count.calls = Remembered(count, now) + calls;
  count.at = now;
  if (count.calls <= most_) {
    return false;
  }
  counts_.erase(peer);
  return true;
}

void Conduct::Prune(absl::Duration now) {
  absl::erase_if(counts_, [&](const auto& entry) { return Remembered(entry.second, now) == 0; });
  prune_at_ = std::max(kLeastPruned, 2 * counts_.size());
}

}  // namespace monsoon
