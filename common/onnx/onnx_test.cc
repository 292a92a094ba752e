#include <sys/mman.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <numeric>
#include <sstream>

#include "common/onnx/onnx_file.h"
#include "common/onnx/onnx_graph.h"
#include "common/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace monsoon {
namespace {

using ::monsoon::testing::StatusIs;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Model Parse(const std::string& text) {
  Model model;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &model));
  return model;
}

std::string TemporaryFile(const std::string& name) {
  return std::filesystem::path(::testing::TempDir()) / name;
}

onnx::ModelProto Read(const std::string& path) {
  onnx::ModelProto model;
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(model.ParseFromIstream(&file));
  return model;
}

std::vector<float> Values(const onnx::TensorProto& tensor) {
  std::vector<float> values(tensor.raw_data().size() / sizeof(float));
  std::memcpy(values.data(), tensor.raw_data().data(), tensor.raw_data().size());
  return values;
}

// 1, 2, 3, ... over the flat vector, padding too.
std::vector<float> Counting(const ParameterLayout& layout) {
  std::vector<float> values(layout.size());
  std::iota(values.begin(), values.end(), 1.0f);
  return values;
}

// Node by node: "Gemm(input, a/weight, a/bias) -> a:Gemm".
std::vector<std::string> Nodes(const onnx::GraphProto& graph) {
  std::vector<std::string> nodes;
  for (const onnx::NodeProto& node : graph.node()) {
    std::ostringstream text;
    text << node.op_type() << "(";
    for (int i = 0; i < node.input_size(); ++i) {
      text << (i == 0 ? "" : ", ") << node.input(i);
    }
    text << ") -> " << node.output(0);
    nodes.push_back(text.str());
  }
  return nodes;
}

