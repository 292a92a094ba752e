#include "ps_server/client/push_keeper.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status.h"
#include "common/base/thread.h"
#include "common/memory/stream_copy.h"

namespace monsoon {
namespace {

// Between tries of a shard that is away: at first, and when it was tried in vain.
constexpr absl::Duration kFirstTry = absl::Milliseconds(50);
// A look whether a silent shard is back costs the pushing thread its patience: at first
// little, so that it is seen soon, and more where that was not enough for a long way.
constexpr absl::Duration kFirstPatience = absl::Milliseconds(150);
constexpr int kShortLooks = 5;
// So many times as long it pushes to the others before the next look.
constexpr int kPausePerPatience = 6;
// Between looks while somebody waits.
constexpr absl::Duration kLook = absl::Milliseconds(20);
// A checkpoint is asked for when this part of what may be kept is: it takes two of them
// until anything is free again.
constexpr uint64_t kAskAtShare = 4;
// What is sent again before the answers are waited for.
constexpr uint64_t kReplayBytes = 4 << 20;

}  // namespace

PushKeeper::PushKeeper(const ParameterClientOptions* options, const ExchangeContext& context,
                       PushEncoder* encoder, RequestMaker* requests, FrameTransport* transport)
    : options_(*options),
      context_(context),
      encoder_(encoder),
      requests_(requests),
      transport_(transport),
      give_up_([this](uint32_t shard, const absl::Status& why) { return LeaveOut(shard, why); }),
      heard_(options->map.shards()),
      why_(options->map.shards()) {
  context_.give_up = &give_up_;
  context_.silence = kSilence;
  for (uint32_t shard = 0; shard < options_.map.shards(); ++shard) {
    // Each gets room by its length, so that all hold equally many pushes; rows are spread evenly,
    // however few parameters are beside them.
    const double share = options_.tables.empty()
                             ? static_cast<double>(options_.map.shard(shard).size()) /
                                   static_cast<double>(options_.map.size())
                             : 1.0 / options_.map.shards();
    shards_.push_back(std::make_unique<ShardState>(
        static_cast<uint64_t>(static_cast<double>(options_.keep_bytes) * share)));
    shards_.back()->named = options_.shard_epochs[shard];
    for (uint32_t fragment = 0; fragment < options_.fragments.count(); ++fragment) {
      // Of one that has no stripe there nothing is ever missing.
      shards_.back()->durable.push_back(options_.fragments.Runs(fragment, shard).empty()
                                            ? UINT64_MAX
                                            : options_.fragments.PushesBefore(fragment, 0));
    }
    shards_.back()->durable.resize(kinds(), 0);
  }
  ApplyNamed();
  Publish();
}

uint64_t PushKeeper::ready_epoch(uint32_t shard) const {
  const uint64_t epoch = shards_[shard]->ready;
  return epoch == shards_[shard]->named ? epoch : 0;
}

std::optional<std::string> PushKeeper::away() const {
  for (uint32_t shard = 0; shard < shards(); ++shard) {
    if (ready_epoch(shard) != 0) {
      continue;
    }
    MutexLock lock(&why_mutex_);
    return absl::StrCat((*context_.names)[shard], why_[shard].empty() ? "" : ": ", why_[shard]);
  }
  return std::nullopt;
}

KeptPushes PushKeeper::kept() const {
  const uint64_t bytes = kept_bytes_;
  return {bytes,
          options_.keep_bytes,
          copied_bytes_,
          replayed_,
          awaits_ || bytes > options_.keep_bytes / kAskAtShare,
          awaits_};
}

// ---- shards that come and go --------------------------------------------------

void PushKeeper::ApplyNamed() {
  for (uint32_t i = 0; i < shards(); ++i) {
    ShardState& shard = *shards_[i];
    if (forgoes_) {
      shard.window.Forgo();
      Forget(&shard);
    }
    const uint64_t named = shard.named;
    if (named == shard.window.epoch()) {
      continue;
    }
    const bool first = shard.window.epoch() == 0;
    shard.window.NameEpoch(named);
    if (last_ == 0) {
      // The session was opened there before it was given to us, and has sent nothing.
      CHECK_OK(shard.window.OnMarks(named, 0, 0));
    }
    if (!first) {
      transport_->Reset(i);  // what comes of the old life does not count
      GoAway(i, absl::ZeroDuration());
    }
  }
}

void PushKeeper::GoAway(uint32_t index, absl::Duration pause) {
  ShardState& shard = *shards_[index];
  shard.present = false;
  shard.ready = 0;
  shard.window.Reconnect();
  shard.next_try = now() + pause;
}

bool PushKeeper::LeaveOut(uint32_t shard, const absl::Status& why) {
  const bool silent = absl::IsDeadlineExceeded(why);
  if (heard_[shard].refused_for_good ||
      !(silent || IsSessionLost(why) ||
        (SaysNothingOfTheRequest(why) && now() - exchange_began_ >= kCut))) {
    return false;
  }
  heard_[shard].left_out = true;
  GoAway(shard, silent ? kSilence : kFirstTry);
  MutexLock lock(&why_mutex_);
  why_[shard] = std::string(why.message());
  return true;
}

absl::Status PushKeeper::Run(const RequestMaker::ShardRequests& requests, AnswerHandler handler) {
  heard_.assign(shards(), Heard());
  for (Heard& heard : heard_) {
    heard.durable.assign(kinds(), UINT64_MAX);
  }
  exchange_began_ = now();
  ExchangeCounts counts;
  const absl::Status status = RunExchange(context_, requests, transport_, handler, &counts);
  counts_.frames += counts.frames;
  counts_.retries += counts.retries;
  counts_.bytes += counts.bytes;
  return status;
}

absl::Status PushKeeper::ReturnDue(bool at_once) {
  for (uint32_t i = 0; i < shards(); ++i) {
    if (!shards_[i]->present && (at_once || now() >= shards_[i]->next_try)) {
      RETURN_IF_ERROR(Return(i));
    }
  }
  Publish();
  return absl::OkStatus();
}

absl::Status PushKeeper::Return(uint32_t index) {
  ShardState& shard = *shards_[index];
  const absl::Duration began = now();
  std::vector<bool> wanted(shards(), false);
  wanted[index] = true;
  const int doublings = std::clamp(shard.silent_looks - kShortLooks + 1, 0, 8);
  context_.silence = std::min(kFirstPatience * (1 << doublings), kSilence);
  const absl::Status asked = AskMarks(wanted);
  const absl::Duration patience = std::exchange(context_.silence, kSilence);
  RETURN_IF_ERROR(asked);
  if (heard_[index].left_out) {
    const bool silent = now() - began >= kCut;
    shard.silent_looks += silent ? 1 : 0;
    shard.next_try = now() + (silent ? kPausePerPatience * patience : kFirstTry);
    return absl::OkStatus();
  }
  shard.present = true;
  shard.silent_looks = 0;
  return Replay(index);
}

absl::Status PushKeeper::Replay(uint32_t index) {
  ShardState& shard = *shards_[index];
  while (shard.present && shard.window.Next() != nullptr) {
    requests_->Begin();
    uint64_t bytes = 0;
    uint64_t replayed = 0;
    uint64_t sequence = 0;
    while (const ReplayWindow::Push* const push = shard.window.Next()) {
      // In rounds one is sent until the round of the one before is over: with nothing behind it.
      if (bytes > 0 && (options_.rounds || bytes + push->bytes->size() > kReplayBytes)) {
        break;
      }
      sequence = push->sequence;
      AddToRequests(index, *push, push->bytes->bytes(), /*then_fetch=*/false);
      bytes += push->bytes->size();
      replayed +=
          push->replayed
              ? options_.fragments.StripesOf(options_.fragments.OfPush(sequence), index).size()
              : 0;
      shard.window.OnSent();
    }
    ParameterClient::PushResult late;  // verdicts of earlier pushes: counted with those
    RETURN_IF_ERROR(
        Run(requests_->requests(),
            [&](uint32_t, const DataHeader& header, ChunkCursor*) -> absl::StatusOr<Answer> {
              return TakeVerdicts(index, header, &late);
            }));
    if (heard_[index].left_out) {
      return absl::OkStatus();
    }
    replayed_ += replayed;
    shard.window.OnAcknowledged(shard.window.epoch(), sequence, HeardDurable(index));
    Forget(&shard);
  }
  if (shard.present) {
    MutexLock lock(&why_mutex_);
    why_[index].clear();
  }
  return absl::OkStatus();
}

// ---- pushes -------------------------------------------------------------------

bool PushKeeper::full() const {
  for (uint32_t shard = 0; shard < shards(); ++shard) {
    const uint64_t bytes =
        encoder_->ShardBytes(shard).size() + (rows_.empty() ? 0 : rows_[shard]->size());
    if (shards_[shard]->window.full(bytes)) {
      return true;
    }
  }
  return false;
}

absl::Status PushKeeper::MakeRoom() {
  const absl::Duration end = now() + context_.deadline;
  while (full()) {
    awaits_ = true;
    RETURN_IF_ERROR(Refresh());
    ApplyNamed();
    RETURN_IF_ERROR(ReturnDue(/*at_once=*/false));
    if (full()) {
      RETURN_IF_ERROR(
          Wait(absl::StrCat("a checkpoint: ", kept_bytes_ >> 20,
                            " MiB of pushes are not on the shards' disks yet, ",
                            options_.keep_bytes >> 20, " are allowed (replay_window_mib)",
                            away().has_value() ? "; away: " : "", away().value_or("")),
               "no room for a push: waits for ", end));
    }
  }
  awaits_ = false;
  return absl::OkStatus();
}

void PushKeeper::Keep(const FetchMarks& base, const std::shared_ptr<const void>& owner) {
  ++last_;
  const bool stays = owner != nullptr && encoder_->as_it_is();
  for (uint32_t i = 0; i < shards(); ++i) {
    const std::span<const std::byte> bytes = encoder_->ShardBytes(i);
    to_fill_.push_back(stays ? nullptr : pool_.Take(bytes.size()));
    copied_bytes_ += stays ? 0 : bytes.size();
    auto kept = stays ? std::make_shared<KeptBytes>(bytes, owner) : to_fill_.back();
    kept->set_weight(encoder_->weight());
    kept->set_rows(rows_.empty() ? nullptr : rows_[i]);
    shards_[i]->window.Add(std::move(kept));
    CHECK_EQ(shards_[i]->window.last(), last_);
    shards_[i]->base.push_back(base.shard.empty() ? std::vector<StripeMark>() : base.shard[i]);
  }
}

void PushKeeper::Fill() {
  requests_->KeepAll();
  for (uint32_t i = 0; i < to_fill_.size(); ++i) {
    if (KeptBytes* const kept = to_fill_[i].get(); kept != nullptr) {
      StreamCopy(encoder_->ShardBytes(i), kept->bytes().data());
    }
  }
  to_fill_.clear();
}

void PushKeeper::Forget(ShardState* shard) {
  while (shard->base.size() > shard->window.last() - shard->window.durable()) {
    shard->base.pop_front();
  }
}

void PushKeeper::Publish() {
  uint64_t acknowledged = last_;
  uint64_t bytes = 0;
  for (const auto& shard : shards_) {
    acknowledged = std::min(acknowledged, shard->window.once_acknowledged());
    bytes += shard->window.bytes();
    const bool ready =
        shard->present && shard->window.caught_up() && shard->window.Next() == nullptr;
    shard->ready = ready ? shard->window.epoch() : 0;
  }
  acknowledged_ = acknowledged;
  kept_bytes_ = bytes;
}

void PushKeeper::AddToRequests(uint32_t index, const ReplayWindow::Push& push,
                               std::span<const std::byte> bytes, bool then_fetch,
                               std::shared_ptr<KeptBytes> keep) {
  const ShardState& shard = *shards_[index];
  const size_t i = static_cast<size_t>(push.sequence - shard.window.durable() - 1);
  if (push.bytes->rows() != nullptr) {
    requests_->AddRows(index, push.sequence, shard.window.epoch(), *push.bytes->rows());
  }
  requests_->AddPush(index, *encoder_,
                     {.sequence = push.sequence,
                      .shard_epoch = shard.window.epoch(),
                      .bytes = bytes,
                      .base = shard.base[i],
                      .weight = push.bytes->weight(),
                      .keep = std::move(keep)},
                     then_fetch);
}

absl::StatusOr<Answer> PushKeeper::TakeVerdicts(uint32_t shard, const DataHeader& header,
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
    return answer;
  }
  for (const PushVerdict& verdict : reply.verdict()) {
    if (verdict.stripe() >= options_.map.stripes(shard)) {
      continue;
    }
    const uint32_t of = options_.fragments.Of(shard, verdict.stripe());
    uint64_t& durable = heard_[shard].durable[of];
    durable = std::min(durable, options_.fragments.PushesBefore(of, verdict.durable_sequence()));
    // Of an earlier one the encoder does not have the content any more.
    if (verdict.verdict() == REFUSED_INVALID && options_.fragments.PushOf(of, sequence) == last_) {
      encoder_->Refused(shard, verdict.stripe());
    }
  }
  return answer;
}

