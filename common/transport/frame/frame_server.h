// FrameServer: answers the request frames of the data plane (proto/tensor.proto)
// with a FrameHandler, for whatever carries them. A transport's adapter asks for
// admission, makes a FrameCall of each frame it received and sends the answers
// that this gives; the answers of one connection come in the order of its
// requests.
//
// Here are the rules that hold for every transport and every handler: how many
// connections fit the message memory and whose turn it is, which frames --fault delays and loses,
// what counts as being served while the server drains, and that a frame of a kind that nobody
// registered is refused.
//
// Thread safe; each connection is served by one thread at a time. Nothing here
// waits for a connection: an adapter may serve many with few threads.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/log_limit.h"
#include "common/transport/frame/fault.h"
#include "common/transport/frame/frame_codec.h"
#include "common/transport/frame/frame_handler.h"
#include "common/transport/frame/in_flight.h"
#include "common/transport/frame/message_budget.h"
#include "common/transport/frame/read_counts.h"
#include "proto/tensor.pb.h"

namespace monsoon {

class FrameServer {
 public:
  // Registers the kinds of `handler`, which outlives this.
  FrameServer(FrameHandler* handler, uint64_t message_memory_bytes, FaultOptions fault);

  // One connection's right to be open, until it is destroyed. To receive and serve
  // a message it needs a turn of budget() too.
  class Admission {
   public:
    Admission(MessageBudget* budget, MessageBudget::Kind kind, std::string member)
        : budget_(budget), kind_(kind), member_(std::move(member)) {}
    Admission(Admission&& other) noexcept
        : budget_(std::exchange(other.budget_, nullptr)),
          kind_(other.kind_),
          member_(std::move(other.member_)) {}
    Admission& operator=(Admission&&) = delete;
    ~Admission();

   private:
    MessageBudget* budget_;
    const MessageBudget::Kind kind_;
    std::string member_;
  };
  // Of `member` (QuotaName). ResourceExhausted when there are as many as the message memory
  // allows, or as its share of that does; logged at most once a minute.
  absl::StatusOr<Admission> Admit(MessageBudget::Kind kind, const std::string& member = "");

  MessageBudget* budget() { return &budget_; }

  // FrameHandler::Share. Refused under --fault, which every frame must meet.
  absl::StatusOr<SharedMapping> Share(const FetchRequest& request,
                                      std::shared_ptr<const ReadCounts> counts);

  // Also for the process's control calls: what is being served, and the dice.
  InFlight* in_flight() { return &in_flight_; }
  FaultInjector* faults() { return &faults_; }

 private:
  friend class FrameCall;

  FrameHandler* const handler_;
  FrameKinds kinds_;
  MessageBudget budget_;
  FaultInjector faults_;
  InFlight in_flight_;
  LogLimit refusals_{absl::Minutes(1)};
};

// One request frame that has arrived, being answered. The adapter holds an
// InFlight::Scope until the last answer is sent.
class FrameCall {
 public:
  // `server` outlives the call.
  explicit FrameCall(FrameServer* server)
      : server_(server), fault_(server->faults_.enabled() ? server->faults_.Next() : Fault{}) {}

  // --fault: to be waited for before Serve.
  absl::Duration delay() const { return fault_.delay; }

  // Does what `frame` asks for, so that its bytes are needed no longer; nobody
  // else may change them meanwhile. `scratch` belongs to the connection; of
  // `finite_payload` ChunkCursor tells. False: --fault: the connection must be broken off.
  bool Serve(std::span<const ByteChunk> frame, FrameScratch* scratch, bool finite_payload = false);

  // One answer frame: `head` (EncodeFrameHead), then the payload.
  struct Answer {
    std::string head;
    FramePayload payload;
  };
  // Makes the next answer; nothing after the last one, or before Serve.
  std::optional<Answer> NextAnswer();

 private:
  ServedFrame Handle(std::span<const ByteChunk> frame, FrameScratch* scratch, bool finite_payload);
  Answer Encode(FrameAnswer answer) const;

  FrameServer* const server_;
  const Fault fault_;
  uint64_t request_id_ = 0;
  std::optional<Answer> first_;
  std::unique_ptr<AnswerSource> more_;
};

}  // namespace monsoon
