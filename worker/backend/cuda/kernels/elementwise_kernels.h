// Kernels on each element alone: each enqueues work on a stream and
// returns; errors go to the stream's ErrorLog, with the kernel's name. Pointers are to
// device memory; shapes and formulas stand with the operations in elementwise.h.
//
// A pair *_kernels.{h,cc} needs no list: the builds, for the GPU and for the host
// stand-in, and the device emulation of the tests find it by its name.
#pragma once

#include <cstdint>

#include "worker/backend/cuda/kernels/elementwise.h"
#include "worker/backend/cuda/runtime/runtime.h"

namespace monsoon::cuda {

void Activate(Stream& stream, const ActivationForward& op, uint64_t count);
void ActivateBackward(Stream& stream, const ActivationBackward& op, uint64_t count);
void DropOut(Stream& stream, const ApplyDropout& op, uint64_t examples);
void AddBiasToRows(Stream& stream, const AddBias& op, uint64_t count);
void Cast(Stream& stream, const CastToHalf& op, uint64_t count);
void UnscaleGradient(Stream& stream, const Unscale& op, uint64_t count);

}  // namespace monsoon::cuda
