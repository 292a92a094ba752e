#include "worker/session/session_status.h"

#include "absl/strings/cord.h"

namespace monsoon {
namespace {

constexpr char kDivergedUrl[] = "monsoon/diverged";
constexpr char kProgramUrl[] = "monsoon/program_diverged";
constexpr char kDeviceUrl[] = "monsoon/device";
constexpr char kUnfitUrl[] = "monsoon/unfit_device";

absl::Status Marked(absl::Status status, absl::string_view url) {
  status.SetPayload(url, absl::Cord("1"));
  return status;
}

}  // namespace

absl::Status DivergedError(absl::string_view message) {
  return Marked(absl::OutOfRangeError(message), kDivergedUrl);
}

bool IsDivergedError(const absl::Status& status) {
  return status.GetPayload(kDivergedUrl).has_value();
}

absl::Status ProgramDivergedError(absl::string_view message) {
  return Marked(absl::OutOfRangeError(message), kProgramUrl);
}

bool IsProgramDivergedError(const absl::Status& status) {
  return status.GetPayload(kProgramUrl).has_value();
}

absl::Status DeviceError(absl::string_view message) {
  return Marked(absl::InternalError(message), kDeviceUrl);
}

bool IsDeviceError(const absl::Status& status) { return status.GetPayload(kDeviceUrl).has_value(); }

absl::Status UnfitDeviceError(absl::string_view message) {
  return Marked(absl::FailedPreconditionError(message), kUnfitUrl);
}

bool IsUnfitDeviceError(const absl::Status& status) {
  return status.GetPayload(kUnfitUrl).has_value();
}

}  // namespace monsoon
