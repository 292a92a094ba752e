#include "common/onnx/onnx_file.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/file_replacement.h"
#include "common/base/status.h"
#include "common/onnx/onnx_graph.h"

namespace monsoon {
namespace {

// Beside the weights: names, nodes and constants.
constexpr uint64_t kGraphBytes = uint64_t{16} << 20;

constexpr size_t kZerosAtOnce = 1024;

// Protobuf's wire format: a field of `bytes` bytes that follow.
std::string FieldHead(int number, uint64_t bytes) {
  constexpr int kLengthDelimited = 2;
  std::string head(1, static_cast<char>(number << 3 | kLengthDelimited));
  for (; bytes >= 0x80; bytes >>= 7) {
    head.push_back(static_cast<char>((bytes & 0x7f) | 0x80));
  }
  head.push_back(static_cast<char>(bytes));
  return head;
}

// The initializer as a model of its own: messages that follow one another are merged.
absl::Status WriteWeights(const OnnxWeights& weights, std::span<const float> parameters,
                          FileReplacement* file) {
  onnx::TensorProto tensor;
  tensor.set_name(weights.name);
  tensor.mutable_dims()->Assign(weights.dims.begin(), weights.dims.end());
  tensor.set_data_type(onnx::TensorProto::FLOAT);
  std::string head = tensor.SerializeAsString();
  const uint64_t values = weights.floats() * sizeof(float);
  head += FieldHead(onnx::TensorProto::kRawDataFieldNumber, values);
  const std::string initializer =
      FieldHead(onnx::GraphProto::kInitializerFieldNumber, head.size() + values);
  RETURN_IF_ERROR(file->Write(
      FieldHead(onnx::ModelProto::kGraphFieldNumber, initializer.size() + head.size() + values)));
  RETURN_IF_ERROR(file->Write(initializer));
  RETURN_IF_ERROR(file->Write(head));
  const std::vector<float> zeros(kZerosAtOnce);
  for (const OnnxPiece& piece : weights.pieces) {
    if (!piece.zeros) {
      RETURN_IF_ERROR(file->Write(std::as_bytes(parameters.subspan(piece.offset, piece.size))));
      continue;
    }
    for (uint64_t left = piece.size; left > 0;) {
      const uint64_t now = std::min<uint64_t>(left, zeros.size());
      RETURN_IF_ERROR(file->Write(std::as_bytes(std::span(zeros).first(now))));
      left -= now;
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status WriteOnnxFile(const Model& model, const ParameterLayout& layout,
                           std::span<const float> parameters, const std::string& path) {
  CHECK_EQ(parameters.size(), layout.size());
  ASSIGN_OR_RETURN(const OnnxGraph graph, MakeOnnxGraph(model, layout));
  uint64_t bytes = kGraphBytes;
  for (const OnnxWeights& weights : graph.weights) {
    bytes += weights.floats() * sizeof(float);
  }
  if (bytes > kMaxOnnxBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": the model's weights take ", (bytes - kGraphBytes) >> 20,
                     " MiB, and an ONNX file holds less than 2 GiB; export them as .safetensors"));
  }
  ASSIGN_OR_RETURN(FileReplacement file, FileReplacement::Create(path));
  RETURN_IF_ERROR(file.Write(graph.model.SerializeAsString()));
  for (const OnnxWeights& weights : graph.weights) {
    RETURN_IF_ERROR(WriteWeights(weights, parameters, &file));
  }
  return file.Finish();
}

}  // namespace monsoon
