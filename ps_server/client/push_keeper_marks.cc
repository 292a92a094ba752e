// PushKeeper: what shards say that they have.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "ps_server/client/push_keeper.h"

namespace monsoon {

absl::StatusOr<Answer> PushKeeper::TakeMarks(uint32_t shard, const DataHeader& header) {
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
  if (reply.shard_epoch() != shards_[shard]->window.epoch()) {
    return SessionLostError(absl::StrCat("it was started anew, and is not restored yet (epoch ",
                                         reply.shard_epoch(), ")"));
  }
  Heard& heard = heard_[shard];
  const FragmentMap& fragments = options_.fragments;
  uint32_t i = requests_->FirstMarked(shard, header.request_id());
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

absl::StatusOr<Answer> PushKeeper::TakeRows(uint32_t shard, const RowPushReply& reply) {
  absl::StatusOr<Answer> answer = TakeRowPushReply(reply);
  if (!answer.ok()) {
    heard_[shard].refused_for_good = !IsEpochRefused(answer.status());
  } else if (*answer == Answer::kDone) {
    uint64_t& durable = heard_[shard].durable.back();
    durable = std::min(durable, reply.durable_push());
  }
  return answer;
}

absl::Status PushKeeper::AskMarks(const std::vector<bool>& wanted) {
  requests_->Begin();
  for (uint32_t shard = 0; shard < shards(); ++shard) {
    if (wanted[shard]) {
      requests_->AddMarks(shard);
    }
  }
  RETURN_IF_ERROR(
      Run(requests_->requests(),
          [this](uint32_t shard, const DataHeader& header, ChunkCursor*) -> absl::StatusOr<Answer> {
            return TakeMarks(shard, header);
          }));
  for (uint32_t i = 0; i < shards(); ++i) {
    const Heard& heard = heard_[i];
    if (!wanted[i] || heard.left_out || heard.applied == UINT64_MAX) {
      continue;
    }
    ShardState& shard = *shards_[i];
    if (absl::Status status = shard.window.OnMarks(shard.window.epoch(),
                                                   std::min(heard.applied, last_), HeardDurable(i));
        !status.ok()) {
      return NamePeer(context_, i, status);
    }
    shard.written = heard.written;
    Forget(&shard);
  }
  return absl::OkStatus();
}

absl::Status PushKeeper::Refresh() {
  std::vector<bool> wanted(shards(), false);
  bool any = false;
  for (uint32_t shard = 0; shard < shards(); ++shard) {
    wanted[shard] = shards_[shard]->present;
    any |= wanted[shard];
  }
  return any ? AskMarks(wanted) : absl::OkStatus();
}

uint64_t PushKeeper::HeardDurable(uint32_t index) {
  std::vector<uint64_t>& durable = shards_[index]->durable;
  for (uint32_t fragment = 0; fragment < durable.size(); ++fragment) {
    if (heard_[index].durable[fragment] != UINT64_MAX) {
      durable[fragment] = heard_[index].durable[fragment];
    }
  }
  return std::min(last_, *std::ranges::min_element(durable));
}

}  // namespace monsoon
