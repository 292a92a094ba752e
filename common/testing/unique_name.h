// Names for sockets and files of one test. A pid is not enough: tests in
// sandboxes of their own have the same pids and share the abstract sockets.
#pragma once

#include <string>

namespace monsoon::testing {

// 16 random hexadecimal digits.
std::string UniqueName();

}  // namespace monsoon::testing
