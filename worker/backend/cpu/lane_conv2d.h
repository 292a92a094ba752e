// Convolution with what is behind it, ReLU and average pooling, in one layer of
// our own for AVX-512, over images whose samples lie side by side (see
// lane_loops.h; in oneDNN's terms Abcd16a). It keeps the pooled values and one
// bit for each output that passed the ReLU. One thread.
//
// LeNet's second convolution, batch 128, all three passes: 13.8 ms, against 20.2
// for oneDNN's best, channels last; its first one, with ReLU and pooling, 1.1
// against 3.5 (EPYC, AVX-512).
#pragma once

#include <cstddef>
#include <memory>

#include "worker/backend/cpu/layer.h"

namespace monsoon::cpu {

// True where all that the model does to images is convolutions with stride 1
// and no padding, each followed by nothing, ReLU, average pooling of disjoint
// windows, or both in this order, and dropout; the machine has AVX-512; and
// hardly a lane is left empty.
bool SuitsLanes(const NetworkPlan& plan, size_t examples, int threads);

// [n, c, h, w] with blocks of 16 samples last.
dnnl::memory::desc LanesDesc(size_t examples, const Extent& extent);

// The layer for the convolution plan.layers[at] and what is fused behind it;
// moves `at` to the next one. `plan` suits lanes, `input` has LanesDesc.
std::unique_ptr<CpuLayer> MakeLaneConv2d(Context& context, const NetworkPlan& plan, size_t& at,
                                         const Port& input);

}  // namespace monsoon::cpu
