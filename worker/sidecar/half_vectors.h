// Vectors of BFLOAT16: what a program of a 16-bit model shares with its sidecar. Its gradients
// leave as they are, and what is fetched comes as it is, so that neither holds a float32 copy; the
// masters are on the shards.
//
// Pure functions.
#pragma once

#include <span>

#include "absl/status/status.h"
#include "common/memory/aligned_floats.h"
#include "common/model/parameter_layout.h"
#include "proto/job.pb.h"

namespace monsoon {

// INVALID_ARGUMENT names the first setting, or the tensor, with which a program's vectors cannot be
// of BFLOAT16: something has to be computed from float32 between program and shards.
absl::Status CheckHalfVectors(const Job& job, const ParameterLayout& layout);

// The values of such a vector, whose floats hold two each.
AlignedFloats FloatsOfHalves(std::span<const float> halves);

}  // namespace monsoon
