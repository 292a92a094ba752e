#include "coordinator/session/rate_window.h"

#include <algorithm>
#include <iterator>

namespace monsoon {

void RateWindow::Add(absl::Duration now, uint64_t total) {
  if (!samples_.empty() && total < total_) {
    return;
  }
  total_ = total;
  if (samples_.empty() || now - samples_.back().at >= resolution_) {
    samples_.push_back({now, total});
  }
  // The sample at the window's edge stays: the rate reaches back to it.
  while (samples_.size() > 1 && now - samples_[1].at >= window_) {
    samples_.pop_front();
  }
}

std::optional<double> RateWindow::Rate(absl::Duration now, absl::Duration within) const {
  const auto younger = std::ranges::upper_bound(samples_, now - within, {}, &Sample::at);
  const auto since = younger == samples_.begin() ? younger : std::prev(younger);
  if (since == samples_.end() || now - since->at < kMinSpan) {
    return std::nullopt;
  }
  return static_cast<double>(total_ - since->total) / absl::ToDoubleSeconds(now - since->at);
}

std::optional<double> RateWindow::SteadyRate(absl::Duration now, absl::Duration shortest) const {
  return samples_.empty() ? std::nullopt
                          : Rate(now, std::max(shortest, (now - samples_.front().at) / 2));
}

}  // namespace monsoon
