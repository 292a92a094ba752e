// Status helpers. Errors that input or environment can cause are absl::Status
// with the file, line, shard, replica or job named; CHECK (check.h) is for our
// own bugs only.
#pragma once

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"

namespace monsoon {

// `status` with "context: " before its message; OK stays OK.
absl::Status Annotate(const absl::Status& status, absl::string_view context);

// A mark on an error: the host was reached, and no process listens at the address,
// so the one that was there is gone. Silence is not marked.
void MarkNobodyListens(absl::Status* status);
bool NobodyListens(const absl::Status& status);

}  // namespace monsoon

#define MONSOON_CONCAT_INNER(a, b) a##b
#define MONSOON_CONCAT(a, b) MONSOON_CONCAT_INNER(a, b)

// Leaves the function with the status of `expr` unless it is OK.
#define RETURN_IF_ERROR(expr)                           \
  do {                                                  \
    if (absl::Status status_ = (expr); !status_.ok()) { \
      return status_;                                   \
    }                                                   \
  } while (false)

// ASSIGN_OR_RETURN(auto x, F()): x is the value, or the function is left.
#define ASSIGN_OR_RETURN(lhs, expr) \
  ASSIGN_OR_RETURN_IMPL(MONSOON_CONCAT(status_or_, __LINE__), lhs, expr)
#define ASSIGN_OR_RETURN_IMPL(tmp, lhs, expr) \
  auto tmp = (expr);                          \
  if (!tmp.ok()) {                            \
    return tmp.status();                      \
  }                                           \
  lhs = *std::move(tmp)
