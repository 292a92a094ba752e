// Copies and memsets. Host memory that a pending copy reads must not change, and what a
// pending copy will write counts as undefined: it is filled with 0xFF, which reads as NaN,
// and must still be so when the copy runs.
//
// Thread safety: none; the caller holds TheMutex().
#pragma once

#include <cstdint>

#include "tests/gpu/emulator/streams.h"

namespace monsoon::emulator {

// What is copied from where to where; device addresses have been checked.
void EnqueueToDevice(Stream& stream, uint64_t device, const void* host, uint64_t bytes);
void EnqueueToHost(Stream& stream, void* host, uint64_t device, uint64_t bytes);
void EnqueueOnDevice(Stream& stream, uint64_t to, uint64_t from, uint64_t bytes);
void EnqueueSet(Stream& stream, uint64_t device, int value, uint64_t bytes);

// Whether a copy that has not run yet reads or writes it.
bool HasPendingCopy(const void* host, uint64_t bytes);

}  // namespace monsoon::emulator
