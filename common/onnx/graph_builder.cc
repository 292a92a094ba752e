#include "common/onnx/graph_builder.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace monsoon {

onnx::AttributeProto* NodeBuilder::Add(const char* name, onnx::AttributeProto::AttributeType type) {
  onnx::AttributeProto* const attribute = node_->add_attribute();
  attribute->set_name(name);
  attribute->set_type(type);
  return attribute;
}

NodeBuilder& NodeBuilder::Ints(const char* name, const OnnxInts& values) {
  onnx::AttributeProto* const attribute = Add(name, onnx::AttributeProto::INTS);
  attribute->mutable_ints()->Assign(values.begin(), values.end());
  return *this;
}

NodeBuilder& NodeBuilder::Int(const char* name, int64_t value) {
  Add(name, onnx::AttributeProto::INT)->set_i(value);
  return *this;
}

NodeBuilder& NodeBuilder::Float(const char* name, float value) {
  Add(name, onnx::AttributeProto::FLOAT)->set_f(value);
  return *this;
}

NodeBuilder& NodeBuilder::String(const char* name, const std::string& value) {
  Add(name, onnx::AttributeProto::STRING)->set_s(value);
  return *this;
}

NodeBuilder GraphBuilder::Node(const char* op, const std::vector<std::string>& inputs,
                               int outputs) {
  onnx::NodeProto* const node = graph_.model.mutable_graph()->add_node();
  node->set_op_type(op);
  node->mutable_input()->Assign(inputs.begin(), inputs.end());
  for (int i = 0; i < outputs; ++i) {
    node->add_output(NameOf(op));
  }
  node->set_name(node->output(0));
  return NodeBuilder(node);
}

std::string GraphBuilder::Floats(const char* suffix, const OnnxInts& dims,
                                 std::span<const float> values) {
  onnx::TensorProto* const tensor = graph_.model.mutable_graph()->add_initializer();
  tensor->set_name(NameOf(suffix));
  tensor->mutable_dims()->Assign(dims.begin(), dims.end());
  tensor->set_data_type(onnx::TensorProto::FLOAT);
  tensor->set_raw_data(values.data(), values.size_bytes());
  return tensor->name();
}

std::string GraphBuilder::Ints(const char* suffix, const OnnxInts& values) {
  onnx::TensorProto* const tensor = graph_.model.mutable_graph()->add_initializer();
  tensor->set_name(NameOf(suffix));
  tensor->add_dims(static_cast<int64_t>(values.size()));
  tensor->set_data_type(onnx::TensorProto::INT64);
  tensor->set_raw_data(values.data(), values.size() * sizeof(int64_t));
  return tensor->name();
}

const std::string& GraphBuilder::Tensor(const TensorInfo& tensor) {
  if (tensors_.insert(tensor.name).second) {
    graph_.weights.push_back({.name = tensor.name,
                              .dims = OnnxInts(tensor.shape.begin(), tensor.shape.end()),
                              .pieces = {{.offset = tensor.offset, .size = tensor.size}}});
  }
  return tensor.name;
}

std::string GraphBuilder::Weights(const char* suffix, const OnnxInts& dims,
                                  std::vector<OnnxPiece> pieces) {
  graph_.weights.push_back({.name = NameOf(suffix), .dims = dims, .pieces = std::move(pieces)});
  return graph_.weights.back().name;
}

// No layer's name has a ':', so that none is a tensor's ("conv1/weight") or the model's input.
std::string GraphBuilder::NameOf(absl::string_view suffix) {
  std::string name = absl::StrCat(layer_, ":", suffix);
  for (int i = 2; !names_.insert(name).second; ++i) {
    name = absl::StrCat(layer_, ":", suffix, i);
  }
  return name;
}

}  // namespace monsoon
