// PeerMailbox: serves the frames that members of a group send to this process, as the FrameHandler
// of its FrameListener. One generation at a time has a seat, that of this process's Communicator;
// the mailbox outlives them all.
//
// A frame whose place in a call is there already is copied or added to the caller's vector from
// where the transport has it; that memory is the transport's own, so the sender cannot change it
// any more. Another frame is kept (MemberCore). Answers come at once in either case: no thread that
// serves waits for a member.
//
// Whoever proves to be another member than its frame names as the sender is refused
// (PERMISSION_DENIED), so that no worker can answer for, or end, a group in another one's name. On
// a connection that proves nothing it is this machine's user, as of shared memory, who is believed.
//
// Frames of generations that are over are refused (FAILED_PRECONDITION); of one that is still to
// come here they are to be sent again later (REFUSED_BUSY).
//
// Thread safe.
#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "common/base/mutex.h"
#include "common/collective/peer_header.h"
#include "common/collective/seat.h"
#include "common/security/caller.h"
#include "common/transport/frame/frame_handler.h"

namespace monsoon {

class PeerMailbox final : public FrameHandler {
 public:
  void Register(FrameKinds* kinds) override;

  // The seat of the next generation; gives up an older one. FailedPrecondition where the generation
  // is not above all before.
  absl::Status Open(uint64_t generation, std::shared_ptr<Seat> seat);
  // The generation is over, if it is the present one.
  void Close(uint64_t generation);
  // The newest generation that there was; 0: none.
  uint64_t newest() const;

 private:
  absl::StatusOr<ServedFrame> Serve(DataHeader* request, ChunkCursor* payload,
                                    const Caller& caller);
  // Whose frame it is. Unavailable: nobody's yet.
  absl::StatusOr<std::shared_ptr<Seat>> Find(const PeerHeader& header);
  // Does what the frame asks for. Unavailable: not yet.
  static absl::StatusOr<PeerAnswer> Take(const PeerHeader& header, ChunkCursor* payload,
                                         Seat* seat);

  mutable Mutex mutex_;
  uint64_t generation_ ABSL_GUARDED_BY(mutex_) = 0;  // the newest; 0: there was none
  std::shared_ptr<Seat> seat_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace monsoon
