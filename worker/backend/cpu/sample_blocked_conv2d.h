// Convolution with what is behind it, ReLU and average pooling, in one layer of
// our own. It is vectorised over the samples: the batch is blocked by
// 16, and the samples of a block lie side by side (oneDNN's format Abcd16a; see
// sample_blocked_loops.h). The layer keeps the pooled values and one bit for each
// output that passed the ReLU. Threads share the blocks, and their sums of gradients
// are added in order: the bits hang on the number of threads, not on who came first.
//
// LeNet's second convolution, batch 128, all three passes: 13.8 ms, against 20.2
// for oneDNN's best, channels last; its first one, with ReLU and pooling, 1.1
// against 3.5 (EPYC, AVX-512).
#pragma once

#include <cstddef>
#include <memory>

#include "worker/backend/cpu/layer.h"

namespace monsoon::cpu {

// True of a chain where all that the model does to images is convolutions with stride 1
// and no padding, each followed by nothing, ReLU, average pooling of disjoint
// windows, or both in this order, and dropout; there is a block of samples for each
// thread; and the last block is nearly full.
bool SuitsSampleBlocks(const NetworkPlan& plan, size_t examples, int threads);

// [n, c, h, w] in memory as [block of 16 samples][c][h][w][sample].
dnnl::memory::desc SampleBlockedDesc(size_t examples, const Extent& extent);

// The layer for the convolution plan.layers[at] and what is fused behind it;
// moves `at` to the next one. `plan` suits sample blocks, and the
// input has SampleBlockedDesc; of the arguments, buffers have no meaning. Runs on `threads`
// threads.
std::unique_ptr<CpuLayer> MakeSampleBlockedConv2d(const LayerArguments& arguments, int threads,
                                                  const NetworkPlan& plan, size_t& at);

}  // namespace monsoon::cpu
