#include "ps_server/client/heard_answers.h"

#include <algorithm>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/model/fragment_map.h"

namespace monsoon {

namespace {

const std::string& BusyMessage(const PushReply& reply) {
  return std::ranges::find(reply.verdict(), REFUSED_BUSY, &PushVerdict::verdict)->message();
}

}  // namespace

uint32_t KindsOfPushes(const ParameterClientOptions& options) {
  return options.fragments.count() + (options.tables.empty() ? 0 : 1);
}

HeardAnswers::HeardAnswers(const ParameterClientOptions* options, const RequestMaker* requests,
                           PushEncoder* encoder)
    : options_(*options), requests_(*requests), encoder_(encoder), heard_(options->map.shards()) {}

void HeardAnswers::Begin() {
  heard_.assign(heard_.size(), HeardOfShard());
  for (HeardOfShard& heard : heard_) {
    heard.durable.assign(KindsOfPushes(options_), UINT64_MAX);
  }
}

absl::StatusOr<Answer> HeardAnswers::TakeVerdicts(uint32_t shard, const DataHeader& header,
                                                  uint64_t newest,
                                                  ParameterClient::PushResult* result) {
  if (header.has_error()) {
    return ToStatus(header.error(), /*has_session=*/true);
  }
  if (header.has_row_push_reply() && !options_.tables.empty()) {
    return TakeRows(shard, header.row_push_reply());
  }
  if (!header.has_push_reply() || header.push_reply().verdict().empty()) {
    heard_[shard].refused_for_good = true;
    return absl::InternalError("the answer to a push is of another kind");
  }
  const PushReply& reply = header.push_reply();
  const uint64_t sequence = reply.verdict(0).sequence();  // of all stripes of the push
  absl::StatusOr<Answer> answer = TakePushReply(reply, sequence, result);
  if (!answer.ok()) {
    heard_[shard].refused_for_good = !IsEpochRefused(answer.status());
    return answer;
  }
  if (*answer != Answer::kDone) {
    heard_[shard].round = options_.rounds ? BusyMessage(reply) : "";
    return answer;
  }
  for (const PushVerdict& verdict : reply.verdict()) {
    if (verdict.stripe() >= options_.map.stripes(shard)) {
      continue;
    }
    const uint32_t of = options_.fragments.Of(shard, verdict.stripe());
    uint64_t& durable = heard_[shard].durable[of];
    durable = std::min(durable, options_.fragments.PushesBefore(of, verdict.durable_sequence()));
    if (verdict.verdict() == DROPPED) {
      heard_[shard].dropped.emplace_back(options_.fragments.PushOf(of, sequence), verdict.stripe());
    }
    // Of an earlier one the encoder does not have the content any more.
    if (verdict.verdict() == REFUSED_INVALID && options_.fragments.PushOf(of, sequence) == newest) {
      encoder_->Refused(shard, verdict.stripe());
    }
  }
  return answer;
}

absl::StatusOr<Answer> HeardAnswers::TakeRows(uint32_t shard, const RowPushReply& reply) {
  absl::StatusOr<Answer> answer = TakeRowPushReply(reply);
  if (!answer.ok()) {
    heard_[shard].refused_for_good = !IsEpochRefused(answer.status());
  } else if (*answer == Answer::kDone) {
    uint64_t& durable = heard_[shard].durable.back();
    durable = std::min(durable, reply.durable_push());
  }
  return answer;
}

absl::StatusOr<Answer> HeardAnswers::TakeMarks(uint32_t shard, const DataHeader& header,
                                               uint64_t epoch) {
  if (header.has_error()) {
    // A life that has not got the job back does not know it either; of a session that
    // is really over the coordinator tells.
    return SessionLostError(header.error().message());
  }
  if (!header.has_marks_reply()) {
    heard_[shard].refused_for_good = true;
    return absl::InternalError("the answer to a question for marks is of another kind");
  }
  const MarksReply& reply = header.marks_reply();
  if (reply.shard_epoch() != epoch) {
    return SessionLostError(absl::StrCat("it was started anew, and is not restored yet (epoch ",
                                         reply.shard_epoch(), ")"));
  }
  HeardOfShard& heard = heard_[shard];
  heard.generation = std::max(heard.generation, reply.generation());
  const FragmentMap& fragments = options_.fragments;
  uint32_t i = requests_.FirstMarked(shard, header.request_id());
  for (const StripeMarks& stripe : reply.stripe()) {
    if (i >= options_.map.stripes(shard)) {
      heard.refused_for_good = true;
      return absl::InternalError("the answer to a question for marks is of other stripes");
    }
    const uint32_t of = fragments.Of(shard, i++);
    heard.applied = std::min(heard.applied, fragments.PushesBefore(of, stripe.applied()));
    heard.durable[of] = std::min(heard.durable[of], fragments.PushesBefore(of, stripe.durable()));
    heard.written = std::min(heard.written, fragments.PushesBefore(of, stripe.written()));
  }
  if (reply.has_rows() && !options_.tables.empty()) {
    heard.applied = std::min(heard.applied, reply.rows().applied());
    heard.durable.back() = std::min(heard.durable.back(), reply.rows().durable());
    heard.written = std::min(heard.written, reply.rows().written());
  }
  return Answer::kDone;
}

}  // namespace monsoon
