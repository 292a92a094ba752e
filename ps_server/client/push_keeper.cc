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
      windows_(options, encoder),
      heard_(options, requests, encoder),
      presence_(options->shard_epochs, context.names) {
  context_.give_up = &give_up_;
  context_.silence = kSilence;
  ApplyNamed();
  Publish();
}

KeptPushes PushKeeper::kept() const {
  const uint64_t bytes = windows_.bytes();
  return {bytes,
          options_.keep_bytes,
          windows_.copied_bytes(),
          replayed_,
          awaits_ || bytes > options_.keep_bytes / kAskAtShare,
          awaits_,
          presence_.silent()};
}

std::vector<uint64_t> PushKeeper::ready_epochs() const {
  std::vector<uint64_t> epochs;
  for (uint32_t shard = 0; shard < shards(); ++shard) {
    epochs.push_back(presence_.ready_epoch(shard));
  }
  return epochs;
}

void PushKeeper::Publish() {
  for (uint32_t i = 0; i < shards(); ++i) {
    const ReplayWindow& window = windows_.of(i);
    const bool ready = presence_.there(i) && window.caught_up() && window.Next() == nullptr;
    presence_.SetReady(i, ready ? window.epoch() : 0);
  }
  windows_.Publish();
}

// ---- shards that come and go --------------------------------------------------

void PushKeeper::ApplyNamed() {
  if (forgoes_) {
    windows_.Forgo();
  }
  for (uint32_t i = 0; i < shards(); ++i) {
    ReplayWindow& window = windows_.of(i);
    const uint64_t named = presence_.named(i);
    if (named == window.epoch()) {
      continue;
    }
    const bool first = window.epoch() == 0;
    window.NameEpoch(named);
    if (windows_.last() == 0) {
      // The session was opened there before it was given to us, and has sent nothing.
      CHECK_OK(window.OnMarks(named, 0, 0));
    }
    if (!first) {
      transport_->Reset(i);  // what comes of the old life does not count
      GoAway(i, absl::ZeroDuration());
    }
  }
}

void PushKeeper::GoAway(uint32_t shard, absl::Duration pause) {
  presence_.GoAway(shard, now() + pause);
  // What was sent may be lost: nothing more is sent before its marks were read.
  windows_.of(shard).Reconnect();
}

bool PushKeeper::LeaveOut(uint32_t shard, const absl::Status& why) {
  const bool silent = absl::IsDeadlineExceeded(why);
  const std::string& round = heard_.of(shard).round;
  if (heard_.of(shard).refused_for_good ||
      !(silent || IsSessionLost(why) || !round.empty() ||
        (SaysNothingOfTheRequest(why) && now() - exchange_began_ >= kCut))) {
    return false;
  }
  heard_.LeaveOut(shard);
  presence_.SetSilent(shard, round.empty() && !IsSessionLost(why));
  GoAway(shard, silent ? kSilence : ShardPresence::kTry);
  presence_.SetWhy(shard, round.empty() ? std::string(why.message()) : round);
  if (!round.empty()) {
    presence_.NoteRound(shard, /*open=*/true, now());
  }
  return true;
}

absl::Status PushKeeper::ReturnDue(bool at_once) {
  for (uint32_t i = 0; i < shards(); ++i) {
    if (!presence_.there(i) && (at_once || presence_.IsDue(i, now()))) {
      RETURN_IF_ERROR(Return(i));
    }
  }
  const absl::Status passed = PassWhereRoundsLast();
  Publish();
  return passed;
}

void PushKeeper::LookAround() {
  ApplyNamed();
  // What fails here fails again where it is waited for.
  (void)AskPresent(/*passes=*/false);
  Publish();
}

absl::Status PushKeeper::PassWhereRoundsLast() {
  const std::optional<absl::Duration> since = presence_.round_open_since();
  if (!since.has_value() || now() - std::max(*since, passed_at_) < options_.round_patience) {
    return absl::OkStatus();
  }
  return Pass();
}

absl::Status PushKeeper::Pass() {
  passed_at_ = now();
  return AskPresent(/*passes=*/true);
}

absl::Status PushKeeper::Return(uint32_t index) {
  const absl::Duration began = now();
  std::vector<bool> wanted(shards(), false);
  wanted[index] = true;
  context_.silence = presence_.PatienceOf(index, kSilence);
  const absl::Status asked = AskMarks(wanted);
  const absl::Duration patience = std::exchange(context_.silence, kSilence);
  RETURN_IF_ERROR(asked);
  if (heard_.of(index).left_out) {
    presence_.LookedInVain(index, /*silent=*/now() - began >= kCut, patience, now());
    return absl::OkStatus();
  }
  presence_.Answers(index);
  return Replay(index);
}