absl::StatusOr<ParameterClient::PushResult> PushKeeper::Push(
    const FetchMarks& base, const std::shared_ptr<const void>& owner, FetchTarget* target) {
  counts_ = {};
  ApplyNamed();
  RETURN_IF_ERROR(MakeRoom());
  RETURN_IF_ERROR(ReturnDue(/*at_once=*/false));
  Keep(base, owner);
  ParameterClient::PushResult result;
  result.sequence = last_;
  requests_->Begin();
  std::vector<bool> sent(shards(), false);
  for (uint32_t i = 0; i < shards(); ++i) {
    if (shards_[i]->present) {
      sent[i] = true;
      // What was just encoded is in the caches, the copy is not.
      AddToRequests(i, *shards_[i]->window.Next(), encoder_->ShardBytes(i), target != nullptr,
                    std::move(to_fill_[i]));
      shards_[i]->window.OnSent();
    }
  }
  const absl::Status status =
      Run(requests_->requests(),
          [&](uint32_t shard, const DataHeader& header,
              ChunkCursor* payload) -> absl::StatusOr<Answer> {
            ASSIGN_OR_RETURN(const Answer answer, TakeVerdicts(shard, header, &result));
            if (answer == Answer::kDone && target != nullptr && header.push_reply().has_fetch() &&
                header.push_reply().fetch().shard_epoch() == shards_[shard]->window.epoch()) {
              return TakeFetchReply(shard, header.push_reply().fetch(), payload, target);
            }
            return answer;
          });
  Fill();
  if (!status.ok() && !absl::IsDeadlineExceeded(status) &&
      (!SaysNothingOfTheRequest(status) || context_.cancelled->load())) {
    // Some shards may have applied it: it must not be pushed again, as one that never
    // left would be.
    return absl::IsInvalidArgument(status) ? absl::InternalError(status.message()) : status;
  }
  for (uint32_t i = 0; i < shards(); ++i) {
    if (sent[i] && !status.ok() && !heard_[i].left_out) {
      GoAway(i, absl::ZeroDuration());  // it is kept, and what they have of it is asked for
    } else if (sent[i] && !heard_[i].left_out) {
      shards_[i]->window.OnAcknowledged(shards_[i]->window.epoch(), last_, HeardDurable(i));
      Forget(shards_[i].get());
    }
  }
  Publish();
  result.rpcs = counts_.frames;
  result.retries = counts_.retries;
  result.bytes = counts_.bytes;
  return result;
}

