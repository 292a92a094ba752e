// What streams do, numbered, and which of it comes before which (happens-before): an
// operation is behind what its stream enqueued before it, what the events say that the
// stream waited for, and all that the host had waited for when it was enqueued. The host
// counts as one: what one of its threads waited for, all know.
//
// Thread safety: none; the caller holds TheMutex().
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace monsoon::emulator {

// Of each stream that is named, how many of its operations are known to be done; sorted
// by stream.
class Clock {
 public:
  void Join(const Clock& other);
  void Set(uint32_t stream, uint32_t count);
  uint32_t Get(uint32_t stream) const;
  // Streams that are gone are behind everything.
  void Forget();

 private:
  std::vector<std::pair<uint32_t, uint32_t>> counts_;
};

// What the host has waited for.
Clock& HostClock();

// A number for the next operation; `clock` is its stream's, with itself counted.
uint32_t NewOperation(const std::string& name, uint32_t stream, uint32_t index, const Clock& clock);
bool FindHappensBefore(uint32_t first, uint32_t second);
// The same. Neighbouring cells of memory ask the same, and what is ordered stays so.
inline bool HappensBefore(uint32_t first, uint32_t second) {
  struct Known {
    uint32_t first;
    uint32_t second;
  };
  static Known known[256] = {};
  Known& entry = known[(first ^ second * 31) % 256];
  if (first == second || (entry.first == first && entry.second == second)) {
    return true;
  }
  if (!FindHappensBefore(first, second)) {
    return false;
  }
  entry = {first, second};
  return true;
}
// "operation 12 (copy to the device) of stream 3".
std::string OperationName(uint32_t operation);
// The stream has been waited for, and is gone.
void Retire(uint32_t stream);

}  // namespace monsoon::emulator
