#include "common/testing/unique_name.h"

#include <random>

#include "absl/strings/str_format.h"

namespace monsoon::testing {

std::string UniqueName() {
  std::random_device random;
  return absl::StrFormat("%08x%08x", random(), random());
}

}  // namespace monsoon::testing
