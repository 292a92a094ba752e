// FrameHandler: what a process does with the request frames that come to it. It
// registers the kinds that it serves; FrameServer (frame_server.h) carries the
// frames there and the answers back, over any transport.
//
// A kind is a message of DataHeader's oneof, or a number of the handler's own
// in a PeerFrame, of which the transport knows nothing (proto/tensor.proto).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <unordered_map>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/memory/aligned_floats.h"
#include "common/security/caller.h"
#include "common/transport/frame/frame_codec.h"
#include "common/transport/frame/read_counts.h"
#include "proto/tensor.pb.h"

namespace monsoon {

// The bytes of an answer's tensors, at most kMaxFramePayloadBytes. Shared,
// because gRPC may still send one while the next is made.
struct FramePayload {
  std::shared_ptr<const AlignedFloats> floats;  // null: none
  size_t bytes = 0;                             // from the front
};

// One answer frame. The server fills in the request's id. A header takes at most
// kMaxFrameHeaderBytes; a longer one is the handler's bug and ends the process.
struct FrameAnswer {
  DataHeader header;
  FramePayload payload;
};

// DataError: the request could not be served. Long messages are cut.
FrameAnswer ErrorAnswer(const absl::Status& status, Verdict verdict);

// Makes the answers after the first one while the connection takes them. Used by
// one thread at a time; destroyed after the last answer, or earlier with the
// connection.
class AnswerSource {
 public:
  virtual ~AnswerSource() = default;
  // Nothing after the last one.
  virtual std::optional<FrameAnswer> Next() = 0;
};

// What a request is answered with: `first`, if there is one, then what `more`
// makes, if it is not null. An answer of one frame needs no source.
struct ServedFrame {
  std::optional<FrameAnswer> first;
  std::unique_ptr<AnswerSource> more;
};

// Memory that a connection keeps for the handler from frame to frame, and who is at its other end.
// Used by one thread at a time.
class FrameScratch {
 public:
  // Of a connection that proves nothing else, it is this user, as of shared memory.
  const Caller& caller() const { return caller_; }
  void SetCaller(Caller caller) { caller_ = std::move(caller); }

  // Room for one payload at least; made at the first frame that asks. What it
  // holds is not defined; the handler may put longer ones in its place.
  AlignedFloats* floats();

  // Gives the memory back, until the next frame that asks.
  void Release() { floats_ = AlignedFloats(); }

 private:
  AlignedFloats floats_;
  Caller caller_{.open = true};
};

// The kinds that a handler serves, and how.
class FrameKinds {
 public:
  // Serves one request; `payload` stands after its header. The bytes of both
  // are gone when it returns, so `request` may be moved from. An error becomes
  // a DataError without a verdict. Called by several threads at once.
  using Serve = std::function<absl::StatusOr<ServedFrame>(DataHeader* request, ChunkCursor* payload,
                                                          FrameScratch* scratch)>;

  // Each kind once: a second time is CHECKed.
  void Add(DataHeader::KindCase kind, Serve serve);
  // A PeerFrame's kind.
  void AddPeer(uint32_t kind, Serve serve);

  // Null: nobody serves the request's kind.
  const Serve* Find(const DataHeader& request) const;

 private:
  void AddKey(uint64_t key, Serve serve);

  // Not Abseil's, whose layout under a sanitizer is not that of Debian 13's library.
  std::unordered_map<uint64_t, Serve> serve_;
};

// What a handler lets a client on this host map, to read it without frames.
struct SharedMapping {
  int fd = -1;
  std::shared_ptr<const void> owner;  // of the descriptor: kept until it is sent
  // What the client is told (SharedMemoryReply).
  uint64_t shard_epoch = 0;
  uint32_t slot = 0;
  uint64_t ticket = 0;
};

// Thread safe.
class FrameHandler {
 public:
  virtual ~FrameHandler() = default;

  // Adds all kinds that the handler serves. Called once, before the first frame.
  virtual void Register(FrameKinds* kinds) = 0;

  // The memory that `request` names. The client counts in `counts` what it
  // reads, as long as its connection lives. FailedPrecondition where there is
  // nothing to share, as in all handlers that do not say otherwise.
  virtual absl::StatusOr<SharedMapping> Share(const FetchRequest& request,
                                              std::shared_ptr<const ReadCounts> counts);
};

}  // namespace monsoon
