// Kernels over vectors of a model's size (vector_ops.h); as those of elementwise_kernels.h.
#pragma once

#include <cstdint>

#include "worker/backend/cuda/kernels/vector_ops.h"
#include "worker/backend/cuda/runtime/runtime.h"

namespace monsoon::cuda {

void Add(Stream& stream, const AddVector& op, uint64_t count);
void Fill(Stream& stream, const FillVector& op, uint64_t count);
void Add(Stream& stream, const AddWeighted& op, uint64_t count);
void Round(Stream& stream, const RoundSum& op, uint64_t count);
void Encode(Stream& stream, const EncodeHalf& op, uint64_t count);
void Update(Stream& stream, const UpdateParameters& op, uint64_t count);

}  // namespace monsoon::cuda