absl::Status PushKeeper::Replay(uint32_t index) {
  ReplayWindow& window = windows_.of(index);
  while (presence_.there(index) && window.Next() != nullptr) {
    requests_->Begin();
    uint64_t bytes = 0;
    uint64_t replayed = 0;
    uint64_t sequence = 0;
    while (const ReplayWindow::Push* const push = window.Next()) {
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
      window.OnSent();
    }
    ParameterClient::PushResult late;  // verdicts of earlier pushes: counted with those
    RETURN_IF_ERROR(
        Run(requests_->requests(),
            [&](uint32_t, const DataHeader& header, ChunkCursor*) -> absl::StatusOr<Answer> {
              return heard_.TakeVerdicts(index, header, windows_.last(), &late);
            }));
    if (heard_.of(index).left_out) {
      return absl::OkStatus();
    }
    replayed_ += replayed;
    presence_.NoteRound(index, /*open=*/false, now());
    windows_.OnAcknowledged(index, sequence, heard_.of(index));
  }
  if (presence_.there(index)) {
    presence_.SetWhy(index, "");
  }
  return absl::OkStatus();
}

// ---- exchanges ------------------------------------------------------------------

absl::Status PushKeeper::Run(const RequestMaker::ShardRequests& requests, AnswerHandler handler,
                             bool any_order) {
  context_.any_order = any_order;
  heard_.Begin();
  exchange_began_ = now();
  ExchangeCounts counts;
  const absl::Status status = RunExchange(context_, requests, transport_, handler, &counts);
  counts_.frames += counts.frames;
  counts_.retries += counts.retries;
  counts_.bytes += counts.bytes;
  for (uint32_t shard = 0; shard < shards(); ++shard) {
    windows_.NoteDropped(shard, heard_.of(shard));  // also of one that died in the middle
  }
  return status;
}

absl::Status PushKeeper::AskMarks(const std::vector<bool>& wanted, bool passes) {
  requests_->Begin();
  for (uint32_t shard = 0; shard < shards(); ++shard) {
    if (wanted[shard]) {
      requests_->AddMarks(shard, passes);
    }
  }
  RETURN_IF_ERROR(
      Run(requests_->requests(),
          [this](uint32_t shard, const DataHeader& header, ChunkCursor*) -> absl::StatusOr<Answer> {
            return heard_.TakeMarks(shard, header, windows_.of(shard).epoch());
          }));
  for (uint32_t i = 0; i < shards(); ++i) {
    if (!wanted[i] || heard_.of(i).left_out || heard_.of(i).applied == UINT64_MAX) {
      continue;
    }
    if (const absl::Status taken = windows_.OnMarks(i, heard_.of(i)); !taken.ok()) {
      return NamePeer(context_, i, taken);
    }
  }
  return absl::OkStatus();
}

absl::Status PushKeeper::AskPresent(bool passes) {
  std::vector<bool> wanted(shards(), false);
  bool any = false;
  for (uint32_t shard = 0; shard < shards(); ++shard) {
    wanted[shard] = presence_.there(shard);
    any |= wanted[shard];
  }
  return any ? AskMarks(wanted, passes) : absl::OkStatus();
}

void PushKeeper::AddToRequests(uint32_t index, const ReplayWindow::Push& push,
                               std::span<const std::byte> bytes, bool then_fetch,
                               std::shared_ptr<KeptBytes> keep) {
  // Before its records: a shard takes them as the push's only after its rows.
  if (push.bytes->rows() != nullptr) {
    requests_->AddRows(index, push.sequence, windows_.of(index).epoch(), *push.bytes->rows());
  }
  requests_->AddPush(index, *encoder_, windows_.RequestOf(index, push, bytes, std::move(keep)),
                     then_fetch);
}

// ---- pushes -------------------------------------------------------------------

