// Kernels of long short-term memory, in the form of elementwise_kernels.h; formulas stand with
// the operations in lstm_ops.h.
#pragma once

#include <cstdint>

#include "worker/backend/cuda/kernels/lstm_ops.h"
#include "worker/backend/cuda/runtime/runtime.h"

namespace monsoon::cuda {

void PutStepsFirst(Stream& stream, const StepsFirst& op, uint64_t count);
void PutExamplesFirst(Stream& stream, const ExamplesFirst& op, uint64_t count);
void RunCell(Stream& stream, const LstmForward& op, uint64_t count);
void RunCellBack(Stream& stream, const LstmBackward& op, uint64_t count);

}  // namespace monsoon::cuda
