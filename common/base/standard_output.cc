#include "common/base/standard_output.h"

#include <cerrno>
#include <cstdio>
#include <cstring>

namespace monsoon {

bool WriteOutput(const char* program, absl::string_view text) {
  errno = 0;
  const bool written = std::fwrite(text.data(), 1, text.size(), stdout) == text.size();
  if (std::fflush(stdout) == 0 && written) {
    return true;
  }
  std::fprintf(stderr, "%s: the output could not be written: %s\n", program, std::strerror(errno));
  return false;
}

}  // namespace monsoon
