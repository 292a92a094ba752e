#include "ps_server/client/plain_push.h"

#include "common/base/status.h"

namespace monsoon {

absl::StatusOr<ParameterClient::PushResult> RunPlainPush(
    ExchangeContext context, const FragmentMap& fragments, const PlainPush& push,
    RequestMaker* requests, PushEncoder* encoder, FrameTransport* transport) {
  // A shard takes records as the push's only after its rows.
  context.any_order = push.rows.empty();
  ParameterClient::PushResult result;
  result.sequence = push.sequence;
  const auto handler = [&](uint32_t shard, const DataHeader& header,
                           ChunkCursor* payload) -> absl::StatusOr<Answer> {
    ASSIGN_OR_RETURN(const Answer answer,
                     TakePushAnswer(shard, header, fragments, encoder, &result));
    if (answer == Answer::kDone && push.target != nullptr && header.push_reply().has_fetch()) {
      return TakeFetchReply(shard, header.push_reply().fetch(), payload, push.target);
    }
    return answer;
  };
  ExchangeCounts counts;
  const absl::Status exchanged = RunExchange(
      context,
      requests->Push(*encoder, *push.base, push.sequence, push.target != nullptr, push.rows),
      transport, handler, &counts);
  if (absl::IsInvalidArgument(exchanged)) {
    return absl::InternalError(exchanged.message());
  }
  RETURN_IF_ERROR(exchanged);
  result.rpcs = counts.frames;
  result.retries = counts.retries;
  result.bytes = counts.bytes;
  return result;
}

absl::StatusOr<ParameterClient::ContributeResult> RunContribution(
    const ExchangeContext& context, const RequestMaker::ShardRequests& requests,
    FrameTransport* transport) {
  ParameterClient::ContributeResult result;
  const auto handler = [&result](uint32_t, const DataHeader& header, ChunkCursor*) {
    return TakeContributeAnswer(header, &result);
  };
  ExchangeCounts counts;
  RETURN_IF_ERROR(RunExchange(context, requests, transport, handler, &counts));
  result.rpcs = counts.frames;
  result.retries = counts.retries;
  result.bytes = counts.bytes;
  return result;
}

}  // namespace monsoon