TEST(Onnx, AFileIsTheGraphWithItsWeights) {
  const Model model = Parse(R"pb(
    name: "tiny"
    input_shape: 3
    layer {
      name: "a"
      dense { units: 2 }
    }
    layer { relu {} }
    layer { dropout { rate: 0.5 } }
    layer {
      name: "b"
      dense { units: 2 no_bias: true }
    }
    layer {
      name: "sum"
      input: "relu1"
      input: "b"
      add {}
    })pb");
  const ParameterLayout layout = *ParameterLayout::Create(model);
  const std::string path = TemporaryFile("tiny.onnx");
  ASSERT_OK(WriteOnnxFile(model, layout, Counting(layout), path));
  const onnx::ModelProto file = Read(path);
  EXPECT_EQ(file.ir_version(), 8);
  ASSERT_EQ(file.opset_import_size(), 1);
  EXPECT_EQ(file.opset_import(0).version(), 17);
  EXPECT_THAT(Nodes(file.graph()),
              ElementsAre("Gemm(input, a/weight, a/bias) -> a:Gemm", "Relu(a:Gemm) -> relu1:Relu",
                          "Gemm(relu1:Relu, b/weight) -> b:Gemm",
                          "Add(relu1:Relu, b:Gemm) -> sum:Add", "Identity(sum:Add) -> output"));
  ASSERT_EQ(file.graph().initializer_size(), 3);
  // At the places of the layout: 0, 16, 32.
  EXPECT_THAT(Values(file.graph().initializer(0)), ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_THAT(file.graph().initializer(0).dims(), ElementsAre(2, 3));
  EXPECT_THAT(Values(file.graph().initializer(1)), ElementsAre(17, 18));
  EXPECT_THAT(Values(file.graph().initializer(2)), ElementsAre(33, 34, 35, 36));
  ASSERT_EQ(file.graph().input_size(), 1);
  const onnx::TensorShapeProto& shape = file.graph().input(0).type().tensor_type().shape();
  EXPECT_EQ(shape.dim(0).dim_param(), "batch");
  EXPECT_EQ(shape.dim(1).dim_value(), 3);
}

// Ours are i, f, g, o; ONNX's i, o, f, c, and behind the bias that of the recurrence.
TEST(Onnx, TheGatesOfAnLstmAreReordered) {
  const Model model = Parse(R"pb(
    input_shape: [ 2, 1 ]
    layer {
      name: "l"
      lstm { units: 1 bidirectional: true }
    })pb");
  const ParameterLayout layout = *ParameterLayout::Create(model);
  const std::string path = TemporaryFile("lstm.onnx");
  ASSERT_OK(WriteOnnxFile(model, layout, Counting(layout), path));
  std::map<std::string, onnx::TensorProto> tensors;
  const onnx::ModelProto file = Read(path);
  for (const onnx::TensorProto& tensor : file.graph().initializer()) {
    tensors[tensor.name()] = tensor;
  }
  // Tensors of 4 begin at 0, 16, ..., 80: weight, recurrent, bias, and backwards.
  EXPECT_THAT(Values(tensors["l:weight"]), ElementsAre(1, 4, 2, 3, 49, 52, 50, 51));
  EXPECT_THAT(Values(tensors["l:recurrent"]), ElementsAre(17, 20, 18, 19, 65, 68, 66, 67));
  EXPECT_THAT(Values(tensors["l:bias"]), ElementsAre(33, 36, 34, 35, 0, 0, 0, 0,  //
                                                     81, 84, 82, 83, 0, 0, 0, 0));
  EXPECT_THAT(tensors["l:bias"].dims(), ElementsAre(2, 8));
}

TEST(Onnx, ATiedWeightIsThereOnce) {
  const Model model = Parse(R"pb(
    input_shape: 4
    layer {
      name: "e"
      embedding { rows: 5 columns: 3 }
    }
    layer { dense { tied_to: "e" no_bias: true } })pb");
  const OnnxGraph graph = *MakeOnnxGraph(model, *ParameterLayout::Create(model));
  ASSERT_EQ(graph.weights.size(), 1u);
  EXPECT_EQ(graph.weights[0].name, "e/weight");
  EXPECT_THAT(Nodes(graph.model.graph()),
              ElementsAre("Cast(input) -> e:Cast", "Gather(e/weight, e:Cast) -> e:Gather",
                          "Transpose(e/weight) -> dense1:Transpose",
                          "MatMul(e:Gather, dense1:Transpose) -> dense1:MatMul",
                          "Identity(dense1:MatMul) -> output"));
}

TEST(Onnx, WhatItHasNoOperatorForIsRefusedByName) {
  const auto refusal = [](const std::string& layer) {
    const Model model = Parse("input_shape: [1, 8, 8] layer { name: \"mine\" " + layer +
                              " } layer { flatten {} } layer { dense { units: 2 } }");
    const ParameterLayout layout = *ParameterLayout::Create(model);
    const std::string path = TemporaryFile("refused.onnx");
    const absl::Status status = WriteOnnxFile(model, layout, Counting(layout), path);
    EXPECT_FALSE(std::filesystem::exists(path));
    return status;
  };
  EXPECT_THAT(refusal("locally_connected2d { filters: 2 kernel: 3 }"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("layer \"mine\""), HasSubstr("locally_connected2d; export "
                                                                    "the model as .npz"))));
  EXPECT_THAT(refusal("local_contrast_norm {}"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("local_contrast_norm")));
  Model joined;
  joined.add_tensor()->set_name("w");
  EXPECT_THAT(MakeOnnxGraph(joined, *ParameterLayout::Create(joined)),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("only the programs")));
}

// 2^29 weights of 4 bytes; the memory is never touched.
TEST(Onnx, MoreThanAMessageHoldsIsRefused) {
  const Model model = Parse("input_shape: 32768 layer { dense { units: 16384 no_bias: true } }");
  const ParameterLayout layout = *ParameterLayout::Create(model);
  const size_t bytes = layout.size() * sizeof(float);
  void* const memory =
      mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  const std::string path = TemporaryFile("large.onnx");
  EXPECT_THAT(
      WriteOnnxFile(model, layout, {static_cast<const float*>(memory), layout.size()}, path),
      StatusIs(absl::StatusCode::kInvalidArgument,
               HasSubstr("weights take 2048 MiB, and an ONNX file holds less than 2 GiB; "
                         "export them as .safetensors")));
  EXPECT_FALSE(std::filesystem::exists(path));
  munmap(memory, bytes);
}

}  // namespace
}  // namespace monsoon
