// GraphBuilder: nodes, constants and weights of an ONNX graph, with a name for each value.
//
// Thread safety: none.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "common/onnx/onnx_graph.h"

namespace monsoon {

using OnnxInts = std::vector<int64_t>;

// A node that is being made; its setters add attributes.
class NodeBuilder {
 public:
  explicit NodeBuilder(onnx::NodeProto* node) : node_(node) {}

  NodeBuilder& Ints(const char* name, const OnnxInts& values);
  NodeBuilder& Int(const char* name, int64_t value);
  NodeBuilder& Float(const char* name, float value);
  NodeBuilder& String(const char* name, const std::string& value);
  // The first output, and others.
  const std::string& out(int index = 0) const { return node_->output(index); }

 private:
  onnx::AttributeProto* Add(const char* name, onnx::AttributeProto::AttributeType type);

  onnx::NodeProto* node_;
};

class GraphBuilder {
 public:
  explicit GraphBuilder(OnnxGraph* graph) : graph_(*graph) {}

  // Names of the nodes that follow begin with it.
  void SetLayer(const std::string& name) { layer_ = name; }

  // Output names are made up: one, or `outputs`.
  NodeBuilder Node(const char* op, const std::vector<std::string>& inputs, int outputs = 1);

  // Constants; the name of each.
  std::string Floats(const char* suffix, const OnnxInts& dims, std::span<const float> values);
  std::string Scalar(const char* suffix, float value) { return Floats(suffix, {}, {&value, 1}); }
  std::string Ints(const char* suffix, const OnnxInts& values);

  // A tensor of the layout as it is, once however often it is asked for.
  const std::string& Tensor(const TensorInfo& tensor);
  std::string Weights(const char* suffix, const OnnxInts& dims, std::vector<OnnxPiece> pieces);

 private:
  std::string NameOf(absl::string_view suffix);

  OnnxGraph& graph_;
  std::string layer_;
  std::set<std::string> names_;  // of values
  std::set<std::string> tensors_;
};

}  // namespace monsoon
