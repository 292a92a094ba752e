#include "common/base/check.h"

#include <cstdio>
#include <cstdlib>

namespace monsoon::internal {

void CheckFailed(const char* file, int line, const char* condition, const std::string& detail) {
  std::fprintf(stderr, "%s:%d: CHECK failed: %s %s\n", file, line, condition, detail.c_str());
  std::fflush(stderr);
  std::abort();
}

}  // namespace monsoon::internal
