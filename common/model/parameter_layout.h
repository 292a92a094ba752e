// ParameterLayout: where each named tensor of a model lies in the one flat
// float32 parameter vector. Knows shapes and initialisers, no compute. Every
// process derives the same layout from the same Model: from its layers, or from the
// tensors that it lists (Model.tensor).
//
// Tensors start at multiples of 64 bytes (kAlignmentFloats). Padding between
// them is zero, is not counted as parameters and is not exported.
//
// Thread safety: immutable after Create.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/model/layer_settings.h"
#include "common/model/table_info.h"
#include "proto/model.pb.h"

namespace monsoon {

inline constexpr uint64_t kAlignmentFloats = 16;  // 64 bytes: one cache line.

// Of one model: what describes it stays small, whoever sends it.
inline constexpr int kMaxLayoutLayers = 1024;
inline constexpr int kMaxLayoutTensors = 4096;
inline constexpr size_t kMaxTensorNameBytes = 512;
// All names of a model that lists its tensors, aliases included.
inline constexpr size_t kMaxLayoutNameBytes = 160 * 1024;

struct TensorInfo {
  std::string name;             // "conv1/weight"
  std::vector<uint32_t> shape;  // weights: OIHW or [out, in]
  uint64_t offset = 0;          // in floats, a multiple of kAlignmentFloats
  uint64_t size = 0;            // in floats, without padding
  uint64_t fan_in = 0;
  uint64_t fan_out = 0;
  Initializer initializer;
  // Pushed as ModelTensor.STATISTIC says.
  bool is_statistic = false;
  // What decay may leave out: biases, and scales and shifts of normalisations.
  bool is_bias = false;
};

// In LayerShape.inputs: the sample. And its name in a model file.
inline constexpr int kSampleInput = -1;
inline constexpr char kInputName[] = "input";

// A layer with all that was left open filled in.
struct LayerShape {
  std::string name;                   // as given, or made up ("dense2")
  std::vector<int> inputs;            // indices into layers(), of layers before it; at least one
  std::vector<uint32_t> input_shape;  // of the first, without the batch dimension
  std::vector<uint32_t> output_shape;
  std::vector<int> tensors;  // indices into tensors(), in the order of its design
  LayerSettings settings;
};

class ParameterLayout {
 public:
  // What of Create's judgement is about the input alone: its shape, and that there
  // is a layer.
  static absl::Status CheckInput(const Model& model);
  // What of it is about the layers one by one: each fits what it takes. The last one need not fit
  // the loss, and values need not be taken.
  static absl::Status CheckLayers(const Model& model);
  // Infers shapes from the input on. Errors name the layer and both shapes, or the tensor.
  static absl::StatusOr<ParameterLayout> Create(const Model& model);

  const std::vector<TensorInfo>& tensors() const { return tensors_; }
  // None of a model that lists its tensors.
  const std::vector<LayerShape>& layers() const { return layers_; }

  const std::vector<uint32_t>& input_shape() const { return input_shape_; }
  // Of an entry of LayerShape.inputs.
  const std::vector<uint32_t>& ShapeOf(int input) const;

  // Beside the flat vector, of a model that lists its tensors.
  const std::vector<TableInfo>& tables() const { return tables_; }

  // Length of the flat vector in floats, padding included; a multiple of
  // kAlignmentFloats.
  uint64_t size() const { return size_; }
  // Without padding: what "parameters" means everywhere.
  uint64_t parameters() const { return parameters_; }
  // Of names, shapes, offsets and layer kinds with their settings; equal for
  // equal models in every build. Peers compare it before they exchange floats.
  uint64_t Hash() const { return hash_; }

  // Outputs the loss sees, of sequences at each step: the last layer's last extent; 0: not known
  // here.
  uint32_t output_units() const;

 private:
  class LayoutHasher;

  // Of a model without tensors and tables, and with a good input.
  absl::Status AddLayers(const Model& model, LayoutHasher& hasher);
  // `entry` has its name and inputs.
  absl::Status AddLayer(const Layer& layer, LayerShape entry, LayoutHasher& hasher);
  absl::Status CheckUses() const;
  const TensorInfo* FindTensor(const std::string& name) const;
  static absl::StatusOr<ParameterLayout> CreateFromTensors(const Model& model);
  // At the end. False: the vector would be too long.
  bool Append(TensorInfo tensor);

  std::vector<uint32_t> input_shape_;
  std::vector<TensorInfo> tensors_;
  std::vector<LayerShape> layers_;
  std::vector<TableInfo> tables_;
  uint64_t size_ = 0;
  uint64_t parameters_ = 0;
  uint64_t hash_ = 0;
};

}  // namespace monsoon
