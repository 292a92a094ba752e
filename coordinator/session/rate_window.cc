#include "coordinator/session/rate_window.h"

namespace monsoon {

void RateWindow::Add(absl::Duration now, uint64_t total) {
  if (!samples_.empty() && total < total_) {
    return;
  }
  total_ = total;
  if (samples_.empty() || now - samples_.back().at >= kResolution) {
    samples_.push_back({now, total});
  }
  // The sample at the window's edge stays: the rate reaches back to it.
  while (samples_.size() > 1 && now - samples_[1].at >= window_) {
    samples_.pop_front();
  }
}

std::optional<double> RateWindow::Rate(absl::Duration now) const {
  if (samples_.empty() || now - samples_.front().at < kMinSpan) {
    return std::nullopt;
  }
  return static_cast<double>(total_ - samples_.front().total) /
         absl::ToDoubleSeconds(now - samples_.front().at);
}

}  // namespace monsoon
