// Models, parameters and batches for the backends' tests and benchmarks.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/model/parameter_layout.h"
#include "proto/model.pb.h"
#include "worker/nn/batch.h"

namespace monsoon::testing {

// From protobuf text; a mistake in it stops the test.
Model ParseModel(const std::string& text);
ParameterLayout MakeLayout(const Model& model);

// 1x28x28: conv 20@3x3, ReLU, average pool 2, conv 50@5x5, ReLU, average pool
// 2, dense 128, ReLU, dense 10.
Model LeNet();
// 784-128-10 with ReLU.
Model Mlp();

// Bytes [64] to the next ones': embedding of 128 and positions, one block of a GPT with 4 heads,
// and 256 outputs a step. Its ids lie below kGptIds.
Model GptBlock();
inline constexpr uint32_t kGptIds = 256;
// Words [50] of kTextIds: embedding of 128, bidirectional LSTM 2 x 64, dense 64, ReLU, dense 2.
Model TextClassifier();
inline constexpr uint32_t kTextIds = 10000;

// The layout's initial values for `seed`.
std::vector<float> InitialParameters(const ParameterLayout& layout, uint64_t seed);

// Samples from N(0, 1), or with `ids` of whole numbers below it, and uniform labels, of sequences
// one for each step.
Batch RandomBatch(const ParameterLayout& layout, size_t examples, uint64_t seed, uint32_t ids = 0);

}  // namespace monsoon::testing
