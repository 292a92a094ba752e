#include "common/process/host_name.h"

#include <limits.h>
#include <unistd.h>

namespace monsoon {

std::string HostName() {
  char name[HOST_NAME_MAX + 1] = {};
  return gethostname(name, HOST_NAME_MAX) == 0 ? name : "";
}

}  // namespace monsoon
