// Descriptors that a sidecar is started with.
#pragma once

namespace monsoon {

inline constexpr int kSidecarSocket = 3;  // MessageSocket
inline constexpr int kSidecarLeave = 4;   // readable when the program leaves

}  // namespace monsoon
