// EnterJob: how a program comes into a job: finds or makes it, writes its initial
// parameters where it is this program's turn, and waits until it may train.
//
// Thread safety: none.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/model/parameter_layout.h"
#include "common/transport/frame/exchange.h"
#include "common/transport/frame/frame_transport.h"
#include "coordinator/client/replica_client.h"
#include "proto/coordinator.pb.h"
#include "proto/job.pb.h"
#include "worker/session/background_call.h"

namespace monsoon {

class Tls;

// The job of a program's settings (protobuf text) and tensors. INVALID_ARGUMENT names the
// line of the settings, or the tensor. `advice`, if given, gets what is right and known to train
// badly, as `submit` tells it of a job file: "FIELD: MESSAGE; SUGGESTION".
absl::StatusOr<Job> MakeProgramJob(const std::string& settings, const Model& tensors,
                                   std::vector<std::string>* advice = nullptr);

class EnterJob {
 public:
  // Writes all of the job's parameters and has the shards seal them, within its deadlines, and
  // notes which shard does not answer. May run on any thread, one call at a time.
  using Write = std::function<absl::Status(const EnterReply& turn, std::span<const float>,
                                           SilentPeer* silent)>;

  // What the first call asks for; `guest` is drawn for the life of the process.
  struct Options {
    Job job;
    bool only_enter = false;
    // The job, by its id, that the program was in before: its end is told (has_ended), and
    // is no error.
    std::string again;
    std::string version;  // of the program's library
    uint64_t guest = 0;
    std::string host;
    uint32_t pid = 0;  // the program's
    const Clock* clock = Clock::Real();
    bool halves = false;            // the initial values are (half_vectors.h)
    std::function<bool()> leaving;  // ends Begin; null: nothing does
    Write write;                    // null: to the shards that the turn names
    std::shared_ptr<Tls> tls;       // to the shards, as of MakeChannel
    // Of a simulation; null: the client's own.
    std::function<std::unique_ptr<FrameTransport>()> make_transport;
  };

  // `coordinator` must outlive this.
  EnterJob(Options options, ReplicaClient* coordinator);

  // The first call: asks until the coordinator answers, `patience` at most.
  // DEADLINE_EXCEEDED and others name the coordinator; what it refuses is final. CANCELLED:
  // the program leaves.
  absl::Status Begin(absl::Duration patience);

  // After Begin: asks again if that is due, and keeps the turn to write while others wait.
  // `initial` is written when it is this program's turn; empty: the program has not set it
  // yet. It must not change while writing() is true. An error is final: the job has ended.
  absl::Status Poll(std::span<const float> initial);
  // The answers so far are of parameters that are lost: the next Poll asks anew, of this job.
  void Again();
  bool writing() const { return writer_ != nullptr && writer_->busy(); }
  // When to poll next.
  absl::Duration pause() const;

  // Of the newest answer.
  const EnterReply& reply() const { return reply_; }
  bool may_train() const { return reply_.part() == EnterReply::TRAIN; }
  bool has_ended() const { return reply_.has_ended(); }

 private:
  absl::Status Ask();
  void StartWriting(std::span<const float> initial);

  Options options_;
  ReplicaClient* const coordinator_;
  EnterReply reply_;
  absl::Duration asked_ = -absl::InfiniteDuration();
  std::string waits_for_;  // told in the log once
  uint64_t written_ = 0;   // as which writer
  uint64_t sealed_ = 0;    // likewise
  SilentPeer silent_;      // of all writes: one that answers none is so until it answers
  // Last: it uses the ones above.
  std::unique_ptr<BackgroundCall<absl::Status>> writer_;
};

}  // namespace monsoon
