// What a member does with floats: takes those of a frame to where they belong, straight from the
// transport's memory, and sums ranges.
//
// Thread safe, as long as nobody else writes to what is written.
#pragma once

#include <span>

#include "common/transport/frame/frame_codec.h"

namespace monsoon {

// The rest of `payload`, to.size() floats, becomes `to`, or `to` becomes payload + to.
void CopyFloats(ChunkCursor* payload, std::span<float> to);
void AddFloats(ChunkCursor* payload, std::span<float> to);

// to = ((operands[0] + operands[1]) + operands[2]) + ...; `to` may be one of them. All are as long
// as `to`.
void SumFloats(std::span<const std::span<const float>> operands, std::span<float> to);

}  // namespace monsoon
