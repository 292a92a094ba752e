// What a shard's answer frames say. Pure; errors carry the mark that
// IsSessionLost looks for.
#pragma once

#include <cstdint>
#include <span>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/rpc/frame_codec.h"
#include "proto/tensor.pb.h"
#include "ps_server/client/exchange.h"
#include "ps_server/client/parameter_client.h"

namespace monsoon {

// A FailedPrecondition that IsSessionLost knows.
absl::Status SessionLostError(absl::string_view message);

// The status of an error frame.
absl::Status ToStatus(const DataError& error, bool has_session);

// Adds the verdicts of one push frame to `result`.
absl::StatusOr<Answer> TakePushReply(const PushReply& reply, uint64_t sequence,
                                     ParameterClient::PushResult* result);

// Adds the verdicts of one contribution frame to `result`.
absl::StatusOr<Answer> TakeContributeReply(const PushReply& reply,
                                           ParameterClient::ContributeResult* result);

// Puts one fetch frame of `shard` into `parameters` (the whole vector) and
// `marks`, which has an entry per stripe.
absl::StatusOr<Answer> TakeFetchReply(const ShardMap& map, uint32_t shard, const FetchReply& reply,
                                      ChunkCursor* payload, std::span<float> parameters,
                                      std::vector<StripeMark>* marks);

}  // namespace monsoon
