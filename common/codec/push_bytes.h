// How large the pushes of a job are.
#pragma once

#include <cstdint>

#include "proto/wire_format.pb.h"

namespace monsoon {

// Bytes of a push of so many values to all shards, but for headers and for scales and magnitudes
// of blocks. `top_k_share`: of formats that take one.
uint64_t PushBytes(uint64_t values, WireFormat format, double top_k_share);

}  // namespace monsoon
