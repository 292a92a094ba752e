// Names for files of one test, and of clusters. A pid is not enough: tests in
// sandboxes of their own have the same pids and may share a folder.
#pragma once

#include <string>

namespace monsoon::testing {

// 16 random hexadecimal digits.
std::string UniqueName();

}  // namespace monsoon::testing
