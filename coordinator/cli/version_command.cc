#include "coordinator/cli/version_command.h"

#include <fstream>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/build_text.h"
#include "common/base/version.h"
#include "common/json/json_writer.h"

namespace monsoon {
namespace {

// As /proc/cpuinfo names it; "unknown" where it does not.
std::string CpuName() {
  std::ifstream file("/proc/cpuinfo");
  std::string line;
  while (std::getline(file, line)) {
    if (absl::StartsWith(line, "model name")) {
      return std::string(absl::StripAsciiWhitespace(line.substr(line.find(':') + 1)));
    }
  }
  return "unknown";
}

}  // namespace

int RunVersion(Invocation& call) {
  bool json = false;
  call.flags().Add("json", &json, "one JSON object on the standard output");
  if (const std::optional<int> code = call.Parse(0, 0)) {
    return *code;
  }
  if (json) {
    JsonWriter writer;
    writer.BeginObject().Member("schema_version", 1).Member("version", kVersion);
    writer.Member("git", BuildCommit()).Member("cuda", BuiltWithCuda());
    writer.Member("compiler", BuildCompiler());
    call.Print(writer.Member("cpu", CpuName()).EndObject().text());
  } else {
    call.Print(absl::StrCat(BuildText(), ", on ", CpuName()));
  }
  return kExitOk;
}

}  // namespace monsoon
