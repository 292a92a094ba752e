#include "common/collective/simulated_group.h"

#include <algorithm>
#include <span>

#include "common/collective/take_floats.h"

namespace monsoon {
namespace {

// Longer than any chain of retries and questions.
constexpr int kLongestInPatiences = 20;

void Do(const MemberCore::Taking& taking, std::span<const float> floats) {
  const ByteChunk bytes = std::as_bytes(floats);
  ChunkCursor cursor({&bytes, 1});
  taking.add ? AddFloats(&cursor, taking.to) : CopyFloats(&cursor, taking.to);
}

}  // namespace

SimulatedGroup::SimulatedGroup(uint32_t members, const SimulationOptions& options)
    : options_(options),
      random_(options.seed, StreamKind::kTest),
      states_(members),
      actions_(members),
      now_(absl::Seconds(1)) {
  Group group;
  for (uint32_t rank = 0; rank < members; ++rank) {
    group.names.push_back(NameOf(rank));
  }
  for (group.rank = 0; group.rank < members; ++group.rank) {
    cores_.push_back(std::make_unique<MemberCore>(group, options.window));
  }
}

std::vector<absl::Status> SimulatedGroup::Call(const Collective& collective,
                                               std::vector<std::vector<float>>* vectors) {
  std::vector<std::vector<std::vector<float>>> all = {std::move(*vectors)};
  std::vector<absl::Status> statuses = Calls({collective}, &all);
  *vectors = std::move(all[0]);
  return statuses;
}

std::vector<absl::Status> SimulatedGroup::Calls(
    const std::vector<Collective>& collectives,
    std::vector<std::vector<std::vector<float>>>* vectors) {
  const auto members = static_cast<uint32_t>(cores_.size());
  for (uint32_t rank = 0; rank < members; ++rank) {
    for (size_t i = 0; i < collectives.size(); ++i) {
      states_[rank].calls.emplace_back(
          std::make_unique<Plan>(MakePlan(collectives[i], rank, members)), &(*vectors)[i][rank]);
    }
  }
  const absl::Duration end = now_ + kLongestInPatiences * options_.patience;
  while (!Done() && !hung_) {
    if (Act()) {
      continue;
    }
    absl::Duration wait = absl::InfiniteDuration();
    for (uint32_t rank = 0; rank < members; ++rank) {
      if (states_[rank].in_call && !states_[rank].stopped) {
        wait = std::min(wait, cores_[rank]->Tick(now_));
      }
    }
    now_ += std::min(wait, options_.patience);
    hung_ = now_ > end;
  }
  std::vector<absl::Status> statuses;
  for (const Member& member : states_) {
    statuses.push_back(member.status);
  }
  return statuses;
}

bool SimulatedGroup::Done() const {
  return std::ranges::all_of(
      states_, [](const Member& member) { return member.stopped || member.calls.empty(); });
}

void SimulatedGroup::NoteAction(uint32_t rank) {
  if (options_.stops == rank && ++actions_[rank] > options_.stops_after) {
    states_[rank].stopped = true;
  } else if (options_.stops != rank) {
    ++actions_[rank];
  }
}

bool SimulatedGroup::Act() {
  struct Choice {
    enum { kOwn, kRequest, kReply } what;
    Pair pair;
  };
  std::vector<Choice> choices;
  for (uint32_t rank = 0; rank < cores_.size(); ++rank) {
    choices.push_back({Choice::kOwn, {rank, rank}});
  }
  for (const auto& [pair, stream] : streams_) {
    if (!stream.requests.empty()) {
      choices.push_back({Choice::kRequest, pair});
    }
    if (!stream.replies.empty()) {
      choices.push_back({Choice::kReply, pair});
    }
  }
  while (!choices.empty()) {
    const uint32_t at = Below(static_cast<uint32_t>(choices.size()));
    const Choice choice = choices[at];
    choices.erase(choices.begin() + at);
    const bool done = choice.what == Choice::kOwn       ? Own(choice.pair.first)
                      : choice.what == Choice::kRequest ? Deliver(choice.pair)
                                                        : DeliverReply(choice.pair);
    if (done) {
      return true;
    }
  }
  return false;
}

bool SimulatedGroup::Own(uint32_t rank) {
  Member& member = states_[rank];
  MemberCore* const core = cores_[rank].get();
  if (member.stopped || member.calls.empty()) {
    return false;
  }
  if (!member.in_call) {
    auto& [plan, vector] = member.calls.front();
    member.status = core->Start(plan.get(), *vector, options_.patience, now_);
    member.in_call = member.status.ok();
    if (!member.status.ok()) {
      member.calls.clear();
    }
    return true;
  }
  if (auto kept = core->NextKept()) {
    Do(kept->taking, kept->floats.span());
    core->EndTaking(kept->taking);
    return true;
  }
  if (auto sum = core->NextSum()) {
    SumFloats(sum->operands, sum->to);
    core->EndSum(sum->step);
    return true;
  }
  if (SendOne(rank)) {
    return true;
  }
  const bool failed = !core->failed().ok();
  if (!(failed ? core->idle() : core->finished())) {
    return false;
  }
  core->Stop();
  member.in_call = false;
  member.status = core->failed();
  member.calls.pop_front();
  if (failed) {
    member.calls.clear();
  }
  return true;
}

bool SimulatedGroup::SendOne(uint32_t rank) {
  const auto members = static_cast<uint32_t>(cores_.size());
  const uint32_t first = Below(members);
  for (uint32_t i = 0; i < members; ++i) {
    const uint32_t peer = (first + i) % members;
    if (auto out = cores_[rank]->NextFrame(peer, now_)) {
      streams_[{rank, peer}].requests.push_back(*out);
      NoteAction(rank);
      return true;
    }
  }
  return false;
}

bool SimulatedGroup::Deliver(Pair pair) {
  Stream* const stream = &streams_[pair];
  const Member& to = states_[pair.second];
  if (to.stopped) {
    if (!options_.killed || states_[pair.first].stopped) {
      return false;
    }
    Break(pair);
    return true;
  }
  if (!stream->arrival.has_value() && OneIn(options_.breaks_in)) {
    Break(pair);
    return true;
  }
  stream->arrival.has_value() ? Finish(pair, stream) : Arrive(pair, stream);
  return true;
}

void SimulatedGroup::Break(Pair pair) {
  Stream* const stream = &streams_[pair];
  // Some have been served, and their answers are lost.
  if (!states_[pair.second].stopped && !stream->requests.empty() && Below(2) == 0) {
    stream->arrival.has_value() ? void() : Arrive(pair, stream);
  }
  if (stream->arrival.has_value()) {
    Finish(pair, stream);
  }
  stream->requests.clear();
  stream->replies.clear();
  cores_[pair.first]->Broken(pair.second, absl::UnavailableError("connection refused"), now_);
}

void SimulatedGroup::Arrive(Pair pair, Stream* stream) {
  const MemberCore::Outgoing& request = stream->requests.front();
  MemberCore* const core = cores_[pair.second].get();
  NoteAction(pair.second);
  absl::StatusOr<MemberCore::Arrival> arrival =
      core->Arrive(request.header, request.floats.size_bytes(), now_);
  if (!arrival.ok()) {
    stream->replies.push_back({request.request_id, arrival.status()});
    stream->requests.pop_front();
    return;
  }
  stream->arrival = *std::move(arrival);
}

void SimulatedGroup::Finish(Pair pair, Stream* stream) {
  const MemberCore::Outgoing request = std::move(stream->requests.front());
  MemberCore* const core = cores_[pair.second].get();
  const MemberCore::Arrival arrival = *std::exchange(stream->arrival, std::nullopt);
  stream->requests.pop_front();
  if (arrival.taking.has_value()) {
    Do(*arrival.taking, request.floats);
    core->EndTaking(*arrival.taking);
  } else if (arrival.keep) {
    AlignedFloats floats = AlignedFloats::Uninitialized(request.floats.size());
    std::ranges::copy(request.floats, floats.data());
    core->Keep(request.header, std::move(floats));
  }
  stream->replies.push_back({request.request_id, core->AnswerTo(request.header)});
  if (request.header.type == PeerHeader::Type::kFloats && OneIn(options_.twice_in)) {
    // Late, with other floats, and not answered to anybody.
    const absl::StatusOr<MemberCore::Arrival> again =
        core->Arrive(request.header, request.floats.size_bytes(), now_);
    hung_ = hung_ || (again.ok() && (again->taking.has_value() || again->keep));
  }
}

bool SimulatedGroup::DeliverReply(Pair pair) {
  if (states_[pair.first].stopped) {
    return false;
  }
  Stream* const stream = &streams_[pair];
  const Reply reply = std::move(stream->replies.front());
  stream->replies.pop_front();
  MemberCore* const core = cores_[pair.first].get();
  if (reply.answer.ok()) {
    core->Answered(pair.second, reply.request_id, *reply.answer, now_);
  } else {
    core->Refused(pair.second, reply.answer.status(), now_);
  }
  return true;
}

}  // namespace monsoon
