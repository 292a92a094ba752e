// A trained model as a .npz file: one member a tensor, named like the tensor
// ("conv1/weight.npy"), padding left out.
//
// Thread safety: pure functions.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/model/parameter_layout.h"

namespace monsoon {

// Writes the flat vector `parameters` (layout.size() floats), replacing `path`
// at once or not at all.
absl::Status WriteModelFile(const ParameterLayout& layout, std::span<const float> parameters,
                            const std::string& path);

// Reads the flat vector, with zeros for padding. The members must be exactly
// the layout's tensors with their shapes: InvalidArgument names the file and
// every member that is missing, unknown or of another shape.
absl::StatusOr<std::vector<float>> ReadModelFile(const ParameterLayout& layout,
                                                 const std::string& path);

}  // namespace monsoon
