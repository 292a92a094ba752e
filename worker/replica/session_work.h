// SessionWork: one kind of work that a session does, as the coordinator leases it: blocks to
// train on, or contributions to a batch gradient. A session has those of its job and asks none
// which it is.
//
// Thread safety: the compute thread calls everything but AwaitDone.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "proto/coordinator.pb.h"
#include "worker/session/work_source.h"

namespace monsoon {

// How long an answer says to wait.
inline absl::Duration WaitOf(const NextWorkReply& reply) {
  // What the coordinator asks for when it says nothing.
  constexpr uint32_t kDefaultRetryMs = 50;
  const uint32_t retry_ms = reply.wait().retry_ms();
  return absl::Milliseconds(retry_ms > 0 ? retry_ms : kDefaultRetryMs);
}

class SessionWork {
 public:
  virtual ~SessionWork() = default;

  // ---- leases ----

  // The answers that lease it, and such an answer: more, after what is there.
  virtual NextWorkReply::WorkCase lease() const = 0;
  virtual absl::Status Append(const NextWorkReply& reply) = 0;
  // Something that was leased is not computed to the end. While that is so:
  virtual bool left() const = 0;
  // more is to be asked for;
  virtual bool WantsMore() const = 0;
  // and an answer that leases nothing is taken (true), or has to wait until nothing is left.
  virtual bool Take(const NextWorkReply& /*reply*/) { return false; }

  // ---- computing ----

  // One step, or one batch; what may be done when nothing is left, too.
  virtual absl::Status Step() = 0;
  // There is nothing to do for now.
  virtual absl::Status Idle() { return absl::OkStatus(); }
  // What was computed goes to the shards, and they have it.
  virtual absl::Status Flush() { return absl::OkStatus(); }
  // Nothing more goes to the shards, and they have what has gone.
  virtual absl::Status Settle() { return absl::OkStatus(); }
  // The replica leaves: ends what was begun, drops what was not, and flushes.
  virtual absl::Status Finish() = 0;
  // After Flush: waits until the shards have on their disks what this has changed, where they
  // keep anything: in which generation, by shard. DeadlineExceeded after `patience`.
  virtual absl::StatusOr<std::vector<uint64_t>> AwaitDurable(absl::Duration /*patience*/) {
    return std::vector<uint64_t>();
  }
  // After Flush: how many pushes there have been.
  virtual uint64_t pushes() const { return 0; }

  // The networks are lent out, and come back.
  virtual absl::Status Lend() { return absl::OkStatus(); }
  virtual void TakeBack() = 0;

  // ---- reporting ----

  // Adds what is done and can be reported now.
  virtual void TakeDone(FinishedWork* /*done*/) {}
  // Waits for what is under way to the shards, and adds that. Any thread.
  virtual absl::Status AwaitDone(FinishedWork* /*done*/) { return absl::OkStatus(); }
  // Something is under way, or can be reported.
  virtual bool unreported() const { return false; }
};

}  // namespace monsoon
