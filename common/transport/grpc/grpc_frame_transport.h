// FrameTransport over gRPC: bidirectional streams of raw messages, each with a connection of its
// own.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/security/identity.h"
#include "common/transport/frame/frame_transport.h"

namespace monsoon {

class Tls;

class GrpcFrameTransport : public FrameTransport {
 public:
  // Ends the Wait that another thread is in, or else the next one, at once and without an event.
  // Thread safe.
  virtual void Wake() = 0;
};

// With up to `connections` to each peer, which shows that it is of role `server`; all but the first
// are made when frames are spread. A server that admits no more of them is asked for one alone for
// a while. `tls`: as of MakeChannel.
std::unique_ptr<GrpcFrameTransport> MakeGrpcTransport(const std::vector<std::string>& addresses,
                                                      const std::shared_ptr<Tls>& tls,
                                                      uint32_t connections, Role server);

}  // namespace monsoon
