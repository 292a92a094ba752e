// A model's network as an ONNX graph (opset 17, IR version 8): what it computes when it is
// evaluated, from "input" [batch, the model's input_shape] to "output", what the loss is of
// (logits, not probabilities). All float32, ids of an embedding too. Dropout, and augmentation but
// for its crop, are left out.
//
// Thread safety: functions without state.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/model/parameter_layout.h"
#include "proto/model.pb.h"
#include "proto/onnx.pb.h"

namespace monsoon {

inline constexpr int64_t kOnnxOpset = 17;

// A run of values of the flat parameter vector, or of zeros.
struct OnnxPiece {
  uint64_t offset = 0;
  uint64_t size = 0;
  bool zeros = false;
};

// An initializer of the graph that is made of parameters: their pieces, one after another.
struct OnnxWeights {
  std::string name;
  std::vector<int64_t> dims;
  std::vector<OnnxPiece> pieces;

  uint64_t floats() const {
    uint64_t sum = 0;
    for (const OnnxPiece& piece : pieces) {
      sum += piece.size;
    }
    return sum;
  }
};

struct OnnxGraph {
  // With the initializers that are constants; without `weights`.
  onnx::ModelProto model;
  std::vector<OnnxWeights> weights;
};

// `layout` is of `model`. InvalidArgument names a layer that ONNX has no operator for, and a model
// that lists its tensors, with what to do.
absl::StatusOr<OnnxGraph> MakeOnnxGraph(const Model& model, const ParameterLayout& layout);

}  // namespace monsoon
