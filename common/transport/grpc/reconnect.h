// KeepConnecting: lets a channel come up again while nobody calls.
//
// gRPC moves a connection on only in threads that wait for something of gRPC. Who asks a
// peer that is away by short calls, and sleeps between them, leaves no such thread: its
// attempts to connect time out though the peer is back, one after the other, for seconds.
#pragma once

#include <memory>

#include "grpcpp/channel.h"

namespace monsoon {

// A thread of the process waits on the channel's behalf from now on, until it is connected
// or gone, or nobody has asked for it for a while. Returns at once. Thread safe.
void KeepConnecting(const std::shared_ptr<grpc::Channel>& channel);

}  // namespace monsoon
