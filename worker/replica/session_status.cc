#include "worker/replica/session_status.h"

#include "absl/strings/cord.h"

namespace monsoon {
namespace {

constexpr char kDivergedUrl[] = "monsoon/diverged";

}  // namespace

absl::Status DivergedError(absl::string_view message) {
  absl::Status status = absl::OutOfRangeError(message);
  status.SetPayload(kDivergedUrl, absl::Cord("1"));
  return status;
}

bool IsDivergedError(const absl::Status& status) {
  return status.GetPayload(kDivergedUrl).has_value();
}

}  // namespace monsoon
