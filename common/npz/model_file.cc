#include "common/npz/model_file.h"

#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/check.h"
#include "common/base/status.h"
#include "common/npz/npz_reader.h"
#include "common/npz/npz_writer.h"

namespace monsoon {

absl::Status WriteModelFile(const ParameterLayout& layout, std::span<const float> parameters,
                            const std::string& path) {
  CHECK_EQ(parameters.size(), layout.size());
  ASSIGN_OR_RETURN(NpzWriter writer, NpzWriter::Create(path));
  for (const TensorInfo& tensor : layout.tensors()) {
    RETURN_IF_ERROR(
        writer.Add(tensor.name, tensor.shape, parameters.subspan(tensor.offset, tensor.size)));
  }
  return writer.Finish();
}

absl::StatusOr<std::vector<float>> ReadModelFile(const ParameterLayout& layout,
                                                 const std::string& path) {
  ASSIGN_OR_RETURN(const NpzReader reader, NpzReader::Open(path));
  const std::vector<std::string> names = reader.Names();
  std::set<std::string> unused(names.begin(), names.end());
  std::vector<std::string> problems;
  std::vector<float> parameters(layout.size());
  for (const TensorInfo& tensor : layout.tensors()) {
    if (unused.erase(tensor.name) == 0) {
      problems.push_back(absl::StrCat("member ", tensor.name, ".npy is missing"));
      continue;
    }
    ASSIGN_OR_RETURN(const NpzReader::Array array, reader.Read(tensor.name));
    if (!std::equal(array.shape.begin(), array.shape.end(), tensor.shape.begin(),
                    tensor.shape.end())) {
      problems.push_back(absl::StrCat("member ", tensor.name, ".npy has the shape (",
                                      absl::StrJoin(array.shape, ", "), "), the model has (",
                                      absl::StrJoin(tensor.shape, ", "), ")"));
      continue;
    }
    std::copy(array.values.begin(), array.values.end(), parameters.begin() + tensor.offset);
  }
  for (const std::string& name : unused) {
    problems.push_back(absl::StrCat("member ", name, ".npy is no tensor of the model"));
  }
  if (!problems.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, " does not fit the model: ", absl::StrJoin(problems, "; ")));
  }
  return parameters;
}

}  // namespace monsoon
