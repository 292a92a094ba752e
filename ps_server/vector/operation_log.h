// OperationLog: makes a job's operations safe to repeat. Ids begin at 1 and grow
// by 1; the newest replies are kept and given again.
//
// A pure state machine. Thread safety: none; the store's lock guards it.
#pragma once

#include <cstdint>
#include <deque>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/parameter_server.pb.h"
#include "ps_server/vector/memory_budget.h"

namespace monsoon {

class OperationLog {
 public:
  static constexpr size_t kKeptReplies = 64;

  // The reply of an operation that was done, or nullptr for the next one to do.
  // FailedPrecondition for a gap, for an operation that is older than the kept
  // ones, and for an id that was another operation's.
  absl::StatusOr<const VectorReply*> Find(const VectorRequest& request) const;

  // What the log keeps of an operation whose reply has `scalars`, at most.
  static uint64_t BytesFor(const VectorRequest& request, uint64_t scalars);

  // `request` was the next one and is done; `memory` is what it is kept in.
  void Record(const VectorRequest& request, VectorReply reply, MemoryBudget::Reservation memory);

  uint64_t last() const { return last_; }

 private:
  struct Done {
    std::string request;  // serialised
    VectorReply reply;
    MemoryBudget::Reservation memory;
  };

  uint64_t last_ = 0;
  std::deque<Done> done_;  // ids up to last_
};

}  // namespace monsoon
