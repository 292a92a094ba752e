// Flood: clients that ignore the credits of the data plane.
#pragma once

#include <cstdint>
#include <string>

#include "proto/tensor.pb.h"

namespace monsoon {

struct FloodResult {
  uint64_t offered_bytes = 0;    // on streams that were not refused
  uint32_t refused_streams = 0;  // RESOURCE_EXHAUSTED
};

// `clients` threads, each with a connection of its own, write push frames with
// kMaxFramePayloadBytes of payload for the session and never read an answer,
// until each has offered its share of `total_bytes`. A stream that is refused, or
// gives way to others, is opened again at once.
FloodResult Flood(const std::string& address, const PushRequest& push, uint32_t clients,
                  uint64_t total_bytes);

}  // namespace monsoon
