// An .onnx file of a model with its parameters.
//
// Thread safety: pure functions. They block on the disk.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "common/model/parameter_layout.h"
#include "proto/model.pb.h"

namespace monsoon {

// Protobuf's limit for a message, and so for a model without files beside it.
inline constexpr uint64_t kMaxOnnxBytes = (uint64_t{1} << 31) - 1;

// Writes the network of `model` (onnx_graph.h) with the flat vector `parameters` (layout.size()
// floats); no tensor is copied. Replaces `path` at once or not at all. InvalidArgument for what
// ONNX cannot hold, with the reason and what to do; other errors name the file.
absl::Status WriteOnnxFile(const Model& model, const ParameterLayout& layout,
                           std::span<const float> parameters, const std::string& path);

}  // namespace monsoon
