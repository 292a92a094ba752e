// What the emulated machine found wrong with the program. Each finding goes to stderr (of
// those alike, the first few), and a process that had one ends with kReportsExitCode,
// whatever its tests say; one that had hundreds, at once.
//
// Thread safety: any thread may call.
#pragma once

#include <cstdint>
#include <string>

namespace monsoon::emulator {

inline constexpr int kReportsExitCode = 86;

// `kind`: one of fault, uninitialised, kernel race, shared race, stream race, barrier,
// warp, host memory, capture, misuse, leak. `text` names kernel or operation, thread and
// address; texts that differ in numbers only count as alike.
void Report(const std::string& kind, const std::string& text);

// Printf into a string.
std::string Text(const char* format, ...) __attribute__((format(printf, 1, 2)));

// How many there were, those of MONSOON_EMULATOR_EXPECT left out.
uint64_t ReportCount();

}  // namespace monsoon::emulator

// The same for a program that only links the emulator.
extern "C" uint64_t monsoon_emulator_report_count();
