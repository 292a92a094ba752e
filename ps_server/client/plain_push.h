// RunPlainPush, RunContribution: one push, or one contribution, of which nothing is kept: where a
// shard dies, the session does.
//
// Thread safety: none.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "absl/status/statusor.h"
#include "common/transport/frame/exchange.h"
#include "common/transport/frame/frame_transport.h"
#include "ps_server/client/answers.h"
#include "ps_server/client/kept_rows.h"
#include "ps_server/client/parameter_client.h"
#include "ps_server/client/push_encoder.h"
#include "ps_server/client/requests.h"

namespace monsoon {

// What is sent; all of it outlives the call.
struct PlainPush {
  uint64_t sequence = 0;
  const FetchMarks* base = nullptr;
  std::span<const std::shared_ptr<const KeptRows>> rows;  // [shard], of a job with tables
  FetchTarget* target =
      nullptr;  // where the parameters go that the answers bring; null: they do not
};

// Sends what `encoder` has encoded last, and waits for each shard's answer. InternalError where a
// shard did not understand it: others may have applied it, so that its sequence is used up.
absl::StatusOr<ParameterClient::PushResult> RunPlainPush(
    ExchangeContext context, const FragmentMap& fragments, const PlainPush& push,
    RequestMaker* requests, PushEncoder* encoder, FrameTransport* transport);

// Sends the frames of one contribution, and waits for each shard's answer.
absl::StatusOr<ParameterClient::ContributeResult> RunContribution(
    const ExchangeContext& context, const RequestMaker::ShardRequests& requests,
    FrameTransport* transport);

}  // namespace monsoon
