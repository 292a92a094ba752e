// FrameTransport over gRPC: a bidirectional stream of raw messages per peer.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "common/transport/frame/frame_transport.h"

namespace monsoon {

// With one connection per peer.
std::unique_ptr<FrameTransport> MakeGrpcTransport(const std::vector<std::string>& addresses);

}  // namespace monsoon
