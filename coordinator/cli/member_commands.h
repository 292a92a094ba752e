// The verbs of who is in a cluster: `cluster init`, `token`, `join`, `member`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "coordinator/cli/command.h"

namespace monsoon {

int RunCluster(Invocation& call);
int RunToken(Invocation& call);
int RunJoin(Invocation& call);
int RunMember(Invocation& call);

// "90s", "24h", "1h30m" or "7d". InvalidArgument for what is none of them.
absl::StatusOr<absl::Duration> ParseLifetime(absl::string_view text);
// "2027-01-15T08:00:00+00:00"; "-" for 0.
std::string TimeText(int64_t unix_ms);
// What this user may be called in an identity: $USER with what cannot stand in one as '-'.
std::string PersonsName(const Environment& environment);

}  // namespace monsoon
