#include "worker/backend/cuda/kernels/lstm_kernels.h"

#include "worker/backend/cuda/kernels/launch.h"

namespace monsoon::cuda {

void PutStepsFirst(Stream& stream, const StepsFirst& op, uint64_t count) {
  ForEach(stream, "steps first", count, op);
}

void PutExamplesFirst(Stream& stream, const ExamplesFirst& op, uint64_t count) {
  ForEach(stream, "examples first", count, op);
}

void RunCell(Stream& stream, const LstmForward& op, uint64_t count) {
  ForEach(stream, "lstm", count, op);
}

void RunCellBack(Stream& stream, const LstmBackward& op, uint64_t count) {
  ForEach(stream, "lstm gradient", count, op);
}

}  // namespace monsoon::cuda
