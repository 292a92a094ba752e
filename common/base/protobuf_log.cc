#include "common/base/protobuf_log.h"

#include <optional>
#include <string>

#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/log_limit.h"
#include "common/base/logging.h"
#include "google/protobuf/stubs/logging.h"

namespace monsoon {
namespace {

constexpr absl::Duration kPeriod = absl::Seconds(10);

void Handle(google::protobuf::LogLevel level, const char*, int, const std::string& message) {
  static auto* const limit = new LogLimit(kPeriod);
  // After a fatal one protobuf ends the process.
  if (level == google::protobuf::LOGLEVEL_FATAL) {
    LOG(ERROR) << "protobuf: " << message;
  } else if (const std::optional<uint64_t> left_out = limit->Take(Clock::Real()->Now())) {
    LOG(WARNING) << "protobuf: " << message << LeftOut(*left_out);
  }
}

}  // namespace

void LogProtobufErrors() {
  [[maybe_unused]] static const auto before = google::protobuf::SetLogHandler(&Handle);
}

}  // namespace monsoon
