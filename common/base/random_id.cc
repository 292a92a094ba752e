#include "common/base/random_id.h"

#include <cstring>
#include <string>

#include "common/base/random_bytes.h"

namespace monsoon {

uint64_t RandomId() {
  uint64_t id = 0;
  while (id == 0) {
    const std::string bytes = RandomBytes(sizeof(id));
    memcpy(&id, bytes.data(), sizeof(id));
  }
  return id;
}

}  // namespace monsoon
