#include "common/collective/member_core.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status.h"

namespace monsoon {
namespace {

// A peer whose stream breaks so often, for so long, without an answer in between is gone.
constexpr uint32_t kMostBreaks = 4;
constexpr absl::Duration kLongestBreak = absl::Seconds(1);
constexpr absl::Duration kFirstPause = absl::Milliseconds(5);
constexpr uint32_t kMostDoublings = 6;

}  // namespace

MemberCore::MemberCore(Group group, uint32_t window)
    : group_(std::move(group)), window_(window), peers_(group_.names.size()) {
  CHECK(group_.rank < group_.members());
  CHECK(window_ > 0);
}

void MemberCore::Fail(const absl::Status& status) {
  if (failed_.ok()) {
    failed_ = status;
  }
}

absl::Status MemberCore::Start(const Plan* plan, std::span<float> vector, absl::Duration patience,
                               absl::Duration now) {
  CHECK(!run_.active());
  CHECK(plan->rank == group_.rank && plan->members == group_.members());
  FailIfGone(collective_ + 1);
  if (!failed_.ok()) {
    return failed_;
  }
  run_.Start(plan, vector);
  ++collective_;
  patience_ = patience;
  started_ = now;
  look_at_ = now + patience / 2;
  chain_.Clear();
  return absl::OkStatus();
}

void MemberCore::Stop() {
  CHECK(idle());
  if (run_.active() && !run_.finished()) {
    Fail(absl::CancelledError("the call was given up"));
    for (Peer& peer : peers_) {
      peer.unanswered.clear();
      peer.again.clear();
    }
  }
  run_.Stop();
}

bool MemberCore::unanswered() const {
  return std::ranges::any_of(peers_, [](const Peer& peer) { return !peer.unanswered.empty(); });
}

// ---- what comes

absl::StatusOr<MemberCore::Arrival> MemberCore::Arrive(const PeerHeader& header,
                                                       size_t payload_bytes, absl::Duration now) {
  if (header.generation != group_.generation) {
    return absl::FailedPreconditionError(absl::StrCat("a frame of generation ", header.generation,
                                                      "; the group is at ", group_.generation));
  }
  if (header.sender >= group_.members() || header.sender == group_.rank ||
      header.receiver != group_.rank) {
    return absl::InvalidArgumentError(absl::StrCat("a frame from rank ", header.sender, " to rank ",
                                                   header.receiver, ", and here is rank ",
                                                   group_.rank, " of ", group_.members()));
  }
  Peer& peer = peers_[header.sender];
  if (header.type == PeerHeader::Type::kGaveUp) {
    TakeGaveUp(header);
    return Arrival{.wakes = true};
  }
  if (!failed_.ok()) {
    return absl::AbortedError(absl::StrCat("gave up: ", std::string(failed_.message())));
  }
  if (header.consumed > peer.numbered) {
    return absl::InvalidArgumentError(absl::StrCat("rank ", header.sender, " has done with ",
                                                   header.consumed, " of the ", peer.numbered,
                                                   " frames that it got"));
  }
  Arrival arrival;
  if (header.type == PeerHeader::Type::kFloats) {
    ASSIGN_OR_RETURN(arrival, ArriveFloats(header, payload_bytes));
    peer.heard = now;
  }
  if (header.consumed > peer.consumed_there) {
    peer.consumed_there = header.consumed;
    arrival.wakes = true;
  }
  return arrival;
}

void MemberCore::TakeGaveUp(const PeerHeader& header) {
  if (gone_.ok() || header.collective < gone_after_) {
    gone_ =
        absl::AbortedError(absl::StrCat(group_.names[header.sender], " gave up: ", header.text));
    gone_after_ = header.collective;
  }
  if (run_.active()) {
    FailIfGone(collective_);
  }
}

void MemberCore::FailIfGone(uint64_t call) {
  if (failed_.ok() && !gone_.ok() && call > gone_after_) {
    by_peer_ = true;
    Fail(gone_);
  }
}

absl::StatusOr<MemberCore::Arrival> MemberCore::ArriveFloats(const PeerHeader& header,
                                                             size_t payload_bytes) {
  Peer& peer = peers_[header.sender];
  if (header.number <= peer.arrived) {
    return Arrival();  // seen before
  }
  if (header.number != peer.arrived + 1) {
    return absl::UnavailableError(absl::StrCat("frame ", header.number, " came before frame ",
                                               peer.arrived + 1, " of rank ", header.sender));
  }
  if (payload_bytes % sizeof(float) != 0 || payload_bytes == 0 ||
      payload_bytes > header.what.part_floats * sizeof(float)) {
    return absl::InvalidArgumentError(absl::StrCat("a payload of ", payload_bytes, " bytes"));
  }
  Arrival arrival;
  if (run_.active() && header.collective == collective_) {
    RETURN_IF_ERROR(CheckFits(header, payload_bytes / sizeof(float)));
    if (run_.MayReceive(header.sender, header.index)) {
      const StepId id = run_.ReceiveAt(header.sender, header.index);
      const Step& step = run_.step(id);
      run_.Begin(id);
      ++taking_;
      arrival.taking =
          Taking{header.sender, id, step.kind == Step::Kind::kReceiveAdd, run_.floats(step.range)};
    }
  } else if (header.collective <= collective_) {
    return absl::InvalidArgumentError(
        absl::StrCat("a frame of collective ", header.collective, ", which is over"));
  }
  arrival.keep = !arrival.taking.has_value();
  if (arrival.keep) {
    if (peer.kept.size() + peer.keeping >= window_) {
      return absl::ResourceExhaustedError(absl::StrCat(
          "rank ", header.sender, " has sent more than ", window_, " frames that were not taken"));
    }
    ++peer.keeping;
  }
  ++peer.arrived;
  return arrival;
}

absl::Status MemberCore::CheckFits(const PeerHeader& header, size_t floats) const {
  const Plan& plan = *run_.plan();
  if (header.what != plan.collective) {
    return absl::InvalidArgumentError(
        absl::StrCat("collective ", collective_, " is ", Describe(header.what), " of ",
                     group_.names[header.sender], ", and ", Describe(plan.collective), " of ",
                     group_.names[group_.rank], ": all members must make the same calls"));
  }
  const std::vector<StepId>& receives = plan.receives[header.sender];
  if (header.index >= receives.size() || run_.begun(receives[header.index]) ||
      run_.step(receives[header.index]).range.count != floats) {
    return absl::InvalidArgumentError(absl::StrCat("no frame ", header.index, " of ", floats,
                                                   " floats is expected from rank ",
                                                   header.sender));
  }
  return absl::OkStatus();
}

bool MemberCore::Keep(const PeerHeader& header, AlignedFloats floats) {
  Peer& peer = peers_[header.sender];
  --peer.keeping;
  peer.kept.push_back({header, std::move(floats)});
  return run_.active() && header.collective == collective_;
}

bool MemberCore::EndTaking(const Taking& taking) {
  --taking_;
  ++peers_[taking.peer].consumed;
  return run_.End(taking.step) || !failed_.ok();
}

PeerAnswer MemberCore::AnswerTo(const PeerHeader& header) {
  Peer& peer = peers_[header.sender];
  PeerAnswer answer;
  answer.consumed = peer.consumed_told = peer.consumed;
  if (header.type == PeerHeader::Type::kAsk && run_.active() && !run_.finished()) {
    answer.collective = collective_;
    if (const std::optional<StepId> missing = Missing()) {
      answer.waits_for = run_.step(*missing).peer;
    }
  }
  return answer;
}

// ---- the member's own work

std::optional<MemberCore::KeptTaking> MemberCore::NextKept() {
  if (!run_.active() || !failed_.ok()) {
    return std::nullopt;
  }
  for (uint32_t rank = 0; rank < peers_.size(); ++rank) {
    std::deque<Kept>& kept = peers_[rank].kept;
    for (auto it = kept.begin(); it != kept.end(); ++it) {
      if (it->header.collective != collective_) {
        continue;
      }
      if (const absl::Status fits = CheckFits(it->header, it->floats.size()); !fits.ok()) {
        Fail(fits);
        return std::nullopt;
      }
      if (run_.MayReceive(rank, it->header.index)) {
        const StepId id = run_.ReceiveAt(rank, it->header.index);
        const Step& step = run_.step(id);
        run_.Begin(id);
        ++taking_;
        KeptTaking taking{{rank, id, step.kind == Step::Kind::kReceiveAdd, run_.floats(step.range)},
                          std::move(it->floats)};
        kept.erase(it);
        return taking;
      }
    }
  }
  return std::nullopt;
}

std::optional<MemberCore::Sum> MemberCore::NextSum() {
  const std::optional<StepId> id = run_.active() && failed_.ok() ? run_.NextSum() : std::nullopt;
  if (!id.has_value()) {
    return std::nullopt;
  }
  const Step& step = run_.step(*id);
  Sum sum{*id, {}, run_.floats(step.range)};
  for (StepRange operand :
       std::span(run_.plan()->operands).subspan(step.first_operand, step.operands)) {
    operand.count = step.range.count;
    sum.operands.push_back(run_.floats(operand));
  }
  return sum;
}

// ---- what goes

PeerHeader MemberCore::HeaderTo(uint32_t peer, PeerHeader::Type type) {
  PeerHeader header;
  header.type = type;
  header.generation = group_.generation;
  header.sender = group_.rank;
  header.receiver = peer;
  header.consumed = peers_[peer].consumed_told = peers_[peer].consumed;
  return header;
}

std::optional<MemberCore::Outgoing> MemberCore::NextControl(uint32_t rank) {
  Peer& peer = peers_[rank];
  std::optional<PeerHeader> header;
  if (!failed_.ok()) {
    if (!by_peer_ && !std::exchange(peer.told_failure, true)) {
      header = HeaderTo(rank, PeerHeader::Type::kGaveUp);
      header->text = std::string(failed_.message());
      header->collective = run_.active() && !run_.finished() ? collective_ - 1 : collective_;
    }
  } else if (std::exchange(peer.ask, false)) {
    header = HeaderTo(rank, PeerHeader::Type::kAsk);
  } else if (peer.consumed - peer.consumed_told >= std::max(1u, window_ / 2)) {
    header = HeaderTo(rank, PeerHeader::Type::kConsumed);
  }
  if (!header.has_value()) {
    return std::nullopt;
  }
  Outgoing out{++requests_, *std::move(header), {}, nullptr};
  peer.unanswered.push_back({out.request_id, out.header.type, 0, kNoStep});
  return out;
}

MemberCore::Outgoing MemberCore::FloatsOf(uint32_t peer, const Sent& sent) {
  const Step& step = run_.step(sent.step);
  Outgoing out{sent.request_id, HeaderTo(peer, PeerHeader::Type::kFloats), run_.floats(step.range),
               nullptr};
  out.header.collective = collective_;
  out.header.what = run_.plan()->collective;
  out.header.number = sent.number;
  out.header.index = step.index;
  return out;
}

std::optional<MemberCore::Outgoing> MemberCore::Again(uint32_t rank) {
  Peer& peer = peers_[rank];
  while (!peer.again.empty()) {
    Sent sent = peer.again.front();
    peer.again.pop_front();
    if (run_.IsOverwritten(sent.step)) {
      run_.End(sent.step);  // only its answer was lost
      continue;
    }
    sent.request_id = ++requests_;
    Outgoing out = FloatsOf(rank, sent);
    // The peer may have had it all the same, and what it makes of it may come meanwhile.
    const auto copy = std::make_shared<std::vector<float>>(out.floats.begin(), out.floats.end());
    out.floats = *copy;
    out.copy_of = copy;
    peer.unanswered.push_back(sent);
    return out;
  }
  return std::nullopt;
}

std::optional<MemberCore::Outgoing> MemberCore::NextFrame(uint32_t rank, absl::Duration now) {
  Peer& peer = peers_[rank];
  peer.collecting = peer.collecting && !peer.unanswered.empty();
  if (rank == group_.rank || now < peer.retry_at || peer.collecting) {
    return std::nullopt;
  }
  if (run_.active() && failed_.ok() && !peer.again.empty()) {
    if (std::optional<Outgoing> out = Again(rank)) {
      return out;
    }
  }
  if (std::optional<Outgoing> out = NextControl(rank)) {
    return out;
  }
  if (!run_.active() || !failed_.ok() || peer.numbered - peer.consumed_there >= window_) {
    return std::nullopt;
  }
  const std::optional<StepId> id = run_.NextSend(rank);
  if (!id.has_value()) {
    return std::nullopt;
  }
  run_.Begin(*id);
  peer.unanswered.push_back({++requests_, PeerHeader::Type::kFloats, ++peer.numbered, *id});
  return FloatsOf(rank, peer.unanswered.back());
}

void MemberCore::Answered(uint32_t rank, uint64_t request_id, const PeerAnswer& answer,
                          absl::Duration now) {
  Peer& peer = peers_[rank];
  if (peer.unanswered.empty() || peer.unanswered.front().request_id != request_id ||
      answer.consumed > peer.numbered) {
    Fail(absl::InternalError(absl::StrCat(group_.names[rank], " answered what it was not asked")));
    return;
  }
  const Sent sent = peer.unanswered.front();
  peer.unanswered.pop_front();
  peer.breaks = 0;
  peer.consumed_there = std::max(peer.consumed_there, answer.consumed);
  if (sent.type == PeerHeader::Type::kFloats) {
    peer.heard = now;
    run_.End(sent.step);
  } else if (sent.type == PeerHeader::Type::kAsk) {
    NoteWait(rank, answer);
  }
}

void MemberCore::SendAgain(const Sent& sent, Peer* peer) {
  // What was told of frames that were done with may be lost too.
  peer->consumed_told = 0;
  if (sent.type == PeerHeader::Type::kAsk) {
    peer->ask = true;
  } else if (sent.type == PeerHeader::Type::kFloats) {
    peer->again.insert(std::ranges::upper_bound(peer->again, sent.number, {}, &Sent::number), sent);
  }
}

void MemberCore::Refused(uint32_t rank, const absl::Status& status, absl::Duration now) {
  Peer& peer = peers_[rank];
  const Sent sent = peer.unanswered.empty() ? Sent() : peer.unanswered.front();
  if (!peer.unanswered.empty()) {
    peer.unanswered.pop_front();
  }
  // Who has all it needs of a call, and may have left, is not needed for the rest of it.
  const bool needed = run_.active() && run_.Needs(rank);
  if (!absl::IsUnavailable(status) && (needed || sent.type == PeerHeader::Type::kFloats)) {
    Fail(Annotate(status, group_.names[rank]));
    return;
  }
  peer.breaks = 0;
  peer.collecting = true;
  peer.retry_at = now + kFirstPause;
  if (sent.type == PeerHeader::Type::kAsk) {
    NoteWait(rank, PeerAnswer());
  } else if (absl::IsUnavailable(status)) {
    SendAgain(sent, &peer);
  }
}

void MemberCore::Broken(uint32_t rank, const absl::Status& status, absl::Duration now) {
  Peer& peer = peers_[rank];
  if (!run_.active() || !failed_.ok() || !run_.Needs(rank)) {
    peer.unanswered.clear();
    return;
  }
  if (peer.breaks == 0) {
    peer.broken_since = now;
  }
  ++peer.breaks;
  peer.last_break = status;
  if (peer.breaks >= kMostBreaks && now - peer.broken_since >= kLongestBreak) {
    Fail(absl::UnavailableError(absl::StrCat(group_.names[rank], " is gone: ", status.message())));
    return;
  }
  for (const Sent& sent : peer.unanswered) {
    SendAgain(sent, &peer);
  }
  peer.unanswered.clear();
  // Whoever has nothing to send to it learns in this way whether it is there.
  peer.ask = true;
  const bool gave_way = absl::IsAborted(status) && peer.breaks == 1;
  peer.retry_at = now + (gave_way ? absl::ZeroDuration()
                                  : kFirstPause * (1 << std::min(peer.breaks - 1, kMostDoublings)));
}

// ---- time

std::optional<StepId> MemberCore::Missing() const {
  return run_.FirstMissing([this](const Step& step) {
    return std::ranges::any_of(peers_[step.peer].kept, [&](const Kept& kept) {
      return kept.header.collective == collective_ && kept.header.index == step.index;
    });
  });
}

void MemberCore::NoteWait(uint32_t rank, const PeerAnswer& answer) {
  const std::optional<uint32_t> next =
      chain_.Note(rank, answer, group_.rank, group_.members(), collective_);
  if (next.has_value()) {
    peers_[*next].ask = true;
  }
}

absl::Duration MemberCore::Tick(absl::Duration now) {
  absl::Duration wait = absl::InfiniteDuration();
  for (const Peer& peer : peers_) {
    if (peer.retry_at > now) {
      wait = std::min(wait, peer.retry_at - now);
    }
  }
  if (!run_.active() || run_.finished() || !failed_.ok()) {
    return wait;
  }
  if (now < look_at_) {
    return std::min(wait, look_at_ - now);
  }
  const std::optional<StepId> missing = Missing();
  if (!missing.has_value()) {
    look_at_ = now + patience_ / 2;
    return std::min(wait, patience_ / 2);
  }
  const uint32_t rank = run_.step(*missing).peer;
  const absl::Duration since = std::max(started_, peers_[rank].heard);
  const absl::Duration silence = now - since;
  if (silence >= patience_) {
    Fail(SilenceError(*missing, silence));
    return wait;
  }
  if (silence < patience_ / 2) {
    chain_.Clear();
    look_at_ = since + patience_ / 2;
    return std::min(wait, look_at_ - now);
  }
  if (chain_.Begin(rank)) {
    peers_[rank].ask = true;
    wait = absl::ZeroDuration();  // the question goes at once
  }
  look_at_ = since + patience_;
  return std::min(wait, look_at_ - now);
}

absl::Status MemberCore::SilenceError(StepId missing, absl::Duration silence) const {
  const Plan& plan = *run_.plan();
  const Step& step = run_.step(missing);
  const bool sends = step.kind == Step::Kind::kSend;
  const uint32_t blamed = chain_.blamed(step.peer);
  std::string text = absl::StrCat(group_.names[blamed],
                                  sends ? " has taken nothing for " : " has sent nothing for ",
                                  absl::FormatDuration(silence), " in call ", collective_, ", ",
                                  Describe(plan.collective), chain_.Describe(group_.names));
  absl::StrAppend(&text, "; ", group_.names[group_.rank], " waits for ", group_.names[step.peer],
                  sends ? " to take part " : " to send part ", step.index + 1, " of ",
                  (sends ? plan.sends : plan.receives)[step.peer].size());
  const absl::Status& cause = peers_[blamed].last_break;
  if (peers_[blamed].breaks > 0) {
    absl::StrAppend(&text, "; last error: ", std::string(cause.message()));
  }
  return absl::DeadlineExceededError(text);
}

}  // namespace monsoon
