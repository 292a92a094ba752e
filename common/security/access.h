// Access: what each role may ask for, in one table: the methods of all services and the kinds of
// frames. What has no row is refused to everybody, and a test looks for what has none.
//
// Frames name the job whose parameters they are about: a member that is there for one job (its
// identity says so) reads and writes that one's alone, whatever its role. Whose session or task it
// is, the one who is asked looks at himself: here a worker is like any other.
//
// Plain functions. Thread safe.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "common/security/caller.h"
#include "proto/tensor.pb.h"

namespace monsoon {

// Callers as the table's columns: the roles, and who has no certificate yet.
inline constexpr size_t kAccessColumns = 6;

struct AccessRow {
  absl::string_view what;  // "/monsoon.JobService/Submit", or "frame push"
  bool allowed[kAccessColumns];
};

// Of all methods, then of all kinds of frames.
std::span<const AccessRow> AccessTable();
// "coordinator", ..., "stranger".
absl::string_view AccessColumn(size_t column);

// PermissionDenied says who may; Unauthenticated where there is no certificate. An open server
// refuses nothing.
absl::Status CheckCall(const Caller& caller, absl::string_view method);
// That a member which is there for one job asks for that: its id, "lenet-1"; "": none.
absl::Status CheckJob(const Caller& caller, absl::string_view job);
// That its kind is the caller's, and its job too.
absl::Status CheckFrame(const Caller& caller, const DataHeader& request);

// The job that the request names; null for what is no request of a kind with a row.
const std::string* JobOf(const DataHeader& request);

}  // namespace monsoon
