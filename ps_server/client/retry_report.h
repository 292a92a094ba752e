// RetryReport: says why a call goes on asking a shard, in the log and to whom the client's
// options name.
//
// Thread safe.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "common/base/clock.h"
#include "common/base/log_limit.h"
#include "common/base/logging.h"

namespace monsoon {

class RetryReport {
 public:
  RetryReport(std::string job, std::function<void(const std::string& why)> on_waiting)
      : job_(std::move(job)), on_waiting_(std::move(on_waiting)) {}

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

 private:
  const std::string job_;
  const std::function<void(const std::string&)> on_waiting_;
  mutable LogLimit logged_{absl::Seconds(10)};
};

}  // namespace monsoon
