// Jobs as text for people: `jobs` and `describe` without --json.
//
// Thread safety: pure functions.
#pragma once

#include <cstdint>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/strings/string_view.h"
#include "proto/coordinator.pb.h"

namespace monsoon {

// A command line, to be typed, for a verb with its arguments (Invocation::CommandLine).
using CommandHint = absl::FunctionRef<std::string(absl::string_view command)>;

// A table with a line a job, oldest first.
std::string JobsText(const ListReply& jobs, CommandHint hint);

// "12.3 MiB", "830 B".
std::string BytesText(uint64_t bytes);

// "pushes 13 to 20 of worker/1#2 on ps/0".
std::string LostPushesText(const LostPushes& lost);

// Sections; "-" stands for what is not measured.
std::string DescribeText(const JobDescription& job);

}  // namespace monsoon
