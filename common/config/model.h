// Loading a model file: a Model in protobuf text, as job files name it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/config/diagnostics.h"
#include "common/config/reporter.h"
#include "common/model/parameter_layout.h"
#include "proto/model.pb.h"

namespace monsoon {

// Reads and judges the file; blocks on the disk only. On an error the status
// holds a line for each mistake and `diagnostics`, if given, receives them. An
// unset name becomes the file's. `contents`, unless null, stand in place of the file's.
absl::StatusOr<Model> LoadModel(const std::string& path,
                                std::vector<Diagnostic>* diagnostics = nullptr,
                                const std::string* contents = nullptr);

// Tells `reporter` everything wrong with a model whose fields are under `path`
// ("model" in a job, "" in its own file). The layout where nothing is.
std::optional<ParameterLayout> CheckModel(const Model& model, const std::string& path,
                                          Reporter* reporter);

// The file's name without folders and extension, with what a name must not
// hold replaced by '-': "lenet_downpour" of "configs/job/lenet_downpour.textproto".
std::string NameFromPath(const std::string& path);

// Letters, digits, '_' and '-', 1 to 64 of them.
bool IsValidName(const std::string& name);

// Tells `reporter` when `name`, which stands at `field`, is set and not valid.
void CheckName(const std::string& name, const std::string& field, Reporter* reporter);

}  // namespace monsoon
