// SliceFetches: what fetches read of a slice: its parameters, a vector or the public copies, frame
// by frame; or, for clients on this host, where they read the parameters themselves.
//
// Thread safe: a copy takes the lock of one stripe at a time, and no other.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/memory/aligned_floats.h"
#include "common/transport/shm/shared_slice.h"
#include "proto/parameter_server.pb.h"
#include "proto/tensor.pb.h"
#include "proto/wire_format.pb.h"
#include "ps_server/shard/client_writes.h"
#include "ps_server/shard/session_table.h"
#include "ps_server/shard/slice_figures.h"
#include "ps_server/shard/slice_sessions.h"
#include "ps_server/shard/slice_stripes.h"
#include "ps_server/shard/validation.h"
#include "ps_server/vector/named_vectors.h"

namespace monsoon {

class SliceFetches {
 public:
  // All outlive this.
  SliceFetches(const CreateShardJobRequest* request, const JobFacts* facts, SliceStripes* stripes,
               SliceSessions* sessions, const ClientWrites* writes, SliceFigures* figures)
      : request_(*request),
        facts_(*facts),
        stripes_(stripes),
        sessions_(sessions),
        writes_(*writes),
        figures_(figures) {}

  // Checks a fetch; CopyStripes then serves it piece by piece.
  absl::Status Validate(const FetchRequest& request) const;
  // Whether the rounds are over that the session has pushed to, of the stripes from `first` on.
  // Unavailable names the sessions that are waited for.
  absl::Status CheckRounds(SessionId session, uint32_t first, uint32_t count);
  // Bytes of the largest answer frame's payload for such a fetch.
  uint64_t FramePayloadBytes(uint32_t first, uint32_t end) const;

  // Copies stripes from `first` up to `end`, as many as fit one frame, to the
  // front of `payload`, written in `format`, a fetch format; of `vector` instead
  // of the parameters unless it is null, or of that slot of the optimizer's state, from 1.
  // FailedPrecondition when the session is not open, or as ClientWrites::CheckReadable.
  struct Copied {
    std::vector<FetchRecord> records;
    uint64_t bytes = 0;
  };
  absl::StatusOr<Copied> CopyStripes(std::optional<SessionId> session, uint32_t first, uint32_t end,
                                     const SliceVector* vector, WireFormat format,
                                     AlignedFloats* payload, uint32_t slot = 0);
  // The same of the public copies, for a request of changes.
  absl::StatusOr<Copied> CopyChanges(const FetchRequest& request, uint32_t first, uint32_t end,
                                     AlignedFloats* payload);

  // What a client on this host needs to read the parameters itself, for a fetch
  // that passed Validate. FailedPrecondition when the session is not open
  // or there is no more room for it, or a client may still write the parameters: the
  // client must ask the shard.
  struct Shared {
    int fd = -1;       // lives as long as `file`
    SessionSlot slot;  // ticket 0 without a session
    SharedShape shape;
    std::shared_ptr<const MemoryFile> file;
  };
  absl::StatusOr<Shared> Share(std::optional<SessionId> session) const;

 private:
  absl::Status ValidateChanges(const FetchRequest& request) const;
  // Of a slot of the optimizer's state.
  absl::Status ValidateState(const FetchRequest& request) const;
  std::optional<FetchRecord> CopyVector(std::optional<SessionId> session, uint32_t stripe,
                                        const SliceVector& vector, std::span<float> out) const;

  const CreateShardJobRequest& request_;
  const JobFacts& facts_;
  SliceStripes* const stripes_;
  SliceSessions* const sessions_;
  const ClientWrites& writes_;
  SliceFigures* const figures_;
};

}  // namespace monsoon
