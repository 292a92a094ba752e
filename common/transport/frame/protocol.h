// Numbers that both ends of a connection must agree on.
#pragma once

#include <cstdint>

namespace monsoon {

// Grows with every change that older peers would misread.
inline constexpr uint32_t kProtocolVersion = 1;

}  // namespace monsoon
