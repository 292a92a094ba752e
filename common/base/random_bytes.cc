#include "common/base/random_bytes.h"

#include <sys/random.h>

#include <cerrno>

#include "common/base/check.h"

namespace monsoon {

std::string RandomBytes(size_t count) {
  std::string bytes(count, '\0');
  size_t filled = 0;
  while (filled < count) {
    const ssize_t drawn = getrandom(bytes.data() + filled, count - filled, 0);
    // A signal may come between two pieces; every kernel that we run on has the call.
    CHECK(drawn >= 0 || errno == EINTR);
    filled += drawn > 0 ? static_cast<size_t>(drawn) : 0;
  }
  return bytes;
}

}  // namespace monsoon
