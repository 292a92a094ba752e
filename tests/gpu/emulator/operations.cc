#include "tests/gpu/emulator/operations.h"

#include <algorithm>
#include <deque>
#include <set>

#include "tests/gpu/emulator/report.h"
#include "tests/gpu/emulator/settings.h"

namespace monsoon::emulator {
namespace {

struct Operation {
  std::string name;
  uint32_t stream = 0;
  uint32_t index = 0;
  Clock clock;
};

struct Operations {
  std::deque<Operation> all{Operation{"nothing"}};  // 0 is none
  uint32_t unchecked = 0;
  std::vector<bool> retired;
  Clock host;
};

Operations& The() {
  static Operations* const operations = new Operations;
  return *operations;
}

bool IsRetired(uint32_t stream) { return stream < The().retired.size() && The().retired[stream]; }

}  // namespace

void Clock::Join(const Clock& other) {
  for (const auto& [stream, count] : other.counts_) {
    if (!IsRetired(stream)) {
      Set(stream, std::max(count, Get(stream)));
    }
  }
}

void Clock::Set(uint32_t stream, uint32_t count) {
  const auto at = std::lower_bound(counts_.begin(), counts_.end(), std::pair{stream, 0u});
  if (at != counts_.end() && at->first == stream) {
    at->second = count;
  } else {
    counts_.insert(at, {stream, count});
  }
}

uint32_t Clock::Get(uint32_t stream) const {
  const auto at = std::lower_bound(counts_.begin(), counts_.end(), std::pair{stream, 0u});
  return at != counts_.end() && at->first == stream ? at->second : 0;
}

void Clock::Forget() {
  std::erase_if(counts_, [](const auto& entry) { return IsRetired(entry.first); });
}

Clock& HostClock() { return The().host; }

uint32_t NewOperation(const std::string& name, uint32_t stream, uint32_t index,
                      const Clock& clock) {
  Operations& operations = The();
  if (!TheSettings().check) {
    return ++operations.unchecked;  // nobody asks for more than that they differ
  }
  operations.all.push_back({name, stream, index, clock});
  return static_cast<uint32_t>(operations.all.size() - 1);
}

bool FindHappensBefore(uint32_t first, uint32_t second) {
  const std::deque<Operation>& all = The().all;
  const Operation& before = all[first];
  return IsRetired(before.stream) || all[second].clock.Get(before.stream) >= before.index;
}

std::string OperationName(uint32_t operation) {
  const std::deque<Operation>& all = The().all;
  if (operation >= all.size()) {
    return Text("operation %u", operation);
  }
  return Text("operation %u (%s) of stream %u", operation, all[operation].name.c_str(),
              all[operation].stream);
}

void Retire(uint32_t stream) {
  std::vector<bool>& retired = The().retired;
  if (retired.size() <= stream) {
    retired.resize(stream + 1);
  }
  retired[stream] = true;
  The().host.Forget();
}

}  // namespace monsoon::emulator
