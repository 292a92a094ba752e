// ReplicaSession: one replica's part in one job, from the first work to the
// end: asks for work, does it (SessionWork: blocks to train on, contributions to a batch
// gradient; evaluations), and reports blocks and contributions only after all
// shards have acknowledged what came of them.
//
// The next work is asked for while the last one is being computed, as its kind says.
//
// Thread safety: none; Run belongs to one thread. Others act on it through the
// SessionControl.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/client/replica_client.h"
#include "proto/coordinator.pb.h"
#include "worker/nn/network.h"
#include "worker/replica/session_work.h"
#include "worker/session/background_call.h"
#include "worker/session/replica_stats.h"
#include "worker/session/session_control.h"
#include "worker/session/session_end.h"
#include "worker/session/work_source.h"

namespace monsoon {

class ReplicaSession {
 public:
  // Evaluates the whole test set with fresh parameters, or with a vector of the shards if
  // it is not "". NotFound when they do not have it.
  using Evaluate = std::function<absl::StatusOr<EvaluationResult>(const std::string& vector)>;

  // Everything pointed to must outlive the session.
  struct Parts {
    SessionKey session;
    ReplicaClient* coordinator = nullptr;
    // Of the job, in the order of its phases; at least one.
    std::vector<SessionWork*> work;
    Evaluate evaluate;
    // Of a network that may have something to say while nothing is leased: asked before each
    // question then. Null: it has not. An error ends the session.
    std::function<absl::Status()> listen;
    StatsCollector* stats = nullptr;
    SessionControl* control = nullptr;
  };

  explicit ReplicaSession(Parts parts);

  // Returns within the deadlines of its clients after the control's Stop, and
  // after a push and a report more when drained. Does not report failures.
  SessionEnd Run();

  // For a network that takes its time, while it computes a step: takes what was asked for,
  // and asks for more when the work at hand runs out. Whether an answer is awaited. The
  // compute thread.
  absl::StatusOr<bool> Poll();

  // Likewise: from now on the coordinator is told that there are no more samples; first what
  // is summed up is pushed.
  void NoMoreSamples();

  // Likewise, or when it listens: the job's training is to end. First what is summed up is pushed;
  // the network takes no more blocks.
  void EndJob();

 private:
  using Reply = absl::StatusOr<NextWorkReply>;

  // What is computed next; null: nothing is left.
  SessionWork* Current() const;
  // One step of training, or one batch of a contribution.
  absl::Status ComputeOneStep();

  // What the network has said meanwhile, and what is to be done before the next question.
  absl::Status BeforeQuestion();
  // Takes what was asked for, and asks for more when the last work is at hand.
  absl::Status AskAhead();
  absl::Status TakeAhead(Reply reply);
  FinishedWork TakeDone();
  // Reports `done`, and what is under way to the shards, which it waits for, and asks. Any
  // thread.
  Reply Ask(FinishedWork done);
  Reply AwaitWork();
  // True: the session goes on.
  absl::StatusOr<bool> Act(const NextWorkReply& reply);
  absl::Status Append(const NextWorkReply& reply);
  void Wait(absl::Duration pause);
  absl::Status Flush();
  absl::Status Idle();
  // Of a session that is over: nobody else could send its pushes again.
  void AwaitDurable();
  // Waits until all that `work` has pushed is durable, and tells the coordinator where.
  absl::Status TellDurable(SessionWork* work, absl::Duration patience);
  absl::Status EvaluateAndReport(const NextWorkReply::Evaluate& work);
  // What is done is reported, and durable where that takes no longer than a moment.
  absl::Status TellLast();
  // Of what was computed, not of what was asked for.
  SessionEnd EndAfter(const absl::Status& status);
  SessionEnd Drain();
  SessionEnd Classify(const absl::Status& status) const;

  const Parts parts_;
  WorkSource source_;
  // An answer that is no more of the work at hand waits here until that is done.
  std::optional<Reply> held_;
  bool flush_ = false;  // before the next question
  bool ends_job_ = false;
  // Last: its thread uses the ones above.
  BackgroundCall<Reply> asker_;
};

}  // namespace monsoon
