#include "common/onnx/onnx_graph.h"

#include <bit>
#include <cmath>
#include <numbers>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status.h"
#include "common/model/layer_design.h"
#include "common/onnx/graph_builder.h"

namespace monsoon {
namespace {

static_assert(std::endian::native == std::endian::little, "raw_data is little-endian");

constexpr int64_t kIrVersion = 8;  // the one that came with opset 17
constexpr char kOutputName[] = "output";

// What attention adds to the scores of later steps: exp of it is 0 in float32.
constexpr float kMasked = -1e30f;

class Converter {
 public:
  Converter(const Model& model, const ParameterLayout& layout, OnnxGraph* graph)
      : model_(model), layout_(layout), graph_(*graph), builder_(graph) {}

  absl::Status Run() {
    graph_.model.set_ir_version(kIrVersion);
    graph_.model.set_producer_name("monsoon");
    graph_.model.add_opset_import()->set_version(kOnnxOpset);
    onnx::GraphProto* const graph = graph_.model.mutable_graph();
    graph->set_name(model_.name().empty() ? "model" : model_.name());
    AddValue(kInputName, layout_.input_shape(), graph->add_input());
    for (size_t i = 0; i < layout_.layers().size(); ++i) {
      const LayerShape& layer = layout_.layers()[i];
      builder_.SetLayer(layer.name);
      ASSIGN_OR_RETURN(std::string value,
                       AddLayer(KindOf(model_.layer(static_cast<int>(i))), layer));
      values_.push_back(std::move(value));
    }
    // A name that people can rely on.
    onnx::NodeProto* const last = graph->add_node();
    last->set_op_type("Identity");
    last->set_name(kOutputName);
    last->add_input(values_.back());
    last->add_output(kOutputName);
    AddValue(kOutputName, layout_.layers().back().output_shape, graph->add_output());
    return absl::OkStatus();
  }

 private:
  static void AddValue(const char* name, const std::vector<uint32_t>& shape,
                       onnx::ValueInfoProto* value) {
    value->set_name(name);
    onnx::TypeProto::Tensor* const type = value->mutable_type()->mutable_tensor_type();
    type->set_elem_type(onnx::TensorProto::FLOAT);
    type->mutable_shape()->add_dim()->set_dim_param("batch");
    for (const uint32_t extent : shape) {
      type->mutable_shape()->add_dim()->set_dim_value(extent);
    }
  }

  std::string ValueOf(int input) const {
    return input == kSampleInput ? kInputName : values_[static_cast<size_t>(input)];
  }
  const TensorInfo& Info(const LayerShape& layer, size_t index) const {
    return layout_.tensors()[static_cast<size_t>(layer.tensors[index])];
  }
  const std::string& Tensor(const LayerShape& layer, size_t index) {
    return builder_.Tensor(Info(layer, index));
  }
  std::string Unary(const char* op, const std::string& x) { return builder_.Node(op, {x}).out(); }
  std::string Binary(const char* op, const std::string& x, const std::string& y) {
    return builder_.Node(op, {x, y}).out();
  }
  std::string Transpose(const std::string& x, const OnnxInts& order) {
    return builder_.Node("Transpose", {x}).Ints("perm", order).out();
  }
  // An extent of 0 is that of x.
  std::string Reshape(const std::string& x, const OnnxInts& shape) {
    return Binary("Reshape", x, builder_.Ints("shape", shape));
  }

