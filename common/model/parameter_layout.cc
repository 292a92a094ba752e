#include "common/model/parameter_layout.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/status.h"

namespace monsoon {
namespace {

using Shape = std::vector<uint32_t>;

// Bounds that keep every product below far from overflow.
constexpr uint64_t kMaxExtent = 1u << 24;
constexpr uint64_t kMaxLayoutFloats = 1ull << 40;

std::string ShapeText(const Shape& shape) {
  return absl::StrCat("[", absl::StrJoin(shape, ", "), "]");
}

uint64_t ElementCount(const Shape& shape) {
  uint64_t count = 1;
  for (uint32_t extent : shape) {
    count *= extent;
    if (count > kMaxLayoutFloats) {
      return kMaxLayoutFloats;
    }
  }
  return count;
}

uint32_t OrDefault(uint32_t value, uint32_t otherwise) { return value == 0 ? otherwise : value; }

const char* KindName(Layer::KindCase kind) {
  switch (kind) {
    case Layer::kDense:
      return "dense";
    case Layer::kConv2D:
      return "conv";
    case Layer::kAveragePool2D:
      return "average_pool";
    case Layer::kMaxPool2D:
      return "max_pool";
    case Layer::kRelu:
      return "relu";
    case Layer::kSigmoid:
      return "sigmoid";
    case Layer::kTanh:
      return "tanh";
    case Layer::kDropout:
      return "dropout";
    case Layer::kFlatten:
      return "flatten";
    case Layer::KIND_NOT_SET:
      return "";
  }
  return "";
}

absl::Status LayerError(const std::string& layer, const std::string& message) {
  return absl::InvalidArgumentError(absl::StrCat("layer \"", layer, "\": ", message));
}

absl::Status TensorError(const std::string& tensor, const std::string& message) {
  return absl::InvalidArgumentError(absl::StrCat("tensor \"", tensor, "\": ", message));
}

absl::Status CheckTensorName(const std::string& name) {
  const bool printable =
      std::ranges::all_of(name, [](unsigned char c) { return c > 0x20 && c < 0x7f; });
  if (name.empty() || name.size() > kMaxTensorNameBytes || !printable) {
    return TensorError(name.substr(0, 64),
                       absl::StrCat("a tensor's name has 1 to ", kMaxTensorNameBytes,
                                    " printable characters without blanks"));
  }
  return absl::OkStatus();
}

// (extent + 2 padding - window) / stride + 1, or an error that says why not.
absl::StatusOr<uint32_t> WindowedExtent(const std::string& layer, uint32_t extent, uint32_t window,
                                        uint32_t stride, uint32_t padding) {
  if (window == 0) {
    return LayerError(layer, "the window must be at least 1");
  }
  const uint64_t padded = uint64_t{extent} + 2 * uint64_t{padding};
  if (window > padded) {
    return LayerError(layer, absl::StrCat("a window of ", window, " does not fit an input of ",
                                          padded, " (padding included)"));
  }
  return static_cast<uint32_t>((padded - window) / stride + 1);
}

// A tensor before it has an offset.
struct Wanted {
  const char* suffix;
  Shape shape;
  uint64_t fan_in;
  uint64_t fan_out;
  Initializer initializer;
};

struct LayerPlan {
  Shape output;
  std::vector<Wanted> tensors;
};

absl::StatusOr<LayerPlan> PlanDense(const std::string& name, const Dense& dense,
                                    const Shape& input) {
  if (input.size() != 1) {
    return LayerError(name, absl::StrCat("dense needs a flat input, got ", ShapeText(input),
                                         "; put a flatten layer before it"));
  }
  if (dense.units() == 0 || dense.units() > kMaxExtent) {
    return LayerError(name, absl::StrCat("units must lie in 1 .. ", kMaxExtent));
  }
  LayerPlan plan{{dense.units()}, {}};
  const uint64_t fan_in = input[0], fan_out = dense.units();
  plan.tensors.push_back(
      {"weight", {dense.units(), input[0]}, fan_in, fan_out, dense.weight_initializer()});
  if (!dense.no_bias()) {
    plan.tensors.push_back({"bias", {dense.units()}, fan_in, fan_out, dense.bias_initializer()});
  }
  return plan;
}

absl::StatusOr<LayerPlan> PlanConv2d(const std::string& name, const Conv2d& conv,
                                     const Shape& input) {
  if (input.size() != 3) {
    return LayerError(name, absl::StrCat("conv2d needs an input [channels, height, width], got ",
                                         ShapeText(input)));
  }
  if (conv.filters() == 0 || conv.filters() > kMaxExtent || conv.kernel() > kMaxExtent ||
      conv.padding() > kMaxExtent) {
    return LayerError(name, "filters must be at least 1, and no setting over 2^24");
  }
  const uint32_t stride = OrDefault(conv.stride(), 1);
  ASSIGN_OR_RETURN(const uint32_t height,
                   WindowedExtent(name, input[1], conv.kernel(), stride, conv.padding()));
  ASSIGN_OR_RETURN(const uint32_t width,
                   WindowedExtent(name, input[2], conv.kernel(), stride, conv.padding()));
  const uint64_t area = uint64_t{conv.kernel()} * conv.kernel();
  const uint64_t fan_in = input[0] * area, fan_out = conv.filters() * area;
  LayerPlan plan{{conv.filters(), height, width}, {}};
  plan.tensors.push_back({"weight",
                          {conv.filters(), input[0], conv.kernel(), conv.kernel()},
                          fan_in,
                          fan_out,
                          conv.weight_initializer()});
  if (!conv.no_bias()) {
    plan.tensors.push_back({"bias", {conv.filters()}, fan_in, fan_out, conv.bias_initializer()});
  }
  return plan;
}

absl::StatusOr<LayerPlan> PlanPool2d(const std::string& name, const Pool2d& pool,
                                     const Shape& input) {
  if (input.size() != 3) {
    return LayerError(name, absl::StrCat("pooling needs an input [channels, height, width], got ",
                                         ShapeText(input)));
  }
  const uint32_t stride = OrDefault(pool.stride(), pool.window());
  ASSIGN_OR_RETURN(const uint32_t height, WindowedExtent(name, input[1], pool.window(), stride, 0));
  ASSIGN_OR_RETURN(const uint32_t width, WindowedExtent(name, input[2], pool.window(), stride, 0));
  return LayerPlan{{input[0], height, width}, {}};
}

absl::StatusOr<LayerPlan> PlanLayer(const std::string& name, const Layer& layer,
                                    const Shape& input) {
  switch (layer.kind_case()) {
    case Layer::kDense:
      return PlanDense(name, layer.dense(), input);
    case Layer::kConv2D:
      return PlanConv2d(name, layer.conv2d(), input);
    case Layer::kAveragePool2D:
      return PlanPool2d(name, layer.average_pool2d(), input);
    case Layer::kMaxPool2D:
      return PlanPool2d(name, layer.max_pool2d(), input);
    case Layer::kFlatten:
      return LayerPlan{{static_cast<uint32_t>(ElementCount(input))}, {}};
    case Layer::kDropout:
      if (!(layer.dropout().rate() >= 0.0 && layer.dropout().rate() < 1.0)) {
        return LayerError(name, "the dropout rate must lie in [0, 1)");
      }
      return LayerPlan{input, {}};
    case Layer::kRelu:
    case Layer::kSigmoid:
    case Layer::kTanh:
      return LayerPlan{input, {}};
    case Layer::KIND_NOT_SET:
      break;
  }
  return LayerError(name, "no kind is set; write for example dense { units: 10 }");
}

// FNV-1a over 64-bit words: stable across builds, unlike absl::Hash.
class LayoutHasher {
 public:
  void Add(uint64_t value) {
    for (int byte = 0; byte < 8; ++byte) {
      hash_ = (hash_ ^ ((value >> (8 * byte)) & 0xff)) * 0x100000001b3ull;
    }
  }
  void Add(const std::string& text) {
    Add(text.size());
    for (unsigned char c : text) {
      hash_ = (hash_ ^ c) * 0x100000001b3ull;
    }
  }
  void Add(const Shape& shape) {
    Add(shape.size());
    for (uint32_t extent : shape) {
      Add(extent);
    }
  }
  uint64_t hash() const { return hash_; }

