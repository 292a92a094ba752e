// A trained model as a file of whole tensors, named and shaped as the layout has them,
// padding left out. The suffix says in which form:
//
//   .npz          a NumPy archive, one member a tensor ("conv1/weight.npy")
//   .safetensors  F32 tensors ("conv1/weight"); metadata {"format": "pt"}, since
//                 weights are OIHW and [out, in]
//   .onnx         the network with its parameters; written elsewhere (common/onnx), and
//                 not read
//
// Thread safety: pure functions. They block on the disk.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/model/parameter_layout.h"

namespace monsoon {

enum class ModelFormat { kNpz, kSafetensors, kOnnx };
inline constexpr ModelFormat kModelFormats[] = {ModelFormat::kNpz, ModelFormat::kSafetensors,
                                                ModelFormat::kOnnx};

// "npz", "safetensors", "onnx": of the suffix too, and how people name it.
const char* NameOf(ModelFormat format);
// By its name, or by the suffix of a path; nothing for others.
std::optional<ModelFormat> ModelFormatByName(absl::string_view name);
std::optional<ModelFormat> ModelFormatOf(absl::string_view path);

// Gives all values of the layout's table `index`, row after row, in pieces; the error of `take`
// is its own.
using TableSource = std::function<absl::Status(
    uint32_t index, absl::FunctionRef<absl::Status(std::span<const float>)> take)>;

// Writes the flat vector `parameters` (layout.size() floats), and of a layout with tables a
// tensor of [rows, columns] for each behind it, from `tables`, which may then not be null; none is
// held as a whole. Replaces `path` at once or not at all. InvalidArgument for another suffix;
// other errors name the file, or are those of `tables`.
absl::Status WriteModelFile(const ParameterLayout& layout, std::span<const float> parameters,
                            const std::string& path, const TableSource& tables = nullptr);

// Reads the flat vector, of a layout without tables, with zeros for padding; a file of another
// suffix is taken for an .npz file. It must hold exactly the layout's tensors, in float32 (float16
// and bfloat16 are refused, not converted): InvalidArgument names the file and every tensor that is
// missing, unknown, or of another shape or type.
absl::StatusOr<std::vector<float>> ReadModelFile(const ParameterLayout& layout,
                                                 const std::string& path);

// InvalidArgument names the file, the tensor and the place in it of the first of these values,
// read from `path`, that is not finite: a model may hold such, but no job can begin with it.
absl::Status CheckModelFinite(const ParameterLayout& layout, std::span<const float> parameters,
                              const std::string& path);

}  // namespace monsoon
