// RandomId: a number that nobody else has drawn, from the system's randomness. For
// identities of processes; what must be repeatable uses random.h.
#pragma once

#include <cstdint>

namespace monsoon {

// Not 0. Thread safe.
uint64_t RandomId();

}  // namespace monsoon
