// FrameTransport over gRPC: a bidirectional stream of raw messages per peer.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "common/transport/frame/frame_transport.h"

namespace monsoon {

class Tls;

// With one connection per peer, which is a parameter server's. `tls`: as of MakeChannel.
std::unique_ptr<FrameTransport> MakeGrpcTransport(const std::vector<std::string>& addresses,
                                                  const std::shared_ptr<Tls>& tls);

}  // namespace monsoon
