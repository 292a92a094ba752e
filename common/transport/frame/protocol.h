// Numbers that both ends of a connection must agree on.
#pragma once

#include <cstdint>

namespace monsoon {

// Grows with every change that older peers would misread, or that they would not hear: a program
// waits for what it asked of them.
inline constexpr uint32_t kProtocolVersion = 9;

// The vector in which shards keep the parameters of a generation that is to be tested.
inline constexpr char kTestedVector[] = "tested";

}  // namespace monsoon
