// The name of this machine, shown to people.
#pragma once

#include <string>

namespace monsoon {

// "" where the system does not tell. Thread safe.
std::string HostName();

}  // namespace monsoon
