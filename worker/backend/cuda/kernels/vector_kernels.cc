#include "worker/backend/cuda/kernels/vector_kernels.h"

#include "worker/backend/cuda/kernels/launch.h"

namespace monsoon::cuda {

void Add(Stream& stream, const AddVector& op, uint64_t count) {
  ForEach(stream, "sum of vectors", count, op);
}

void Fill(Stream& stream, const FillVector& op, uint64_t count) {
  ForEach(stream, "fill", count, op);
}

void Add(Stream& stream, const AddWeighted& op, uint64_t count) {
  ForEach(stream, "sum in double", count, op);
}

void Round(Stream& stream, const RoundSum& op, uint64_t count) {
  ForEach(stream, "rounded sum", count, op);
}

void Encode(Stream& stream, const EncodeHalf& op, uint64_t count) {
  ForEach(stream, "gradient to half", count, op);
}

void Update(Stream& stream, const UpdateParameters& op, uint64_t count) {
  ForEach(stream, "local update", count, op);
}

}  // namespace monsoon::cuda
