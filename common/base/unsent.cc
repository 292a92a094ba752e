#include "common/base/unsent.h"

#include "absl/strings/cord.h"
#include "common/base/status.h"

namespace monsoon {
namespace {

constexpr char kUnsent[] = "monsoon/unsent";

}  // namespace

void MarkUnsent(absl::Status* status) { status->SetPayload(kUnsent, absl::Cord()); }

bool IsUnsent(const absl::Status& status) {
  return NobodyListens(status) || status.GetPayload(kUnsent).has_value();
}

}  // namespace monsoon
