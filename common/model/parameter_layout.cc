#include "common/model/parameter_layout.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/inner_path.h"
#include "common/base/status.h"
#include "common/model/layer_design.h"

namespace monsoon {
namespace {

using Shape = LayerTensorShape;

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
  // In an archive that is unpacked it names a file.
  return IsInnerPath(name) ? absl::OkStatus()
                           : TensorError(name, "a tensor's name is no path that leaves its folder");
}

}  // namespace

// FNV-1a over 64-bit words: stable across builds, unlike absl::Hash.
class ParameterLayout::LayoutHasher {
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

absl::Status ParameterLayout::CheckInput(const Model& model) {
  if (model.input_shape_size() == 0 || model.input_shape_size() > 3) {
    return absl::InvalidArgumentError(
        "input_shape needs 1 to 3 extents, as in input_shape: [1, 28, 28]");
  }
  for (uint32_t extent : model.input_shape()) {
    if (extent == 0 || extent > kMaxLayerExtent) {
      return absl::InvalidArgumentError(
          absl::StrCat("each extent of input_shape must lie in 1 .. ", kMaxLayerExtent));
    }
  }
  if (ElementCount(Shape(model.input_shape().begin(), model.input_shape().end())) >
      kMaxLayerExtent) {
    return absl::InvalidArgumentError(
        absl::StrCat("input_shape has more than ", kMaxLayerExtent, " elements"));
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
  return size_ < kMaxLayoutFloats;
}

absl::Status ParameterLayout::AddLayer(const Layer& layer, LayerShape entry, LayoutHasher& hasher) {
  LayerInputs inputs;
  for (const int input : entry.inputs) {
    inputs.shapes.push_back(ShapeOf(input));
  }
  inputs.tensor_of = [this](const std::string& name, const std::string& suffix) {
    const TensorInfo* const tensor = FindTensor(name + "/" + suffix);
    return tensor == nullptr ? Shape() : tensor->shape;
  };
  entry.input_shape = inputs.first();
  if (layer.has_embedding() && entry.inputs.front() != kSampleInput) {
    return LayerError(entry.name, "an embedding reads the sample's ids: write input: \"input\"");
  }
  absl::StatusOr<LayerDesign> design = DesignLayer(layer, inputs);
  if (!design.ok()) {
    return LayerError(entry.name, std::string(design.status().message()));
  }
  if (ElementCount(design->output) > kMaxLayerExtent) {
    return LayerError(entry.name, absl::StrCat("its output ", LayerShapeText(design->output),
                                               " has more than ", kMaxLayerExtent, " elements"));
  }
  hasher.Add(static_cast<uint64_t>(layer.kind_case()));
  for (const uint64_t setting : design->hashed) {
    hasher.Add(setting);
  }
  for (WantedTensor& wanted : design->tensors) {
    if (!wanted.tied_to.empty()) {
      const TensorInfo* const tied = FindTensor(wanted.tied_to + "/" + wanted.suffix);
      hasher.Add(tied->name);
      entry.tensors.push_back(static_cast<int>(tied - tensors_.data()));
      continue;
    }
    TensorInfo tensor;
    tensor.name = absl::StrCat(entry.name, "/", wanted.suffix);
    tensor.size = ElementCount(wanted.shape);
    tensor.shape = std::move(wanted.shape);
    tensor.fan_in = wanted.fan_in;
    tensor.fan_out = wanted.fan_out;
    tensor.initializer = wanted.initializer;
    tensor.is_statistic = wanted.role == WantedTensor::Role::kStatistic;
    tensor.is_bias = wanted.role == WantedTensor::Role::kBias;
    hasher.Add(tensor.name);
    hasher.Add(tensor.shape);
    hasher.Add(size_);
    entry.tensors.push_back(static_cast<int>(tensors_.size()));
    if (!Append(std::move(tensor))) {
      return LayerError(entry.name, "the model has more than 2^40 parameters");
    }
  }
  entry.output_shape = std::move(design->output);
  entry.settings = design->settings;
  layers_.push_back(std::move(entry));
  return absl::OkStatus();
}

absl::StatusOr<ParameterLayout> ParameterLayout::Create(const Model& model) {
  if (model.tensor_size() > 0) {
    return CreateFromTensors(model);
  }
  RETURN_IF_ERROR(ReadTables(model).status());  // there is none
  RETURN_IF_ERROR(CheckInput(model));
  ParameterLayout layout;
  LayoutHasher hasher;
  RETURN_IF_ERROR(layout.AddLayers(model, hasher));
  if (layout.tensors_.empty()) {
    return absl::InvalidArgumentError("the model has no layer with parameters");
  }
  RETURN_IF_ERROR(layout.CheckUses());
  const LayerShape& last = layout.layers_.back();
  if (last.output_shape.size() > 2) {
    return LayerError(
        last.name, absl::StrCat("the loss needs a flat output, got ",
                                LayerShapeText(last.output_shape), "; end with flatten or dense"));
  }
  hasher.Add(static_cast<uint64_t>(model.loss()));
  layout.hash_ = hasher.hash();
  return layout;
}

absl::Status ParameterLayout::CheckLayers(const Model& model) {
  RETURN_IF_ERROR(CheckInput(model));
  ParameterLayout layout;
  LayoutHasher hasher;
  return layout.AddLayers(model, hasher);
}

absl::Status ParameterLayout::AddLayers(const Model& model, LayoutHasher& hasher) {
  std::map<Layer::KindCase, int> count_of_kind;
  std::map<std::string, int> values = {{kInputName, kSampleInput}};
  input_shape_ = Shape(model.input_shape().begin(), model.input_shape().end());
  hasher.Add(input_shape_);
  for (const Layer& layer : model.layer()) {
    const int index = static_cast<int>(layers_.size());
    const int number = ++count_of_kind[layer.kind_case()];
    LayerShape entry;
    entry.name = layer.name();
    if (entry.name.empty() && layer.kind_case() != Layer::KIND_NOT_SET) {
      entry.name = absl::StrCat(Name(KindOf(layer)), number);
    }
    for (const std::string& input : layer.input()) {
      const auto found = values.find(input);
      if (found == values.end()) {
        return LayerError(entry.name,
                          absl::StrCat("input: no layer before it has the name \"", input, "\""));
      }
      entry.inputs.push_back(found->second);
    }
    const bool is_chained =
        entry.inputs.empty() || (entry.inputs.size() == 1 && entry.inputs[0] == index - 1);
    if (entry.inputs.empty()) {
      entry.inputs.push_back(index - 1);
    }
    if (!values.emplace(entry.name, index).second) {
      return LayerError(entry.name, entry.name == kInputName ? "the name is the sample's"
                                                             : "the name is used twice");
    }
    // A chain's hash is what it was before there were graphs.
    for (size_t i = 0; i < entry.inputs.size() && !is_chained; ++i) {
      hasher.Add(~static_cast<uint64_t>(entry.inputs[i] + 1));
    }
    RETURN_IF_ERROR(AddLayer(layer, std::move(entry), hasher));
  }
  return absl::OkStatus();
}

absl::Status ParameterLayout::CheckUses() const {
  std::vector<bool> used(layers_.size(), false);
  used.back() = true;
  for (const LayerShape& layer : layers_) {
    for (const int input : layer.inputs) {
      if (input != kSampleInput) {
        used[static_cast<size_t>(input)] = true;
      }
    }
  }
  for (size_t i = 0; i < used.size(); ++i) {
    if (!used[i]) {
      return LayerError(layers_[i].name,
                        "no layer takes its output; the last layer's goes to the loss");
    }
  }
  return absl::OkStatus();
}

const Shape& ParameterLayout::ShapeOf(int input) const {
  return input == kSampleInput ? input_shape_ : layers_[static_cast<size_t>(input)].output_shape;
}

const TensorInfo* ParameterLayout::FindTensor(const std::string& name) const {
  const auto found = std::ranges::find(tensors_, name, &TensorInfo::name);
  return found == tensors_.end() ? nullptr : &*found;
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
      return TensorError(tensor.name, absl::StrCat("the shape ", LayerShapeText(tensor.shape),
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
  return layers_.empty() ? 0 : layers_.back().output_shape.back();
}

}  // namespace monsoon
