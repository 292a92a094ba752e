// How much memory the system could give now.
#pragma once

#include <cstdint>
#include <optional>

namespace monsoon {

// Bytes, without pushing anything out (MemAvailable of /proc/meminfo); nothing where the
// system does not tell.
std::optional<uint64_t> AvailableMemory();

}  // namespace monsoon
