// The weights of a network that are matrices, and how they lie in its parameter vector: what an
// optimizer of whole matrices (Optimizer.muon) may move.
//
// Thread safety: a pure function.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "common/model/parameter_layout.h"
#include "proto/model.pb.h"

namespace monsoon {

// Row after row, without gaps: a row for each output, as torch has it.
struct WeightMatrix {
  std::string tensor;  // "dense1/weight"
  uint64_t begin = 0;  // in the parameter vector
  size_t rows = 0;
  size_t columns = 0;

  uint64_t end() const { return begin + uint64_t{rows} * columns; }
};

// Those of `model`, which `layout` is of, ascending. A convolution's is its filters by all that
// each of them reads; a locally connected layer's has the filters of all places for rows; an lstm's
// and an attention's have their gates, and queries, keys and values, below one another. Biases,
// normalisations, statistics and the tables of embeddings are none, whatever else uses such a
// table. Of a model that lists its tensors there are none: its programs bring their optimizers.
std::vector<WeightMatrix> WeightMatrices(const Model& model, const ParameterLayout& layout);

}  // namespace monsoon
