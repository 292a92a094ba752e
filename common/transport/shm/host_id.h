// What tells whether two processes may share memory: the kernel they run on, and whether they see
// the same folder of sockets. Two containers of one host do not, unless they are given one.
#pragma once

#include <string>

#include "absl/strings/string_view.h"

namespace monsoon {

// Of the kernel that this process runs on and a folder in which a socket lies
// (RuntimeFolder::id); "" where the system tells no boot id, which is equal to nobody's.
std::string HostId(const std::string& folder_id);

// Whether `id` is of the kernel that this process runs on, whatever the folder.
bool IsThisHost(absl::string_view id);

}  // namespace monsoon
