// DonePart: what steps have come to the end of, and what is reported once all shards have these
// steps' pushes: a block of the data, or how far a program has read a stream.
#pragma once

#include <variant>

#include "proto/checkpoint.pb.h"
#include "proto/coordinator.pb.h"

namespace monsoon {

using DonePart = std::variant<BlockId, StreamPosition>;

}  // namespace monsoon
