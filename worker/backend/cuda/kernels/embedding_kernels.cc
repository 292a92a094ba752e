#include "worker/backend/cuda/kernels/embedding_kernels.h"

#include "worker/backend/cuda/kernels/launch.h"

namespace monsoon::cuda {

void LookUpRows(Stream& stream, const LookUp& op, uint64_t count) {
  ForEach(stream, "embedding", count, op);
}

void FindNextOfIds(Stream& stream, const NextOfId& op, uint64_t positions) {
  ReduceRows(stream, "next of ids", positions, op);
}

void AddUpTable(Stream& stream, const AddUpRows& op, uint64_t count) {
  ForEach(stream, "embedding gradient", count, op);
}

}  // namespace monsoon::cuda
