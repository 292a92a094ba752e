#include "coordinator/cli/version_command.h"

#include <fstream>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/version.h"
#include "common/json/json_writer.h"
#include "coordinator/cli/build_info.h"

namespace monsoon {
namespace {

// Whether the workers of this build have their CUDA backend. Nothing of CUDA is
// linked here.
#ifdef MONSOON_CUDA_BUILT_IN
constexpr bool kCuda = true;
#else
constexpr bool kCuda = false;
#endif

#if defined(__clang__)
constexpr char kCompiler[] = "clang " __clang_version__;
#else
constexpr char kCompiler[] = "g++ " __VERSION__;
#endif

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
  const std::string compiler(absl::StripAsciiWhitespace(kCompiler));
  if (json) {
    JsonWriter writer;
    writer.BeginObject().Member("schema_version", 1).Member("version", kVersion);
    writer.Member("git", kGitCommit).Member("cuda", kCuda).Member("compiler", compiler);
    call.Print(writer.Member("cpu", CpuName()).EndObject().text());
  } else {
    call.Print(absl::StrCat("monsoon ", kVersion, " (git ", kGitCommit, "), ", compiler,
                            kCuda ? ", workers with CUDA, on " : ", without CUDA, on ", CpuName()));
  }
  return kExitOk;
}

}  // namespace monsoon