  // The name of the layer's output.
  absl::StatusOr<std::string> AddLayer(LayerKind kind, const LayerShape& layer) {
    const std::string x = ValueOf(layer.inputs[0]);
    switch (kind) {
      case LayerKind::kDense:
        return Dense(layer, x);
      case LayerKind::kConv2d:
        return Conv(layer, x);
      case LayerKind::kAveragePool2d:
        return Pool("AveragePool", layer, x);
      case LayerKind::kMaxPool2d:
        return Pool("MaxPool", layer, x);
      case LayerKind::kRelu:
        return Unary("Relu", x);
      case LayerKind::kSigmoid:
        return Unary("Sigmoid", x);
      case LayerKind::kTanh:
        return Unary("Tanh", x);
      case LayerKind::kGelu:
        return Gelu(x);
      case LayerKind::kDropout:
        return x;
      case LayerKind::kFlatten:
        return builder_.Node("Flatten", {x}).Int("axis", 1).out();
      case LayerKind::kAdd:
        return Join("Add", layer);
      case LayerKind::kMultiply:
        return Join("Mul", layer);
      case LayerKind::kConcat:
        return Concat(layer);
      case LayerKind::kBatchNorm:
        return BatchNorm(layer, x);
      case LayerKind::kLayerNorm:
        return LayerNorm(layer, x);
      case LayerKind::kEmbedding: {
        const std::string ids =
            builder_.Node("Cast", {x}).Int("to", onnx::TensorProto::INT64).out();
        return Binary("Gather", Tensor(layer, 0), ids);
      }
      case LayerKind::kPositionEmbedding:
        return Binary("Add", x, Tensor(layer, 0));
      case LayerKind::kLstm:
        return Lstm(layer, x);
      case LayerKind::kSelfAttention:
        return SelfAttention(layer, x);
      case LayerKind::kGlobalAveragePool:
        return GlobalAveragePool(layer, x);
      case LayerKind::kRescale: {
        const std::string scaled =
            Binary("Mul", x, builder_.Scalar("scale", static_cast<float>(layer.settings.scale)));
        return Binary("Add", scaled,
                      builder_.Scalar("offset", static_cast<float>(layer.settings.offset)));
      }
      case LayerKind::kAugment:
        return Augment(layer, x);
      case LayerKind::kLocallyConnected2d:
      case LayerKind::kLocalContrastNorm:
        return absl::InvalidArgumentError(absl::StrCat(
            "layer \"", layer.name, "\": ONNX has no operator for ",
            kind == LayerKind::kLocallyConnected2d ? "locally_connected2d" : "local_contrast_norm",
            "; export the model as .npz or .safetensors"));
    }
    return absl::InternalError("unknown layer");
  }

  std::string Dense(const LayerShape& layer, const std::string& x) {
    const bool has_bias = layer.tensors.size() == 2;
    if (layer.input_shape.size() == 1) {
      std::vector<std::string> inputs = {x, Tensor(layer, 0)};
      if (has_bias) {
        inputs.push_back(Tensor(layer, 1));
      }
      return builder_.Node("Gemm", inputs).Int("transB", 1).out();
    }
    return Linear(x, Tensor(layer, 0), has_bias ? Tensor(layer, 1) : "");
  }

  // At each step of a sequence: x W^T + b.
  std::string Linear(const std::string& x, const std::string& weight, const std::string& bias) {
    const std::string product = Binary("MatMul", x, Transpose(weight, {1, 0}));
    return bias.empty() ? product : Binary("Add", product, bias);
  }

  std::string Conv(const LayerShape& layer, const std::string& x) {
    std::vector<std::string> inputs = {x, Tensor(layer, 0)};
    if (layer.tensors.size() == 2) {
      inputs.push_back(Tensor(layer, 1));
    }
    const auto kernel = static_cast<int64_t>(layer.settings.window);
    const auto stride = static_cast<int64_t>(layer.settings.stride);
    const auto padding = static_cast<int64_t>(layer.settings.padding);
    return builder_.Node("Conv", inputs)
        .Ints("kernel_shape", {kernel, kernel})
        .Ints("strides", {stride, stride})
        .Ints("pads", OnnxInts(4, padding))
        .out();
  }

  std::string Pool(const char* op, const LayerShape& layer, const std::string& x) {
    const auto window = static_cast<int64_t>(layer.settings.window);
    const auto stride = static_cast<int64_t>(layer.settings.stride);
    return builder_.Node(op, {x})
        .Ints("kernel_shape", {window, window})
        .Ints("strides", {stride, stride})
        .out();
  }

