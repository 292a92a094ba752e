// FrameServer: answers the request frames of the data plane (proto/tensor.proto)
// for whatever carries them. A transport's adapter asks for admission, gives
// each frame it received a Turn and sends the answers that this makes; the
// answers of one connection come in the order of its requests.
//
// Here are the rules that hold for every transport: how many connections fit
// the message memory, which frames --fault delays and loses, and what counts as
// being served while the server drains.
//
// Thread safe; each connection is served by one thread at a time. Nothing here
// waits for a connection: an adapter may serve many with few threads.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/rpc/fault.h"
#include "common/rpc/frame_codec.h"
#include "proto/tensor.pb.h"
#include "ps_server/in_flight.h"
#include "ps_server/shard/aligned_floats.h"
#include "ps_server/shard/shard.h"
#include "ps_server/shard/shard_job.h"
#include "ps_server/stream_budget.h"
#include "ps_server/vector/named_vectors.h"

namespace monsoon {

// The bytes of an answer's tensors. Shared, because gRPC may still send one
// while the next is made.
struct FramePayload {
  std::shared_ptr<const AlignedFloats> floats;  // null: none
  size_t bytes = 0;                             // from the front
};

class FrameServer {
 public:
  // `shard` outlives this. A connection may hold StreamBytes(lookahead_bytes)
  // of the message memory.
  FrameServer(Shard* shard, uint64_t message_memory_bytes, uint64_t lookahead_bytes,
              FaultOptions fault);

  // One connection's right to be served, until it is destroyed.
  class Admission {
   public:
    explicit Admission(StreamBudget* budget) : budget_(budget) {}
    Admission(Admission&& other) noexcept : budget_(std::exchange(other.budget_, nullptr)) {}
    Admission& operator=(Admission&&) = delete;
    ~Admission();

   private:
    StreamBudget* budget_;
  };
  // ResourceExhausted when the message memory is taken; logged once.
  absl::StatusOr<Admission> Admit();

  // One answer frame: `head` (EncodeFrameHead), then the payload.
  struct Answer {
    std::string head;
    FramePayload payload;
  };

  // One request frame that has arrived. The adapter holds an InFlight::Scope
  // until the last answer is sent.
  class Turn {
   public:
    explicit Turn(FrameServer* server)
        : server_(server), fault_(server->faults_.enabled() ? server->faults_.Next() : Fault{}) {}

    // --fault: to be waited for before Serve.
    absl::Duration delay() const { return fault_.delay; }
    // Does what `frame` asks for, so that its bytes are needed no longer; nobody
    // else may change them meanwhile. `scratch` belongs to the connection; it is
    // made at the first frame that needs it. False: --fault: the connection must
    // be broken off.
    bool Serve(std::span<const ByteChunk> frame, AlignedFloats* scratch);
    // Makes the next answer; nothing after the last one, or before Serve.
    std::optional<Answer> NextAnswer();

   private:
    struct Fetch {
      DataHeader request;
      std::shared_ptr<ShardJob> job;
      // Held to the end, so that the answer is of one vector whatever happens
      // to its name.
      std::shared_ptr<const SliceVector> vector;
      uint32_t next = 0;  // stripe
      uint32_t end = 0;
    };

    void StartFetch(DataHeader request);
    Answer ContinueFetch();

    FrameServer* const server_;
    const Fault fault_;
    std::optional<Answer> answer_;  // the only one
    std::optional<Fetch> fetch_;
  };

  // Lets a client on this host serve its fetches itself: the job that `request`
  // (session, layout hash, read_only) names, and what the client needs. Refused
  // under --fault, which every frame must meet.
  struct SharedJob {
    std::shared_ptr<ShardJob> job;
    ShardJob::Shared shared;
  };
  absl::StatusOr<SharedJob> Share(const FetchRequest& request);

  // Also for the control calls: what is being served, and the dice.
  InFlight* in_flight() { return &in_flight_; }
  FaultInjector* faults() { return &faults_; }

 private:
  // For a push with then_fetch: adds the parameters to its answer and returns
  // their bytes; nothing where a record was refused or they fit no frame.
  FramePayload AddFetch(const PushRequest& push, PushReply* reply);
  // A push, a contribution or a write. The result lacks the request's id.
  DataHeader AnswerUpdate(const DataHeader& request, ChunkCursor* payload, AlignedFloats* scratch);

  Shard* const shard_;
  StreamBudget budget_;
  FaultInjector faults_;
  InFlight in_flight_;
  std::atomic<bool> refusal_logged_{false};
};

}  // namespace monsoon
