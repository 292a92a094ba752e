#include "worker/replica/replay_window_bytes.h"

#include <algorithm>

namespace monsoon {

uint64_t DefaultReplayWindow(uint64_t push_bytes, std::optional<uint64_t> available) {
  constexpr uint64_t kMost = uint64_t{1} << 30;
  const uint64_t known = available.value_or(4 * kMost);
  return std::max(std::min(kMost, known / 4), std::min(2 * push_bytes, known / 2));
}

}  // namespace monsoon