  // x / 2 * (1 + erf(x / sqrt(2))): opset 17 has no Gelu.
  std::string Gelu(const std::string& x) {
    const std::string scaled =
        Binary("Mul", x, builder_.Scalar("root_half", std::numbers::sqrt2_v<float> / 2));
    const std::string normal = Binary("Add", Unary("Erf", scaled), builder_.Scalar("one", 1.0f));
    return Binary("Mul", Binary("Mul", x, builder_.Scalar("half", 0.5f)), normal);
  }

  std::string Join(const char* op, const LayerShape& layer) {
    std::string joined = ValueOf(layer.inputs[0]);
    for (size_t i = 1; i < layer.inputs.size(); ++i) {
      joined = Binary(op, joined, ValueOf(layer.inputs[i]));
    }
    return joined;
  }

  std::string Concat(const LayerShape& layer) {
    std::vector<std::string> inputs;
    for (const int input : layer.inputs) {
      inputs.push_back(ValueOf(input));
    }
    // Behind the batch: channels of images, features of all else.
    const int64_t axis = layer.input_shape.size() == 2 ? 2 : 1;
    return builder_.Node("Concat", inputs).Int("axis", axis).out();
  }

  std::string BatchNorm(const LayerShape& layer, const std::string& x) {
    const bool has_scale = layer.tensors.size() == 4;
    const auto channels = static_cast<int64_t>(Info(layer, 0).size);
    const auto constant = [&](const char* name, float value) {
      return builder_.Floats(name, {channels},
                             std::vector<float>(static_cast<size_t>(channels), value));
    };
    std::vector<std::string> inputs = {x};
    inputs.push_back(has_scale ? Tensor(layer, 0) : constant("scale", 1));
    inputs.push_back(has_scale ? Tensor(layer, 1) : constant("shift", 0));
    inputs.push_back(Tensor(layer, has_scale ? 2 : 0));
    inputs.push_back(Tensor(layer, has_scale ? 3 : 1));
    return builder_.Node("BatchNormalization", inputs)
        .Float("epsilon", static_cast<float>(layer.settings.epsilon))
        .out();
  }

  std::string LayerNorm(const LayerShape& layer, const std::string& x) {
    std::vector<std::string> inputs = {x, Tensor(layer, 0)};
    if (layer.tensors.size() == 2) {
      inputs.push_back(Tensor(layer, 1));
    }
    return builder_.Node("LayerNormalization", inputs)
        .Int("axis", -1)
        .Float("epsilon", static_cast<float>(layer.settings.epsilon))
        .out();
  }

  // ONNX has the gates in the order i, o, f, c (our g), and a bias of the recurrence too.
  std::string Lstm(const LayerShape& layer, const std::string& x) {
    constexpr uint64_t kGates[] = {0, 3, 1, 2};
    const auto units = static_cast<int64_t>(layer.settings.units);
    const auto features = static_cast<int64_t>(layer.input_shape[1]);
    const int64_t directions = layer.settings.bidirectional ? 2 : 1;
    std::vector<OnnxPiece> weight, recurrent, bias;
    for (size_t direction = 0; direction < layer.tensors.size() / 3; ++direction) {
      const auto reorder = [&](size_t tensor, std::vector<OnnxPiece>* pieces) {
        const TensorInfo& info = Info(layer, 3 * direction + tensor);
        for (const uint64_t gate : kGates) {
          pieces->push_back({.offset = info.offset + gate * info.size / 4, .size = info.size / 4});
        }
        return info.size;
      };
      reorder(0, &weight);
      reorder(1, &recurrent);
      const uint64_t size = reorder(2, &bias);
      bias.push_back({.size = size, .zeros = true});
    }
    const std::string steps_first = Transpose(x, {1, 0, 2});
    const NodeBuilder node =
        builder_
            .Node(
                "LSTM",
                {steps_first, builder_.Weights("weight", {directions, 4 * units, features}, weight),
                 builder_.Weights("recurrent", {directions, 4 * units, units}, recurrent),
                 builder_.Weights("bias", {directions, 8 * units}, bias)},
                2)
            .Int("hidden_size", units)
            .String("direction", directions == 2 ? "bidirectional" : "forward");
    // All h: [steps, directions, batch, units]; the last: [directions, batch, units].
    return layer.settings.sequences
               ? Reshape(Transpose(node.out(0), {2, 0, 1, 3}), {0, 0, directions * units})
               : Reshape(Transpose(node.out(1), {1, 0, 2}), {0, directions * units});
  }

