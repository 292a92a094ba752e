// Kernels of embeddings, in the form of elementwise_kernels.h; what they do stands with the
// operations in embedding_ops.h.
#pragma once

#include <cstdint>

#include "worker/backend/cuda/kernels/embedding_ops.h"
#include "worker/backend/cuda/runtime/runtime.h"

namespace monsoon::cuda {

void LookUpRows(Stream& stream, const LookUp& op, uint64_t count);
void FindNextOfIds(Stream& stream, const NextOfId& op, uint64_t positions);
void AddUpTable(Stream& stream, const AddUpRows& op, uint64_t count);

}  // namespace monsoon::cuda
