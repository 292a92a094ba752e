// RetryReport: says why a call goes on asking a shard, in the log and to whom the client's
// options name, and knows which shard does not answer.
//
// Thread safe.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "common/base/clock.h"
#include "common/base/log_limit.h"
#include "common/base/logging.h"
#include "common/transport/frame/exchange.h"

namespace monsoon {

class RetryReport {
 public:
  RetryReport(std::string job, std::function<void(const std::string& why)> on_waiting)
      : job_(std::move(job)), on_waiting_(std::move(on_waiting)) {}
  RetryReport(const RetryReport&) = delete;
  RetryReport& operator=(const RetryReport&) = delete;

  // Of a request to a shard: `count` in this call.
  void Note(const absl::Status& why, uint32_t count) const {
    // A stream that was cut and is opened again says nothing.
    constexpr uint32_t kQuietRetries = 4;
    if (count < kQuietRetries) {
      return;
    }
    const std::string text(why.message());
    if (const auto left_out = logged_.Take(Clock::Real()->Now())) {
      LOG(WARNING) << "job " << job_ << " waits for " << text << LeftOut(*left_out);
    }
    if (on_waiting_) {
      on_waiting_(text);
    }
  }

  // For exchanges.
  const std::function<void(const absl::Status&, uint32_t)>* on_retry() const { return &on_retry_; }
  SilentPeer* silent() const { return &silent_; }
  std::optional<uint32_t> silent_shard() const { return silent_.Get(); }

 private:
  const std::string job_;
  const std::function<void(const std::string&)> on_waiting_;
  const std::function<void(const absl::Status&, uint32_t)> on_retry_ =
      [this](const absl::Status& why, uint32_t count) { Note(why, count); };
  mutable SilentPeer silent_;
  mutable LogLimit logged_{absl::Seconds(10)};
};

}  // namespace monsoon
