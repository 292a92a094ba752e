// ReLU, sigmoid and tanh fused behind a convolution or dense layer. Backward uses the output
// alone.
#pragma once

#include <memory>

#include "worker/backend/cpu/layer.h"

namespace monsoon::cpu {

// One of these three.
bool IsActivation(LayerKind kind);

// Adds `activation` to the primitive that gets these attributes.
void FuseActivation(LayerKind activation, dnnl::primitive_attr& attributes);

// From the activation's output and its diff to the diff of its input, which
// may be the same memory.
Call MakeActivationBackward(Context& context, LayerKind activation, const dnnl::memory& output,
                            const dnnl::memory& output_diff, const dnnl::memory& input_diff);

}  // namespace monsoon::cpu
