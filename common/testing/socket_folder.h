// Addresses for the Unix sockets of a test. They lie in a folder of the process, which is made at
// the first call and removed when the process ends: under /tmp, because the folders that tests are
// given have longer paths than a socket may have.
//
// Thread safe.
#pragma once

#include <string>

#include "absl/strings/string_view.h"

namespace monsoon::testing {

// "/tmp/monsoon-test-1a2b3c"; its mode is 0700.
const std::string& SocketFolder();

// "unix:/tmp/monsoon-test-1a2b3c/NAME".
std::string SocketAddress(absl::string_view name);

// As SocketAddress, with a name that it has given to nobody else.
std::string UniqueSocketAddress();

}  // namespace monsoon::testing
