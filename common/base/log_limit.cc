#include "common/base/log_limit.h"

#include "absl/strings/str_cat.h"

namespace monsoon {

std::optional<uint64_t> LogLimit::Take(absl::Duration now) {
  const int64_t now_ns = absl::ToInt64Nanoseconds(now);
  int64_t last = last_ns_.load();
  const bool early = last != kNever && now_ns - last < period_ns_;
  // Of several at once only one may go.
  if (early || !last_ns_.compare_exchange_strong(last, now_ns)) {
    ++left_out_;
    return std::nullopt;
  }
  return left_out_.exchange(0);
}

std::string LeftOut(uint64_t count) {
  return count == 0 ? "" : absl::StrCat(" (", count, " more like it were left out)");
}

}  // namespace monsoon
