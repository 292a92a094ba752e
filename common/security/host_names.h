// HostNames: under which names and IP addresses the holder of a certificate is reached.
//
// Plain functions.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace monsoon {

inline constexpr size_t kMostHostNames = 32;

// Whether it is an IPv4 or IPv6 address, without brackets.
bool IsIpAddress(absl::string_view name);
// InvalidArgument for more than kMostHostNames, and for what is neither an IP address nor a name
// that DNS could have; a '*' stands for nothing here.
absl::Status CheckHostNames(const std::vector<std::string>& names);

}  // namespace monsoon
