// SpareRoom: room for one more of all that a slice holds, of a job whose shards only store
// (CreateShardJobRequest.store_only). A session writes parameters and optimizer state there, piece
// by piece; nothing can read them before the write is sealed and adopted, and then the slice has
// them as one. So whatever becomes of who writes, the slice holds one whole write, or the next.
//
// Writes are numbered. A higher number discards what is here of a lower one; so does another
// session that writes under the same number, since a mixture of two must not be sealed.
//
// Thread safe. Lock order: SliceSessions::mutex() (of writes and seals, whose session stays open
// while it is held), mutex_, one stripe at a time. A seal reads all of the room under mutex_ and an
// adoption copies all of it, so that either takes as long as memory takes for that.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/mutex.h"
#include "common/memory/aligned_floats.h"
#include "proto/tensor.pb.h"
#include "ps_server/shard/session_table.h"
#include "ps_server/shard/slice_stripes.h"
#include "ps_server/shard/validation.h"

namespace monsoon {

class SpareRoom {
 public:
  // Both outlive this. Takes memory for floats with the first write.
  SpareRoom(const JobFacts* facts, SliceStripes* stripes);

  // What it takes for a slice, at most.
  static uint64_t Bytes(uint64_t floats, uint64_t stripes, int optimizer_slots);

  // Takes the records of `request`, which is valid, of the write request.writer(); `content` has
  // their floats one after another. Nothing is to be done where the session has sealed that write.
  // FailedPrecondition with both numbers where a later one has begun; ResourceExhausted without
  // memory.
  absl::Status Stage(SessionId session, const WriteRequest& request,
                     std::span<const float> content);

  // Ends the session's write. FailedPrecondition says what is missing, or what differs. Safe to
  // repeat.
  absl::Status Seal(SessionId session, uint64_t number, uint64_t checksum);

  // The slice becomes what was written under that number: stripe by stripe, each as one, and none
  // is read by a cut before all are done. Nothing is done where this number or a later one was
  // adopted. FailedPrecondition where it is not here whole; Unavailable while a generation is being
  // cut.
  absl::Status Adopt(uint64_t number);

  // The write that was adopted last; 0: none. Takes no lock.
  uint64_t adopted() const { return adopted_; }

  // While it lives nothing is adopted. A cut goes stripe by stripe, and waits for a disk in
  // between: without this it could have some stripes of one write and some of the next, which
  // nobody would notice, since each is whole in itself. An adoption is turned away meanwhile, and
  // asked for again, in place of a thread of the server's that waits for the disk.
  class CutScope {
   public:
    // Waits for an adoption that has begun. `room` outlives this; null: nothing is ever adopted.
    explicit CutScope(SpareRoom* room);
    ~CutScope();
    CutScope(const CutScope&) = delete;
    CutScope& operator=(const CutScope&) = delete;

   private:
    SpareRoom* const room_;
  };

 private:
  // What was written last.
  struct Write {
    uint64_t number = 0;  // 0: nothing was
    SessionId session;
    bool sealed = false;
    uint64_t checksum = 0;  // if sealed
  };

  // False: nothing is to be written.
  absl::StatusOr<bool> Begin(SessionId session, uint64_t number)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status MakeRoom() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Of a slot, the stripe's place.
  std::span<float> PlaceOf(size_t slot, uint32_t stripe) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // What was not written; "": all was.
  std::string Missing() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Late(uint64_t number) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const JobFacts& facts_;
  SliceStripes* const stripes_;
  std::atomic<uint64_t> adopted_{0};

  Mutex mutex_;
  Write write_ ABSL_GUARDED_BY(mutex_);
  // [slot], each of the slice: the parameters, and behind them the optimizer's state. Empty before
  // the first write.
  std::vector<AlignedFloats> slots_ ABSL_GUARDED_BY(mutex_);
  std::vector<uint64_t> versions_ ABSL_GUARDED_BY(mutex_);  // [stripe], that it is to have
  std::vector<bool> written_ ABSL_GUARDED_BY(mutex_);       // [slot * stripes + stripe]
  int cuts_ ABSL_GUARDED_BY(mutex_) = 0;                    // that go on
};

}  // namespace monsoon