absl::Status PushKeeper::MakeRoom() {
  const absl::Duration end = now() + context_.deadline;
  if (!windows_.full()) {
    full_since_.reset();
  } else if (!full_since_.has_value()) {
    full_since_ = now();
  }
  while (windows_.full()) {
    awaits_ = true;
    // What is there may have become durable; what is away, and has been named anew, gets its part
    // of the window before anybody can call it durable. In rounds that checkpoint may itself wait
    // for another session, whose differences come again and lack this one's in their rounds.
    const bool passes = options_.rounds && now() - *full_since_ >= options_.round_patience;
    RETURN_IF_ERROR(AskPresent(passes));
    ApplyNamed();
    RETURN_IF_ERROR(ReturnDue(/*at_once=*/false));
    if (windows_.full()) {
      RETURN_IF_ERROR(
          Wait(absl::StrCat("a checkpoint: ", windows_.bytes() >> 20,
                            " MiB of pushes are not on the shards' disks yet, ",
                            options_.keep_bytes >> 20, " are allowed (replay_window_mib)",
                            away().has_value() ? "; away: " : "", away().value_or("")),
               "no room for a push: waits for ", end));
    }
  }
  awaits_ = false;
  full_since_.reset();
  return absl::OkStatus();
}

absl::StatusOr<ParameterClient::PushResult> PushKeeper::Push(
    const FetchMarks& base, const std::shared_ptr<const void>& owner, FetchTarget* target) {
  counts_ = {};
  ApplyNamed();
  RETURN_IF_ERROR(MakeRoom());
  RETURN_IF_ERROR(ReturnDue(/*at_once=*/false));
  // From here on the push has its number and is kept, whoever gets it now: what fails above has
  // kept nothing, what fails below does not take it back.
  windows_.Keep(base, owner);
  ParameterClient::PushResult result;
  result.sequence = windows_.last();
  requests_->Begin();
  std::vector<bool> sent(shards(), false);
  for (uint32_t i = 0; i < shards(); ++i) {
    if (presence_.there(i)) {
      sent[i] = true;
      // What was just encoded is in the caches, the copy is not.
      AddToRequests(i, *windows_.of(i).Next(), encoder_->ShardBytes(i), target != nullptr,
                    windows_.TakeUnfilled(i));
      windows_.of(i).OnSent();
    }
  }
  const absl::Status status = Run(
      requests_->requests(),
      [&](uint32_t shard, const DataHeader& header,
          ChunkCursor* payload) -> absl::StatusOr<Answer> {
        ASSIGN_OR_RETURN(const Answer answer,
                         heard_.TakeVerdicts(shard, header, windows_.last(), &result));
        if (answer == Answer::kDone && target != nullptr && header.push_reply().has_fetch() &&
            header.push_reply().fetch().shard_epoch() == windows_.of(shard).epoch()) {
          return TakeFetchReply(shard, header.push_reply().fetch(), payload, target);
        }
        return answer;
      },
      /*any_order=*/options_.tables.empty());
  // The encoder is used again, and what is kept must be whole by then: also where nothing was sent.
  requests_->KeepAll();
  windows_.Fill();
  if (!status.ok() && !absl::IsDeadlineExceeded(status) &&
      (!SaysNothingOfTheRequest(status) || context_.cancelled->load())) {
    // Some shards may have applied it: it must not be pushed again, as one that never
    // left would be.
    return absl::IsInvalidArgument(status) ? absl::InternalError(status.message()) : status;
  }
  for (uint32_t i = 0; i < shards(); ++i) {
    if (sent[i] && !status.ok() && !heard_.of(i).left_out) {
      GoAway(i, absl::ZeroDuration());  // it is kept, and what they have of it is asked for
    } else if (sent[i] && !heard_.of(i).left_out) {
      presence_.NoteRound(i, /*open=*/false, now());
      windows_.OnAcknowledged(i, windows_.last(), heard_.of(i));
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

absl::StatusOr<std::vector<uint64_t>> PushKeeper::AwaitDurable(absl::Duration patience) {
  const absl::Duration end = now() + patience;
  while (windows_.last() > 0 && !forgoes_) {
    ApplyNamed();
    RETURN_IF_ERROR(ReturnDue(/*at_once=*/false));
    // Again and again: a shard that was started anew does not know it.
    RETURN_IF_ERROR(AskPresent(/*passes=*/options_.rounds));
    Publish();
    uint32_t missing = 0;
    while (missing < shards() && presence_.there(missing) && !windows_.AwaitsGeneration(missing)) {
      ++missing;
    }
    if (missing == shards()) {
      awaits_ = false;
      return windows_.generations();
    }
    awaits_ = true;
    RETURN_IF_ERROR(
        Wait(absl::StrCat((*context_.names)[missing], " to write a checkpoint with the last push"),
             "still waits for ", end));
  }
  awaits_ = false;
  return std::vector<uint64_t>();
}

}  // namespace monsoon
