// ReplicaSession: one replica's part in one job, from the first block to the
// end: asks for work, trains on it, reports blocks only after every push that
// contains them was acknowledged by all shards, evaluates when told.
//
// With overlap ASYNC the next work is asked for while the last block is being
// computed; with NONE strictly in turn.
//
// Thread safety: none; Run belongs to one thread. Others act on it through the
// SessionControl.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "coordinator/client/replica_client.h"
#include "proto/coordinator.pb.h"
#include "worker/backend/network.h"
#include "worker/replica/background_call.h"
#include "worker/replica/block_reader.h"
#include "worker/replica/downpour_loop.h"
#include "worker/replica/replica_stats.h"
#include "worker/replica/session_control.h"
#include "worker/replica/work_source.h"

namespace monsoon {

struct SessionEnd {
  enum class Kind {
    kFinished,  // the coordinator said so
    kStopped,   // the coordinator took the session away
    kLost,      // refused by a shard or the coordinator: join again
    kDrained,   // this worker leaves
    kFailed,    // told to the coordinator, see `failure`
  };
  Kind kind = Kind::kFinished;
  ReportFailureRequest::Kind failure = ReportFailureRequest::REPLICA;
  std::string message;
};

class ReplicaSession {
 public:
  // Evaluates the whole test set with fresh parameters.
  using Evaluate = std::function<absl::StatusOr<EvaluationResult>()>;

  // Everything pointed to must outlive the session.
  struct Parts {
    SessionKey session;
    Overlap overlap = ASYNC;
    ReplicaClient* coordinator = nullptr;
    DownpourLoop* loop = nullptr;
    BlockReader* reader = nullptr;
    Evaluate evaluate;
    StatsCollector* stats = nullptr;
    SessionControl* control = nullptr;
    const Clock* clock = nullptr;
  };

  explicit ReplicaSession(Parts parts);

  // Returns within the deadlines of its clients after the control's Stop, and
  // after a push and a report more when drained. Does not report failures.
  SessionEnd Run();

 private:
  using Reply = absl::StatusOr<NextWorkReply>;

  absl::Status TrainOneStep();
  void LogProgress(const StepResult& result);
  // Takes what was asked for, and asks for more when the last block is at hand.
  absl::Status AskAhead();
  Reply AwaitWork();
  // True: the session goes on.
  absl::StatusOr<bool> Act(const NextWorkReply& reply);
  absl::Status EvaluateAndReport(uint64_t evaluation);
  SessionEnd Drain();
  SessionEnd Classify(const absl::Status& status) const;

  const Parts parts_;
  WorkSource source_;
  uint64_t logged_steps_ = 0;
  absl::Duration logged_at_;
  // Null when overlap is NONE. An answer that is no training waits in held_
  // until the blocks before it are done.
  std::unique_ptr<BackgroundCall<Reply>> asker_;
  std::optional<Reply> held_;
};

}  // namespace monsoon
