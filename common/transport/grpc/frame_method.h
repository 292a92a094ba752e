// The RPC that carries frames over gRPC, a bidirectional stream of raw messages.
#pragma once

namespace monsoon {

inline constexpr char kFrameMethod[] = "/monsoon.ParameterServer/Data";

}  // namespace monsoon
