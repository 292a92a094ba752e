// Reading and judging a configuration in one step. Internal to config.
#pragma once

#include <google/protobuf/message.h>

#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "common/config/diagnostics.h"
#include "common/config/reporter.h"

namespace monsoon {

// Reads the file `path` (or `contents`, unless null, in its place) into `message`, and
// lets `check` judge that where its
// structure was understood. The status holds a line for each mistake, and
// `diagnostics`, unless null, receives them.
absl::Status LoadText(const std::string& path, google::protobuf::Message* message,
                      absl::FunctionRef<void(Reporter*)> check,
                      std::vector<Diagnostic>* diagnostics, const std::string* contents = nullptr);

// What is right and mostly not meant, of a message that LoadText has found right.
struct Advice {
  absl::FunctionRef<void(Reporter*)> advise;
  std::vector<Diagnostic>* warnings;  // null: nobody wants them
};
// The same, with advice.
absl::Status LoadText(const std::string& path, google::protobuf::Message* message,
                      absl::FunctionRef<void(Reporter*)> check, Advice advice,
                      std::vector<Diagnostic>* diagnostics, const std::string* contents = nullptr);

// The same judgement of a message that has no file.
absl::Status CheckWithoutFile(absl::FunctionRef<void(Reporter*)> check);

}  // namespace monsoon
