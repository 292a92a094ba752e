#include "common/base/lasting.h"

#include "absl/strings/cord.h"

namespace monsoon {
namespace {

constexpr char kLasting[] = "monsoon/lasting";

}  // namespace

void MarkLasting(absl::Status* status) { status->SetPayload(kLasting, absl::Cord()); }

bool IsLasting(const absl::Status& status) { return status.GetPayload(kLasting).has_value(); }

}  // namespace monsoon
