// FaultTransport: delays and loses the frames of another transport, as --fault
// asks. A lost frame breaks its stream, before or after it was served.
#pragma once

#include <memory>

#include "common/base/clock.h"
#include "common/transport/frame/fault.h"
#include "common/transport/frame/frame_transport.h"

namespace monsoon {

// `clock` outlives the transport.
std::unique_ptr<FrameTransport> MakeFaultTransport(std::unique_ptr<FrameTransport> base,
                                                   const FaultOptions& options, const Clock* clock);

}  // namespace monsoon
