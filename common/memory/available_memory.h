// How much memory this process may have, and how much of it it could still get.
//
// The smallest of what the machine has, what control groups (of either version) allow the
// process and those around it, and the limit of its address space (`ulimit -v`). Where the
// system does not tell one of them, that one does not count.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace monsoon {

// Bytes that may be in use at most; nothing where the system tells no bound. `root` is the
// folder that has proc/ and sys/.
std::optional<uint64_t> MemoryLimit(const std::string& root = "");

// Bytes that could be had now, without pushing anything out: cached files of the group do not
// count as in use.
std::optional<uint64_t> AvailableMemory(const std::string& root = "");

}  // namespace monsoon
