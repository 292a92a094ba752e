// Journal: the updates of a coordinator's durable state on the disk, and the state that
// an earlier life left there.
//
// Thread safety: none; one thread commits.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "coordinator/state/coordinator_state.h"
#include "proto/coordinator_state.pb.h"

namespace monsoon {

class Journal {
 public:
  virtual ~Journal() = default;

  // All of `updates`, in order, are on the disk when it returns OK. After an error none
  // of them count, and the next call brings them again, with those that came since. `at`:
  // the coordinator's clock, with which the next life begins.
  virtual absl::Status Commit(const StateUpdates& updates, absl::Duration at) = 0;
  // How many there have been, in all lives; 0 from one that does not count.
  virtual uint64_t commits() const { return 0; }
};

// What is there when a coordinator starts.
struct OpenedJournal {
  std::unique_ptr<Journal> journal;          // null: nothing is kept
  CoordinatorState state;                    // empty: no life was here before
  absl::Duration at = absl::ZeroDuration();  // of the last commit
  std::string folder;                        // where it is, for people
};

}  // namespace monsoon
