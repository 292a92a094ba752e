// A run of calls (FuzzCalls) to a coordinator with two shards that do as they are told, or
// die: what people, workers and shards may send, and time. Each is answered, with an error
// of a kind that its sender can act on; nothing that a peer says ends the process; and a
// coordinator that begins with what is on the disk has the same state.
#include <cstddef>
#include <cstdint>
#include <optional>

#include "common/testing/fuzz/fuzz_calls.h"
#include "coordinator/core/fuzzed_coordinator.h"

namespace {

constexpr size_t kMostCalls = 64;

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  monsoon::FuzzCalls calls(data, size);
  monsoon::testing::FuzzedCoordinator coordinator;
  for (size_t i = 0; i < kMostCalls; ++i) {
    const std::optional<monsoon::FuzzCall> call = calls.Next();
    if (!call.has_value()) {
      break;
    }
    coordinator.Serve(*call);
  }
  coordinator.End();
  return 0;
}
