// What tells whether two processes may share memory: the kernel they run on
// and the name space of their abstract Unix sockets.
#pragma once

#include <string>

namespace monsoon {

// Boot id and network name space of this process; "" where the system tells
// none, which is equal to nobody's.
std::string HostId();

}  // namespace monsoon