 private:
  uint64_t hash_ = 0xcbf29ce484222325ull;
};

// Settings that change what a layer computes but not its tensors' shapes.
void AddLayerSettings(const Layer& layer, LayoutHasher& hasher) {
  hasher.Add(static_cast<uint64_t>(layer.kind_case()));
  switch (layer.kind_case()) {
    case Layer::kConv2D:
      hasher.Add(OrDefault(layer.conv2d().stride(), 1));
      hasher.Add(layer.conv2d().padding());
      return;
    case Layer::kAveragePool2D:
      hasher.Add(layer.average_pool2d().window());
      hasher.Add(OrDefault(layer.average_pool2d().stride(), layer.average_pool2d().window()));
      return;
    case Layer::kMaxPool2D:
      hasher.Add(layer.max_pool2d().window());
      hasher.Add(OrDefault(layer.max_pool2d().stride(), layer.max_pool2d().window()));
      return;
    case Layer::kDropout:
      hasher.Add(static_cast<uint64_t>(layer.dropout().rate() * 0x1p32));
      return;
    default:
      return;
  }
}

}  // namespace

absl::Status ParameterLayout::CheckInput(const Model& model) {
  if (model.input_shape_size() == 0 || model.input_shape_size() > 4) {
    return absl::InvalidArgumentError(
        "input_shape needs 1 to 4 extents, as in input_shape: [1, 28, 28]");
  }
  for (uint32_t extent : model.input_shape()) {
    if (extent == 0 || extent > kMaxExtent) {
      return absl::InvalidArgumentError(
          absl::StrCat("each extent of input_shape must lie in 1 .. ", kMaxExtent));
    }
  }
  if (ElementCount(Shape(model.input_shape().begin(), model.input_shape().end())) > kMaxExtent) {
    return absl::InvalidArgumentError(
        absl::StrCat("input_shape has more than ", kMaxExtent, " elements"));
  }
  if (model.layer_size() == 0) {
    return absl::InvalidArgumentError("a model needs at least one layer");
  }
  if (model.layer_size() > kMaxLayoutLayers) {
    return absl::InvalidArgumentError(absl::StrCat("a model of ", model.layer_size(),
                                                   " layers; the limit is ", kMaxLayoutLayers));
  }
  return absl::OkStatus();
}

bool ParameterLayout::Append(TensorInfo tensor) {
  tensor.offset = size_;
  parameters_ += tensor.size;
  size_ += (tensor.size + kAlignmentFloats - 1) / kAlignmentFloats * kAlignmentFloats;
  tensors_.push_back(std::move(tensor));
  return size_ <= kMaxLayoutFloats;
}

absl::StatusOr<ParameterLayout> ParameterLayout::Create(const Model& model) {
  if (model.tensor_size() > 0) {
    return CreateFromTensors(model);
  }
  RETURN_IF_ERROR(ReadTables(model).status());  // there is none
  RETURN_IF_ERROR(CheckInput(model));
  ParameterLayout layout;
  LayoutHasher hasher;
  std::map<Layer::KindCase, int> count_of_kind;
  std::set<std::string> names;
  Shape shape(model.input_shape().begin(), model.input_shape().end());
  hasher.Add(shape);
  for (const Layer& layer : model.layer()) {
    const int number = ++count_of_kind[layer.kind_case()];
    LayerShape entry;
    entry.name =
        layer.name().empty() ? absl::StrCat(KindName(layer.kind_case()), number) : layer.name();
    if (!names.insert(entry.name).second) {
      return LayerError(entry.name, "the name is used twice");
    }
    entry.input_shape = shape;
    ASSIGN_OR_RETURN(LayerPlan plan, PlanLayer(entry.name, layer, shape));
    if (ElementCount(plan.output) > kMaxExtent) {
      return LayerError(entry.name, absl::StrCat("its output ", ShapeText(plan.output),
                                                 " has more than ", kMaxExtent, " elements"));
    }
    AddLayerSettings(layer, hasher);
    for (Wanted& wanted : plan.tensors) {
      TensorInfo tensor;
      tensor.name = absl::StrCat(entry.name, "/", wanted.suffix);
      tensor.size = ElementCount(wanted.shape);
      tensor.shape = std::move(wanted.shape);
      tensor.fan_in = wanted.fan_in;
      tensor.fan_out = wanted.fan_out;
      tensor.initializer = wanted.initializer;
      hasher.Add(tensor.name);
      hasher.Add(tensor.shape);
      hasher.Add(layout.size_);
      (std::string(wanted.suffix) == "bias" ? entry.bias : entry.weight) =
          static_cast<int>(layout.tensors_.size());
      if (!layout.Append(std::move(tensor))) {
        return LayerError(entry.name, "the model has more than 2^40 parameters");
      }
    }
    shape = plan.output;
    entry.output_shape = shape;
    layout.layers_.push_back(std::move(entry));
  }
  if (layout.tensors_.empty()) {
    return absl::InvalidArgumentError("the model has no layer with parameters");
  }
  if (shape.size() != 1) {
    return LayerError(layout.layers_.back().name,
                      absl::StrCat("the loss needs a flat output, got ", ShapeText(shape),
                                   "; end with flatten or dense"));
  }
  hasher.Add(static_cast<uint64_t>(model.loss()));
  layout.hash_ = hasher.hash();
  return layout;
}

absl::StatusOr<ParameterLayout> ParameterLayout::CreateFromTensors(const Model& model) {
  if (model.input_shape_size() > 0 || model.layer_size() > 0) {
    return absl::InvalidArgumentError(
        "a model lists either its tensors or its input_shape and layers, not both");
  }
  if (model.tensor_size() > kMaxLayoutTensors) {
    return absl::InvalidArgumentError(absl::StrCat("a model of ", model.tensor_size(),
                                                   " tensors; the limit is ", kMaxLayoutTensors));
  }
  ParameterLayout layout;
  LayoutHasher hasher;
  std::set<std::string> names;
  size_t name_bytes = 0;
  for (const ModelTensor& listed : model.tensor()) {
    std::vector<std::string> all(listed.alias().begin(), listed.alias().end());
    all.insert(all.begin(), listed.name());
    for (const std::string& name : all) {
      RETURN_IF_ERROR(CheckTensorName(name));
      if (!names.insert(name).second) {
        return TensorError(name, "the name is used twice");
      }
      name_bytes += name.size();
      hasher.Add(name);
    }
    TensorInfo tensor;
    tensor.name = listed.name();
    tensor.shape = Shape(listed.shape().begin(), listed.shape().end());
    tensor.size = ElementCount(tensor.shape);
    if (tensor.size == 0 || tensor.size >= kMaxLayoutFloats) {
      return TensorError(tensor.name, absl::StrCat("the shape ", ShapeText(tensor.shape),
                                                   " has no elements, or too many"));
    }
    tensor.initializer.set_constant(0);
    tensor.is_statistic = listed.kind() == ModelTensor::STATISTIC;
    hasher.Add(all.size());
    hasher.Add(tensor.shape);
    hasher.Add(static_cast<uint64_t>(listed.kind()));
    if (!layout.Append(std::move(tensor))) {
      return TensorError(listed.name(), "the model has more than 2^40 parameters");
    }
  }
  if (name_bytes > kMaxLayoutNameBytes) {
    return absl::InvalidArgumentError(absl::StrCat("the names of the model's tensors have ",
                                                   name_bytes, " bytes; the limit is ",
                                                   kMaxLayoutNameBytes));
  }
  ASSIGN_OR_RETURN(layout.tables_, ReadTables(model));
  for (const TableInfo& table : layout.tables_) {
    hasher.Add(table.name);
    hasher.Add(table.rows);
    hasher.Add(table.columns);
  }
  layout.hash_ = hasher.hash();
  return layout;
}

uint32_t ParameterLayout::output_units() const {
  return layers_.empty() ? 0 : layers_.back().output_shape[0];
}

}  // namespace monsoon
