// What a coordinator reads of its disk behind right checksums: a snapshot and updates
// (FuzzCalls: of an even kind an update, of an odd one a whole commit). An update that does
// not fit is refused and changes nothing; what was applied can be written and read as the
// same.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/base/check.h"
#include "common/testing/fuzz/fuzz_calls.h"
#include "coordinator/state/coordinator_state.h"

namespace monsoon {
namespace {

void Apply(const StateUpdate& update, CoordinatorState* state) {
  (void)MayLag(update);
  const std::string before = state->Serialize();
  const absl::Status status = state->Apply(update);
  if (!status.ok()) {
    CHECK(absl::IsFailedPrecondition(status));
    CHECK(!status.message().empty());
    CHECK_EQ(state->Serialize(), before);
  }
}

// As a coordinator looks at it.
void Read(const CoordinatorState& state) {
  for (const DurableJob& job : state.snapshot().job()) {
    CHECK(state.FindJob(job.id()) != nullptr);
    (void)HeldSnapshot(job);
  }
  for (const WorkerIncarnation& worker : state.snapshot().worker()) {
    (void)state.draining(worker.worker());
    (void)state.incarnation(worker.worker());
  }
}

}  // namespace
}  // namespace monsoon

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  monsoon::FuzzCalls calls(data, size);
  monsoon::CoordinatorState state;
  while (const std::optional<monsoon::FuzzCall> call = calls.Next()) {
    monsoon::StateUpdates updates;
    if (call->kind % 2 == 1 ? !updates.ParseFromString(call->message)
                            : !updates.add_update()->ParseFromString(call->message)) {
      continue;
    }
    for (const monsoon::StateUpdate& update : updates.update()) {
      monsoon::Apply(update, &state);
    }
  }
  monsoon::Read(state);
  monsoon::CoordinatorSnapshot snapshot;
  CHECK(snapshot.ParseFromString(state.Serialize()));
  CHECK_EQ(monsoon::CoordinatorState(std::move(snapshot)).Serialize(), state.Serialize());
  return 0;
}