  std::string SelfAttention(const LayerShape& layer, const std::string& x) {
    const bool has_bias = layer.tensors.size() == 4;
    const auto steps = static_cast<int64_t>(layer.input_shape[0]);
    const auto features = static_cast<int64_t>(layer.input_shape[1]);
    const auto heads = static_cast<int64_t>(layer.settings.heads);
    const std::string all = Linear(x, Tensor(layer, 0), has_bias ? Tensor(layer, 1) : "");
    const NodeBuilder parts = builder_.Node("Split", {all}, 3).Int("axis", 2);
    const OnnxInts by_heads = {0, 0, heads, features / heads};
    const std::string q = Transpose(Reshape(parts.out(0), by_heads), {0, 2, 1, 3});
    const std::string k = Transpose(Reshape(parts.out(1), by_heads), {0, 2, 3, 1});
    const std::string v = Transpose(Reshape(parts.out(2), by_heads), {0, 2, 1, 3});
    const double scale = std::sqrt(static_cast<double>(heads) / static_cast<double>(features));
    std::string scores =
        Binary("Mul", Binary("MatMul", q, k), builder_.Scalar("scale", static_cast<float>(scale)));
    if (layer.settings.causal) {
      std::vector<float> mask(static_cast<size_t>(steps * steps));
      for (int64_t row = 0; row < steps; ++row) {
        for (int64_t column = row + 1; column < steps; ++column) {
          mask[static_cast<size_t>(row * steps + column)] = kMasked;
        }
      }
      scores = Binary("Add", scores, builder_.Floats("mask", {steps, steps}, mask));
    }
    const std::string weights = builder_.Node("Softmax", {scores}).Int("axis", -1).out();
    const std::string mixed =
        Reshape(Transpose(Binary("MatMul", weights, v), {0, 2, 1, 3}), {0, 0, features});
    return Linear(mixed, Tensor(layer, has_bias ? 2 : 1), has_bias ? Tensor(layer, 3) : "");
  }

  std::string GlobalAveragePool(const LayerShape& layer, const std::string& x) {
    if (layer.input_shape.size() == 3) {
      return builder_.Node("Flatten", {Unary("GlobalAveragePool", x)}).Int("axis", 1).out();
    }
    return builder_.Node("ReduceMean", {x}).Ints("axes", {1}).Int("keepdims", 0).out();
  }

  // The middle, where it crops.
  std::string Augment(const LayerShape& layer, const std::string& x) {
    const auto crop = static_cast<int64_t>(layer.settings.crop);
    if (crop == 0) {
      return x;
    }
    const int64_t top = (int64_t{layer.input_shape[1]} - crop) / 2;
    const int64_t left = (int64_t{layer.input_shape[2]} - crop) / 2;
    return builder_
        .Node("Slice",
              {x, builder_.Ints("from", {top, left}),
               builder_.Ints("to", {top + crop, left + crop}), builder_.Ints("axes", {2, 3})})
        .out();
  }

  const Model& model_;
  const ParameterLayout& layout_;
  OnnxGraph& graph_;
  GraphBuilder builder_;
  std::vector<std::string> values_;  // of the layers so far
};

}  // namespace

absl::StatusOr<OnnxGraph> MakeOnnxGraph(const Model& model, const ParameterLayout& layout) {
  if (model.layer_size() == 0) {
    return absl::InvalidArgumentError(
        "only the programs that train the model know its network; export it as .npz or "
        ".safetensors, or from the program");
  }
  CHECK_EQ(static_cast<size_t>(model.layer_size()), layout.layers().size());
  OnnxGraph graph;
  RETURN_IF_ERROR(Converter(model, layout, &graph).Run());
  return graph;
}

}  // namespace monsoon
