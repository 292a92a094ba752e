#include "common/base/build_text.h"

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "common/base/build_info.h"
#include "common/base/version.h"

namespace monsoon {
namespace {

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

}  // namespace

std::string BuildCommit() { return kGitCommit; }

std::string BuildCompiler() { return std::string(absl::StripAsciiWhitespace(kCompiler)); }

bool BuiltWithCuda() { return kCuda; }

std::string BuildText() {
  return absl::StrCat("monsoon ", kVersion, " (git ", BuildCommit(), "), ", BuildCompiler(),
                      kCuda ? ", workers with CUDA" : ", without CUDA");
}

}  // namespace monsoon
