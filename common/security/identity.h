// Identity: who holds a key. A certificate carries it as a URI among its alternative names:
//
//   monsoon://CLUSTER/ROLE/NAME[?job=JOB]
//   monsoon://lab/ps/0    monsoon://lab/worker/guest-5f3a?job=lenet-1    monsoon://lab/operator/ada
//
// Every part has letters, digits and '.', '_', '-' only and begins with a letter or digit, so
// nothing is escaped, each identity has one text, and a text can go into logs as it is.
//
// Plain values without I/O.
#pragma once

#include <cstddef>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace monsoon {

// What the holder may do. One that has no certificate yet has no role here.
enum class Role { kCoordinator, kPs, kWorker, kOperator, kViewer };

inline constexpr absl::string_view kIdentityScheme = "monsoon://";
// Certificates have room for names of 64 bytes (X.520), which take ROLE/NAME and CLUSTER.
inline constexpr size_t kMostClusterBytes = 63;
inline constexpr size_t kMostNameBytes = 48;
inline constexpr size_t kMostJobBytes = 128;

// "coordinator", "ps", "worker", "operator" or "viewer".
absl::string_view RoleName(Role role);
// InvalidArgument names those that there are.
absl::StatusOr<Role> ParseRole(absl::string_view name);

struct Identity {
  Role role = Role::kViewer;
  std::string name;  // of a task its number, of a guest or a person what it is called
  std::string cluster;
  std::string job;  // "": any; otherwise the holder is there for this job alone

  friend bool operator==(const Identity&, const Identity&) = default;
};

// InvalidArgument says which part is wrong, and why.
absl::Status CheckIdentity(const Identity& identity);

// "worker/7": how people name a member of one cluster.
std::string MemberName(const Identity& identity);

// `identity` passes CheckIdentity.
std::string ToUri(const Identity& identity);
// Takes what ToUri makes, and nothing else. InvalidArgument says what is wrong; what it quotes
// is fit for a terminal.
absl::StatusOr<Identity> ParseIdentity(absl::string_view uri);

}  // namespace monsoon