absl::Status PushKeeper::Wait(const std::string& why, const char* prefix, absl::Duration end) {
  if (options_.on_waiting) {
    options_.on_waiting(why);
  }
  if (context_.cancelled->load()) {
    return absl::CancelledError("cancelled");
  }
  if (now() >= end) {
    return absl::DeadlineExceededError(absl::StrCat(prefix, why));
  }
  Thread::SleepFor(kLook);
  return absl::OkStatus();
}

absl::Status PushKeeper::BringBack(absl::Duration patience) {
  const absl::Duration end = now() + patience;
  for (bool first = true;; first = false) {
    ApplyNamed();
    RETURN_IF_ERROR(ReturnDue(first && patience > absl::ZeroDuration()));
    if (!away().has_value() || now() >= end) {
      return absl::OkStatus();
    }
    if (context_.cancelled->load()) {
      return absl::CancelledError("cancelled");
    }
    Thread::SleepFor(kLook);
  }
}

absl::Status PushKeeper::AwaitDurable(absl::Duration patience) {
  const absl::Duration end = now() + patience;
  while (last_ > 0 && !forgoes_) {
    ApplyNamed();
    RETURN_IF_ERROR(ReturnDue(/*at_once=*/false));
    RETURN_IF_ERROR(Refresh());
    Publish();
    const auto missing = std::ranges::find_if(shards_, [this](const auto& shard) {
      return !shard->present || shard->window.acknowledged() < last_ || shard->written < last_;
    });
    if (missing == shards_.end()) {
      break;
    }
    awaits_ = true;
    RETURN_IF_ERROR(Wait(absl::StrCat((*context_.names)[missing - shards_.begin()],
                                      " to write a checkpoint with the last push"),
                         "still waits for ", end));
  }
  awaits_ = false;
  return absl::OkStatus();
}

}  // namespace monsoon
