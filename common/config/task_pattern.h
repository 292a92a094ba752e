// Which tasks of a cluster a text means: "ps/1", "worker/*", "coordinator/0", "*".
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"

namespace monsoon {

struct TaskPattern {
  std::string role;               // "coordinator", "ps" or "worker"; "": any
  std::optional<uint32_t> index;  // unset: any

  // Whether `task`, as in "ps/0", is one of them.
  bool Matches(const std::string& task) const;
};

// InvalidArgument says what is wrong with the text and what to write.
absl::StatusOr<TaskPattern> ParseTaskPattern(const std::string& text);

}  // namespace monsoon
