// What a shard's answer frames say. Pure; errors carry the mark that
// IsSessionLost looks for.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/codec/tensor_codec.h"
#include "common/model/fragment_map.h"
#include "common/transport/frame/exchange.h"
#include "common/transport/frame/frame_codec.h"
#include "proto/tensor.pb.h"
#include "ps_server/client/parameter_client.h"
#include "ps_server/client/public_view.h"
#include "ps_server/client/push_encoder.h"
#include "ps_server/client/round_wait.h"

namespace monsoon {

// A FailedPrecondition that IsSessionLost knows.
absl::Status SessionLostError(absl::string_view message);

// An Unavailable that IsRoundOpen knows.
absl::Status RoundOpenError(absl::string_view message);

// Whether it says that the record was meant for another life of the shard.
bool IsEpochRefused(const absl::Status& status);

// The status of an error frame.
absl::Status ToStatus(const DataError& error, bool has_session);

// Adds the verdicts of one push frame to `result`.
absl::StatusOr<Answer> TakePushReply(const PushReply& reply, uint64_t sequence,
                                     ParameterClient::PushResult* result);

// The same of the answer to what `encoder` has encoded, which takes back what was refused.
absl::StatusOr<Answer> TakePushAnswer(uint32_t shard, const DataHeader& header,
                                      const FragmentMap& fragments, PushEncoder* encoder,
                                      ParameterClient::PushResult* result);

// The answer to one frame of rows of a push.
absl::StatusOr<Answer> TakeRowPushReply(const RowPushReply& reply);

// Adds the verdicts of one contribution frame to `result`; errors included.
absl::StatusOr<Answer> TakeContributeAnswer(const DataHeader& header,
                                            ParameterClient::ContributeResult* result);

// The answer to a session that passes, errors included.
absl::StatusOr<Answer> TakePassAnswer(const DataHeader& header);
// The answer to one frame of a write or of a seal, errors included. `has_session`: it is a
// session's, to the spare room.
absl::StatusOr<Answer> TakeWriteAnswer(const DataHeader& header, bool has_session);

// What a fetch fills, frame by frame.
struct FetchTarget {
  // Of the whole vector; `marks` gets an entry per stripe. All outlive it, `options` too.
  static FetchTarget Of(const ParameterClientOptions& options, WireFormat format,
                        std::span<float> parameters, FetchMarks* marks);

  const ShardMap* map = nullptr;
  const TensorCodec* codec = nullptr;  // of the format that was asked for
  std::span<float> parameters;         // the whole vector
  bool halves = false;                 // it is of BFLOAT16 (ParameterClientOptions)
  FetchMarks* marks = nullptr;         // has an entry per stripe
  PublicView* view = nullptr;          // of changes: what takes them, and has the parameters
  std::vector<std::byte> encoded;      // scratch
  std::vector<float> decoded;          // scratch
  uint64_t bytes = 0;                  // of records so far
  uint64_t records = 0;                // taken from frames so far
};

// Whether the marks of a fetch of all stripes, or of those of `fragment`, are of these lives of
// the shards.
bool AreOfEpochs(const FetchMarks& marks, std::span<const uint64_t> epochs,
                 const FragmentMap& fragments, std::optional<uint32_t> fragment);

// Shards count the pushes of a stripe; afterwards those marks tell the session's.
void CountInPushes(const FragmentMap& fragments, std::optional<uint32_t> fragment,
                   FetchMarks* marks);

// Maximum minus minimum of the versions of stripes that were fetched.
uint64_t FetchWidth(const FetchMarks& marks);

// Puts one fetch frame of `shard` into `target`.
absl::StatusOr<Answer> TakeFetchReply(uint32_t shard, const FetchReply& reply, ChunkCursor* payload,
                                      FetchTarget* target);

// Who fetches.
struct Fetcher {
  bool session = true;  // a replica, not somebody who only reads
  bool keeps = false;   // it keeps its pushes, so that it waits for a shard that is started anew
};
// Takes what comes in answer to a fetch. Busy where a round is open.
absl::StatusOr<Answer> TakeFetchAnswer(uint32_t shard, const DataHeader& header,
                                       ChunkCursor* payload, const Fetcher& fetcher,
                                       RoundWait* wait, FetchTarget* target);

}  // namespace monsoon
