#include "common/base/status.h"

#include "absl/strings/cord.h"

namespace monsoon {
namespace {

constexpr char kNobodyListens[] = "monsoon/nobody-listens";

}  // namespace

absl::Status Annotate(const absl::Status& status, absl::string_view context) {
  if (status.ok()) {
    return status;
  }
  absl::Status annotated(status.code(), absl::StrCat(context, ": ", status.message()));
  status.ForEachPayload([&](absl::string_view type, const absl::Cord& payload) {
    annotated.SetPayload(type, payload);
  });
  return annotated;
}

void MarkNobodyListens(absl::Status* status) { status->SetPayload(kNobodyListens, absl::Cord()); }

bool NobodyListens(const absl::Status& status) {
  return status.GetPayload(kNobodyListens).has_value();
}

}  // namespace monsoon
