#include "common/collective/communicator.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/clock.h"
#include "common/base/fail_point.h"
#include "common/base/status.h"
#include "common/collective/take_floats.h"
#include "common/security/identity.h"
#include "common/transport/frame/frame_codec.h"

namespace monsoon {
namespace {

// Every wait ends; this one is for an event that was lost.
constexpr absl::Duration kLongestWait = absl::Seconds(1);
constexpr absl::Duration kCancellation = absl::Milliseconds(10);
// After a failure, or for one that leaves: for the others to be told.
constexpr absl::Duration kFarewell = absl::Milliseconds(200);
// To reach a member's control socket, or its port.
constexpr absl::Duration kConnect = absl::Seconds(5);
// Parts between which Calibrate chooses.
constexpr uint32_t kPartFloats[] = {64 << 10, kMaxFramePayloadBytes / sizeof(float)};
// A training step has a few lengths.
constexpr size_t kMostPlans = 8;

absl::Status StatusOf(const DataError& error) {
  if (error.verdict() == REFUSED_BUSY) {
    return absl::UnavailableError(error.message());
  }
  const auto code = static_cast<absl::StatusCode>(error.code());
  // Only what asks for patience is sent again.
  return {code == absl::StatusCode::kUnavailable || code == absl::StatusCode::kOk
              ? absl::StatusCode::kInternal
              : code,
          error.message()};
}

}  // namespace

absl::StatusOr<std::unique_ptr<Communicator>> Communicator::Open(PeerMailbox* mailbox, Group group,
                                                                 std::vector<std::string> addresses,
                                                                 CommunicatorOptions options) {
  if (group.rank >= group.members() || addresses.size() != group.members()) {
    return absl::InvalidArgumentError(absl::StrCat("rank ", group.rank, " of ", group.members(),
                                                   " members with ", addresses.size(),
                                                   " addresses"));
  }
  if (options.part_floats > kMaxFramePayloadBytes / sizeof(float)) {
    return absl::InvalidArgumentError(
        absl::StrCat("parts of ", options.part_floats, " floats do not fit a frame"));
  }
  const uint64_t generation = group.generation;
  auto communicator = std::unique_ptr<Communicator>(
      new Communicator(mailbox, std::move(group), std::move(addresses), std::move(options)));
  if (const absl::Status opened = mailbox->Open(generation, communicator->seat_); !opened.ok()) {
    communicator->EndsForAll();
    return opened;
  }
  return communicator;
}

Communicator::Communicator(PeerMailbox* mailbox, Group group, std::vector<std::string> addresses,
                           CommunicatorOptions options)
    : mailbox_(mailbox),
      generation_(group.generation),
      rank_(group.rank),
      members_(group.members()),
      options_(std::move(options)),
      report_(absl::StrCat("rank ", rank_), group.names),
      transport_(ChoosingTransport::Create(options_.transport, std::move(addresses), options_.tls,
                                           /*connections=*/1, kConnect, options_.offer, &report_,
                                           Role::kWorker)),
      seat_(std::make_shared<Seat>(std::move(group), transport_.get())),
      costs_(members_),
      part_floats_(options_.part_floats == 0 ? kPartFloats[0] : options_.part_floats) {}

Communicator::~Communicator() {
  mailbox_->Close(generation_);
  Abort(absl::CancelledError("the member has left"));
  if (!told_) {
    Leave();  // who waits for a frame and sends none would only hear of it when it asks
  }
  MutexLock lock(&seat_->wake_mutex);
  seat_->transport = nullptr;
}

void Communicator::Abort(const absl::Status& status) {
  {
    MutexLock lock(&seat_->mutex);
    seat_->core.Fail(status);
  }
  seat_->Wake();
}

absl::Status Communicator::AllReduce(std::span<float> values, const CallOptions& options) {
  return Call(Operation::kAllReduce, values, /*root=*/0, options);
}

absl::Status Communicator::Broadcast(std::span<float> values, uint32_t root,
                                     const CallOptions& options) {
  if (root >= members_) {
    return absl::InvalidArgumentError(absl::StrCat("root ", root, " of ", members_, " members"));
  }
  return Call(Operation::kBroadcast, values, root, options);
}

absl::Status Communicator::AllGather(std::span<float> values, const CallOptions& options) {
  return Call(Operation::kAllGather, values, /*root=*/0, options);
}

absl::Status Communicator::ReduceScatter(std::span<float> values, const CallOptions& options) {
  return Call(Operation::kReduceScatter, values, /*root=*/0, options);
}

absl::Status Communicator::Call(Operation operation, std::span<float> values, uint32_t root,
                                const CallOptions& options) {
  Collective collective;
  collective.operation = operation;
  collective.algorithm = AlgorithmFor(operation, options.order, options.algorithm);
  collective.order = options.order;
  collective.root = root;
  collective.count = values.size();
  collective.part_floats = part_floats_;
  if (collective.algorithm == Algorithm::kAuto) {
    collective.algorithm = costs_.Choose(options.order, values.size_bytes());
  }
  const Plan* const plan = FindPlan(collective);
  {
    MutexLock lock(&seat_->mutex);
    RETURN_IF_ERROR(seat_->core.Start(plan, values, options.patience, Clock::Real()->Now()));
  }
  lease_ = std::make_shared<const int>();
  const absl::Status status = Drive();
  if (!status.ok()) {
    Leave();
  }
  MutexLock lock(&seat_->mutex);
  seat_->core.Stop();
  return status;
}

const Plan* Communicator::FindPlan(const Collective& collective) {
  const auto found = std::ranges::find_if(
      plans_, [&](const auto& plan) { return plan->collective == collective; });
  if (found != plans_.end()) {
    std::rotate(found, found + 1, plans_.end());
    return plans_.back().get();
  }
  if (plans_.size() == kMostPlans) {
    plans_.erase(plans_.begin());
  }
  plans_.push_back(std::make_unique<Plan>(MakePlan(collective, rank_, members_)));
  return plans_.back().get();
}

absl::Status Communicator::Drive() {
  while (true) {
    Work();
    const Turn turn = SendFrames();
    if (turn.finished) {
      if (turn.sent) {
        // What was sent last tells peers that frames were done with: it is to go now.
        Handle(transport_->Wait(absl::ZeroDuration()));
      }
      return absl::OkStatus();
    }
    if (!turn.failed.ok()) {
      return turn.failed;
    }
    Handle(transport_->Wait(std::min(turn.wait, kLongestWait)));
  }
}

void Communicator::Work() {
  while (true) {
    std::optional<MemberCore::KeptTaking> kept;
    std::optional<MemberCore::Sum> sum;
    {
      MutexLock lock(&seat_->mutex);
      kept = seat_->core.NextKept();
      sum = kept.has_value() ? std::nullopt : seat_->core.NextSum();
    }
    if (kept.has_value()) {
      const ByteChunk bytes = std::as_bytes(kept->floats.span());
      ChunkCursor cursor({&bytes, 1});
      kept->taking.add ? AddFloats(&cursor, kept->taking.to) : CopyFloats(&cursor, kept->taking.to);
      MutexLock lock(&seat_->mutex);
      seat_->core.EndTaking(kept->taking);
    } else if (sum.has_value()) {
      SumFloats(sum->operands, sum->to);
      MutexLock lock(&seat_->mutex);
      seat_->core.EndSum(sum->step);
    } else {
      return;
    }
  }
}

Communicator::Turn Communicator::SendFrames() {
  std::vector<std::pair<uint32_t, MemberCore::Outgoing>> frames;
  Turn turn;
  {
    MutexLock lock(&seat_->mutex);
    MemberCore& core = seat_->core;
    const absl::Duration now = Clock::Real()->Now();
    // Before the frames are asked for: it may be time to ask somebody.
    turn.wait = core.Tick(now);
    for (uint32_t i = 1; i < members_; ++i) {
      const uint32_t peer = (rank_ + i) % members_;
      while (std::optional<MemberCore::Outgoing> out = core.NextFrame(peer, now)) {
        frames.emplace_back(peer, *std::move(out));
      }
    }
    turn.finished = core.finished();
    turn.failed = core.failed();
  }
  turn.sent = !frames.empty();
  for (const auto& [peer, out] : frames) {
    Send(peer, out);
  }
  return turn;
}

void Communicator::Send(uint32_t peer, const MemberCore::Outgoing& out) {
  DataHeader header;
  header.set_request_id(out.request_id);
  header.mutable_peer()->set_kind(kCollectiveKind);
  header.mutable_peer()->set_body(EncodePeerHeader(out.header));
  Frame frame;
  frame.head = std::make_shared<const std::string>(EncodeFrameHead(header));
  frame.payload = std::as_bytes(out.floats);
  if (!out.floats.empty()) {
    // It stays where it is, and whoever sends it says when it no longer does.
    frame.keep.owner = out.copy_of != nullptr ? out.copy_of : lease_;
    frame.keep.at = const_cast<std::byte*>(frame.payload.data());
    frame.keep.copied = &in_place_;
  }
  MONSOON_FAIL_POINT("collective.before_send");
  transport_->Send(peer, std::move(frame));
  MONSOON_FAIL_POINT("collective.sent");
}

void Communicator::Handle(const FrameTransport::Event& event) {
  const absl::Duration now = Clock::Real()->Now();
  switch (event.kind) {
    case FrameTransport::Event::Kind::kTimeout:
      return;
    case FrameTransport::Event::Kind::kBroken: {
      MutexLock lock(&seat_->mutex);
      seat_->core.Broken(event.peer, event.status, now);
      return;
    }
    case FrameTransport::Event::Kind::kReceived:
      break;
  }
  ChunkCursor cursor(event.frame);
  const absl::StatusOr<DataHeader> header = DecodeFrameHead(&cursor);
  const bool refused = header.ok() && header->has_error();
  const absl::StatusOr<PeerAnswer> answer = !header.ok() ? header.status()
                                            : refused    ? StatusOf(header->error())
                                                         : DecodePeerAnswer(header->peer().body());
  MutexLock lock(&seat_->mutex);
  if (answer.ok()) {
    seat_->core.Answered(event.peer, header->request_id(), *answer, now);
  } else if (refused) {
    seat_->core.Refused(event.peer, answer.status(), now);
  } else {
    seat_->core.Fail(Annotate(answer.status(), seat_->core.group().names[event.peer]));
  }
}

void Communicator::Leave() {
  told_ = true;
  const absl::Duration end = Clock::Real()->Now() + kFarewell;
  while (true) {
    const Turn turn = SendFrames();
    const absl::Duration left = end - Clock::Real()->Now();
    bool unanswered = turn.sent;
    if (!unanswered) {
      MutexLock lock(&seat_->mutex);
      unanswered = seat_->core.unanswered();
    }
    if (!unanswered || left <= absl::ZeroDuration()) {
      break;
    }
    Handle(transport_->Wait(left));
  }
  // Frames that nobody has taken still name the vector.
  for (uint32_t peer = 0; peer < members_; ++peer) {
    if (peer != rank_) {
      transport_->Reset(peer);
    }
  }
  // Operations that were cancelled come back at once.
  while (lease_.use_count() > 1) {
    Handle(transport_->Wait(kCancellation));
  }
  MutexLock lock(&seat_->mutex);
  // A copy of one frame at most.
  while (!seat_->idle.WaitFor(&seat_->mutex, kLongestWait, [this] {
    seat_->mutex.AssertHeld();
    return seat_->core.idle();
  })) {
  }
}

absl::StatusOr<double> Communicator::Time(Algorithm algorithm, std::span<float> values, int calls,
                                          const CallOptions& options) {
  CallOptions timed = options;
  timed.algorithm = algorithm;
  std::vector<double> seconds;
  for (int i = 0; i < calls; ++i) {
    const absl::Duration start = Clock::Real()->Now();
    RETURN_IF_ERROR(AllReduce(values, timed));
    seconds.push_back(absl::ToDoubleSeconds(Clock::Real()->Now() - start));
  }
  std::ranges::nth_element(seconds, seconds.begin() + calls / 2);
  return seconds[calls / 2];
}

absl::Status Communicator::ChooseParts(std::span<float> values, const CallOptions& options) {
  constexpr int kCalls = 7;
  std::vector<double> seconds;
  for (const uint32_t part_floats : kPartFloats) {
    part_floats_ = part_floats;
    ASSIGN_OR_RETURN(seconds.emplace_back(), Time(Algorithm::kDirect, values, kCalls, options));
  }
  part_floats_ = kPartFloats[0];
  auto chosen = static_cast<float>(std::ranges::min_element(seconds) - seconds.begin());
  RETURN_IF_ERROR(Broadcast({&chosen, 1}, /*root=*/0, options));
  part_floats_ = kPartFloats[chosen == 0.0f ? 0 : 1];
  return absl::OkStatus();
}

absl::Status Communicator::Calibrate(const CallOptions& options) {
  struct Size {
    size_t floats;
    int calls;
  };
  // Few calls where one takes long; the smallest is a frame, the largest has many.
  constexpr Size kSizes[] = {{256, 15}, {16 << 10, 9}, {1 << 20, 3}};
  CostTable measured(members_);
  std::vector<float> values(kSizes[std::size(kSizes) - 1].floats, 0.0f);
  if (options_.part_floats == 0) {
    RETURN_IF_ERROR(ChooseParts(values, options));
  }
  for (const Algorithm algorithm : CostTable::kAlgorithms) {
    std::vector<CostSample> samples;
    for (const Size& size : kSizes) {
      ASSIGN_OR_RETURN(const double seconds,
                       Time(algorithm, std::span(values).first(size.floats), size.calls, options));
      samples.push_back({static_cast<double>(size.floats * sizeof(float)), seconds});
    }
    measured.Set(algorithm, FitCost(samples));
  }
  std::vector<float> table = measured.ToFloats();
  RETURN_IF_ERROR(Broadcast(table, /*root=*/0, options));
  costs_.FromFloats(table);
  return absl::OkStatus();
}

}  // namespace monsoon
