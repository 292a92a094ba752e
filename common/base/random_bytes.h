// RandomBytes: bytes that nobody can foretell, from the system's generator. The one place where
// secrets and identities come from; what must be repeatable uses random.h.
//
// Thread safe. Waits for the system's generator where the machine has just started.
#pragma once

#include <cstddef>
#include <string>

namespace monsoon {

std::string RandomBytes(size_t count);

}  // namespace monsoon
