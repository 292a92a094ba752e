// What tells whether two processes may share memory: the kernel they run on, their network, and
// whether they see the same folder of sockets. Two containers of one host do not, unless they are
// given one. Files do not need the same network, but what has one of its own passes for a machine.
#pragma once

#include <string>

#include "absl/strings/string_view.h"

namespace monsoon {

// Boot id and network name space of this process, and a folder in which a socket lies
// (RuntimeFolder::id); "" where the system does not tell, which is equal to nobody's.
std::string HostId(const std::string& folder_id);

// Whether `id` is of this process's kernel and network name space, whatever the folder.
bool IsThisHost(absl::string_view id);

}  // namespace monsoon
