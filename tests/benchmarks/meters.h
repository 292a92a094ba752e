// What the benchmarks read from the kernel: time, CPU seconds, memory.
//
// Thread safe.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

namespace monsoon {

// On the steady clock.
double NowSeconds();

// User and system time of all threads of a process, ended ones included, with
// the resolution of the scheduler. 0: this process. CHECKs that it is there.
double CpuSeconds(pid_t pid);

// A field of /proc/PID/status in bytes, as in "VmHWM"; 0: there is none.
uint64_t ProcessMemory(pid_t pid, const std::string& field);

// Whether both processes map one and the same memory file (memfd_create): the
// proof that they exchange through shared memory, whatever was asked for.
bool ShareMemoryFile(pid_t a, pid_t b);

}  // namespace monsoon
