// GradientExchange: sums each step's gradient over a group's members in parts, from the end of the
// vector on. The backward pass finishes the last layers first, so a part is under way while the
// layers before it are still computed (Li et al. 2020, "PyTorch Distributed", arXiv 2006.15704,
// section 3.2: gradient bucketing and overlap).
//
//   exchange.Begin(communicator, values, options);
//   ... exchange.Ready(from), again and again, as the gradient grows towards its beginning ...
//   RETURN_IF_ERROR(exchange.Finish());            // all of it is final
//
// All members cut the vector alike, so each part is a call that all of them make, in one order; the
// sum of each float is what one call for all of them gives, in the algorithm's order of a vector
// of that part's length. A vector of one part is summed by the caller of Finish, without a thread.
//
// Thread safety: Ready may be called by any thread between Begin and Finish; one thread calls the
// rest. Communicator::Abort ends what is under way.
#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/base/mutex.h"
#include "common/collective/communicator.h"
#include "worker/session/background_call.h"

namespace monsoon {

class GradientExchange {
 public:
  // Of `floats` at a time, the same on all members; the part at the vector's beginning is shorter.
  explicit GradientExchange(size_t floats) : part_(floats) {}
  // Gives up what was begun.
  ~GradientExchange() { GiveUp(); }

  // Nothing of `values` is final yet. `communicator` and `values` live until Finish or GiveUp.
  void Begin(Communicator* communicator, std::span<float> values, const CallOptions& options);
  // values[from, end) are final: whoever computes does not touch them any more.
  void Ready(size_t from);
  // All are final, and returns when all are summed. The communicator's first error.
  absl::Status Finish();
  // The gradient does not come: ends the group's generation, and with it what is under way.
  void GiveUp();

 private:
  // All parts, in their order, each when it is final.
  absl::Status Run();
  // Whether the part that begins there is to be summed; waits until that is known.
  bool Await(size_t begin);

  const size_t part_;
  Communicator* communicator_ = nullptr;
  std::span<float> values_;
  CallOptions options_;
  absl::Duration begun_;
  absl::Duration computing_;  // from the last Begin to its Finish
  Mutex mutex_;
  CondVar changed_;
  size_t ready_ ABSL_GUARDED_BY(mutex_) = 0;
  bool given_up_ ABSL_GUARDED_BY(mutex_) = false;
  // Last: its thread uses the ones above. Made with the first vector of several parts.
  std::optional<BackgroundCall<absl::Status>> thread_;
};

}  // namespace monsoon
