// Descriptors of this process: a server of hundreds of workers has one a connection
// and more, and 1024, what most systems begin with, are few.
#pragma once

#include <cstdint>

namespace monsoon {

// How many this process may have open at once.
uint64_t OpenFileLimit();

// As many as the system allows this user. Does nothing where it cannot.
void RaiseOpenFileLimit();

}  // namespace monsoon
