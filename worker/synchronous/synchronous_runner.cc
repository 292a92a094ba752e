#include "worker/synchronous/synchronous_runner.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/fail_point.h"
#include "common/base/finite.h"
#include "common/base/logging.h"
#include "common/base/status.h"
#include "proto/downpour.pb.h"
#include "proto/synchronous.pb.h"
#include "worker/downpour/gradient_clip.h"
#include "worker/session/session_status.h"

namespace monsoon {
namespace {

// A cache line.
constexpr size_t kLine = 16;
// Smaller ones cost more calls, and of larger ones less is hidden behind the computation.
constexpr uint64_t kDefaultFuseMib = 4;

Algorithm AlgorithmOf(Synchronous::Reduce reduce) {
  switch (reduce) {
    case Synchronous::NAIVE:
      return Algorithm::kNaive;
    case Synchronous::TREE:
      return Algorithm::kTree;
    case Synchronous::RING:
      return Algorithm::kRing;
    case Synchronous::DIRECT:
      return Algorithm::kDirect;
    case Synchronous::EXCHANGE:
      return Algorithm::kExchange;
    default:
      return Algorithm::kAuto;
  }
}

// A part of the gradient that is summed at once, in floats.
size_t PartOf(const Synchronous& synchronous) {
  const uint64_t mib = synchronous.has_fuse_mib() ? synchronous.fuse_mib() : kDefaultFuseMib;
  return static_cast<size_t>(mib << 20) / sizeof(float);
}

// A number as floats that survive any copy, each of 16 bits.
void Spread(uint64_t number, std::span<float> floats) {
  for (size_t i = 0; i < 4; ++i) {
    floats[i] = static_cast<float>((number >> (16 * i)) & 0xffff);
  }
}

uint64_t Gather(std::span<const float> floats) {
  uint64_t number = 0;
  for (size_t i = 0; i < 4; ++i) {
    number |= static_cast<uint64_t>(floats[i]) << (16 * i);
  }
  return number;
}

}  // namespace

// Sums of whole numbers below 2^24 and of losses.
struct SynchronousRunner::Head {
  enum Place { kUsed, kUseless, kExamples, kCorrect, kLoss };
};

SynchronousRunner::SynchronousRunner(const Parts& parts)
    : parts_(parts),
      seed_(parts.job->seed()),
      sum_(AlignedFloats::NanFilled(kLine + parts.layout->size())),
      exchange_(PartOf(parts.job->synchronous())) {}

SynchronousRunner::~SynchronousRunner() {
  parts_.group->TellReady(nullptr);
  exchange_.GiveUp();
  Close();
}

// ---- groups ------------------------------------------------------------------

uint64_t SynchronousRunner::BatchesOfStep() const {
  uint64_t batches = 0;
  for (const NextWorkReply::GroupMember& member : order_.member()) {
    batches += member.batches();
  }
  return batches;
}

uint64_t SynchronousRunner::BatchesBefore() const {
  uint64_t batches = 0;
  for (uint32_t rank = 0; rank < order_.rank(); ++rank) {
    batches += order_.member(static_cast<int>(rank)).batches();
  }
  return batches;
}

CallOptions SynchronousRunner::Call() const {
  const Synchronous& synchronous = parts_.job->synchronous();
  return {.algorithm = AlgorithmOf(synchronous.reduce()),
          .order = synchronous.sum_order() == Synchronous::BY_RANK ? SumOrder::kByRank
                                                                   : SumOrder::kFixed,
          .patience = absl::Milliseconds(order_.patience_ms())};
}

absl::Status SynchronousRunner::Take(const NextWorkReply::Synchronize& order) {
  if (order.group() != order_.group()) {
    if (order.rank() >= static_cast<uint32_t>(order.member_size()) ||
        order.member(static_cast<int>(order.rank())).worker() != parts_.worker) {
      return absl::InternalError("the coordinator's group has not this worker at its rank");
    }
    Close(/*for_all=*/true);  // all rest when the coordinator names the next group
    order_ = order;
    report_.clear_broken();
    report_.clear_missing();
    report_.clear_waited_ms();
    report_.clear_all_at();
    report_.set_group(order.group());
    RETURN_IF_ERROR(Open());
  } else if (communicator_ != nullptr) {
    order_.set_until_batches(std::max(order_.until_batches(), order.until_batches()));
  }
  wanted_ = std::max(wanted_, order.write());
  if (joined_) {
    Write();
  }
  return absl::OkStatus();
}

absl::Status SynchronousRunner::Open() {
  Group group;
  group.generation = order_.group();
  group.rank = order_.rank();
  std::vector<std::string> addresses;
  for (const NextWorkReply::GroupMember& member : order_.member()) {
    group.names.push_back(absl::StrCat("worker/", member.worker(), " at ", member.address()));
    group.callers.push_back(member.caller());
    addresses.push_back(member.address());
  }
  CommunicatorOptions options;
  ASSIGN_OR_RETURN(options.transport, TransportFromEnvironment());
  options.tls = parts_.peers.tls;
  options.offer = [members = order_.member()](uint32_t peer,
                                              absl::Duration) -> absl::StatusOr<SharedMemoryOffer> {
    const SharedMemoryOffer& offer = members[static_cast<int>(peer)].shared_memory();
    if (offer.socket().empty()) {
      return absl::FailedPreconditionError("the worker does not offer shared memory");
    }
    return offer;
  };
  absl::StatusOr<std::unique_ptr<Communicator>> opened =
      Communicator::Open(parts_.peers.mailbox, std::move(group), std::move(addresses), options);
  if (!opened.ok()) {
    return Break(opened.status());
  }
  joined_ = false;
  MutexLock lock(&mutex_);
  communicator_ = *std::move(opened);
  return absl::OkStatus();
}

void SynchronousRunner::Close(bool for_all) {
  std::unique_ptr<Communicator> closed;
  {
    MutexLock lock(&mutex_);
    closed = std::move(communicator_);
    communicator_ = nullptr;
  }
  if (for_all && closed != nullptr) {
    closed->EndsForAll();
  }
}

void SynchronousRunner::Abort() {
  MutexLock lock(&mutex_);
  aborted_ = true;
  if (communicator_ != nullptr) {
    communicator_->Abort(absl::CancelledError("the session ends"));
  }
}

void SynchronousRunner::Leave() {
  Close();
  order_.set_until_batches(0);
}

absl::Status SynchronousRunner::Break(const absl::Status& why) {
  report_.set_broken(why.message().empty() ? why.ToString() : std::string(why.message()));
  // Whoever has told of it comes first, and whom it is about last.
  size_t place = 0;
  for (const NextWorkReply::GroupMember& member : order_.member()) {
    const size_t found = report_.broken().rfind(absl::StrCat("worker/", member.worker(), " at "));
    if (member.worker() != parts_.worker && found != std::string::npos && found >= place) {
      place = found;
      report_.set_missing(member.worker());
    }
  }
  report_.set_waited_ms(
      static_cast<uint32_t>(absl::ToInt64Milliseconds(parts_.clock->Now() - step_begun_)));
  LOG(WARNING) << "worker/" << parts_.worker << ": group " << order_.group()
               << " is over: " << report_.broken();
  Close();
  bool aborted = false;
  {
    MutexLock lock(&mutex_);
    aborted = aborted_;
  }
  return aborted ? absl::CancelledError("the session ends") : absl::OkStatus();
}

// ---- the beginning -----------------------------------------------------------

absl::Status SynchronousRunner::Join() {
  MONSOON_FAIL_POINT("member.begins");
  MemberState& state = *parts_.state;
  RETURN_IF_ERROR(state.SetBatches(BatchesOfStep()));
  const bool from_shards = !order_.has_source();
  const uint32_t root = from_shards ? 0 : order_.source();
  if (from_shards && order_.rank() == root) {
    const absl::Status fetched = state.Fetch(parts_.client, order_.from().batches());
    if (!fetched.ok()) {
      // Nothing is lost: the others hear that this member has left, and all begin again.
      return absl::IsCancelled(fetched) || IsSessionLost(fetched) ? fetched : Break(fetched);
    }
  }
  if (order_.share() || from_shards) {
    if (const absl::Status shared = ShareState(root); !shared.ok()) {
      return Break(shared);
    }
  }
  MONSOON_FAIL_POINT("member.shared");
  if (const absl::Status same = CompareDigests(); !same.ok()) {
    return Break(same);
  }
  if (order_.member_size() > 1 && parts_.job->synchronous().reduce() == Synchronous::AUTO) {
    CallOptions options = Call();
    if (const absl::Status measured = communicator_->Calibrate(options); !measured.ok()) {
      return Break(measured);
    }
  }
  joined_ = true;
  parts_.reader->Seek(state.at().batches() + BatchesBefore(),
                      order_.member(static_cast<int>(order_.rank())).batches(), BatchesOfStep());
  LOG(INFO) << "Worker " << parts_.worker << ", " << BatchesOfStep() << " replicas in sync: group "
            << order_.group() << " of " << order_.member_size() << " workers goes on from update "
            << state.at().updates();
  Write();
  return absl::OkStatus();
}

absl::Status SynchronousRunner::ShareState(uint32_t root) {
  MemberState& state = *parts_.state;
  const bool has = state.has() && state.at().updates() == order_.from().updates() &&
                   state.at().batches() == order_.from().batches() && order_.has_source();
  // Whoever has it gets the same bits once more, and keeps it should the sender die meanwhile.
  if (order_.rank() != root && !has) {
    state.Lose();
  }
  std::array<float, kLine> head = {};
  Spread(state.at().updates(), std::span(head).subspan(0, 4));
  Spread(state.at().batches(), std::span(head).subspan(4, 4));
  const CallOptions options{.patience = absl::Milliseconds(order_.patience_ms())};
  RETURN_IF_ERROR(communicator_->Broadcast(head, root, options));
  for (const std::span<float> vector : state.vectors()) {
    RETURN_IF_ERROR(communicator_->Broadcast(vector, root, options));
  }
  SynchronousPosition at;
  at.set_updates(Gather(std::span(head).subspan(0, 4)));
  at.set_batches(Gather(std::span(head).subspan(4, 4)));
  state.Take(at);
  return absl::OkStatus();
}

absl::Status SynchronousRunner::CompareDigests() {
  const auto members = static_cast<size_t>(order_.member_size());
  AlignedFloats all(members * kLine);
  Spread(parts_.state->Digest(), all.span().subspan(order_.rank() * kLine, 4));
  RETURN_IF_ERROR(
      communicator_->AllGather(all.span(), {.patience = absl::Milliseconds(order_.patience_ms())}));
  const uint32_t root = order_.has_source() ? order_.source() : 0;
  const uint64_t right = Gather(all.span().subspan(root * kLine, 4));
  for (uint32_t rank = 0; rank < members; ++rank) {
    if (Gather(all.span().subspan(rank * kLine, 4)) == right) {
      continue;
    }
    if (rank == order_.rank()) {
      parts_.state->Lose();  // the next group gives it what the others have
    }
    return absl::DataLossError(absl::StrFormat(
        "worker/%d has another state than worker/%d, as their digests say, and gets that anew",
        order_.member(static_cast<int>(rank)).worker(),
        order_.member(static_cast<int>(root)).worker()));
  }
  return absl::OkStatus();
}

// ---- steps -------------------------------------------------------------------

bool SynchronousRunner::wants_more() const {
  const uint64_t left = BatchesLeft();
  const uint64_t whole = order_.until_batches() - order_.from().batches();
  return joined_ && asked_until_ != order_.until_batches() &&
         (left <= whole / 2 || left <= BatchesOfStep());
}

absl::Status SynchronousRunner::Step() {
  step_begun_ = parts_.clock->Now();
  if (joined_) {
    return TakeStep();
  }
  const absl::Status joined = Join();
  if (communicator_ == nullptr) {
    parts_.stats->SetWaitsFor(absl::StrCat("the next group: ", report_.broken()));
  }
  return joined;
}

absl::Status SynchronousRunner::TakeStep() {
  const uint64_t taken = std::min(BatchesOfStep(), BatchesLeft());
  const bool sums = order_.member_size() > 1;
  if (sums) {
    exchange_.Begin(communicator_.get(), sum_.span(), Call());
  }
  if (const absl::Status computed = Compute(taken); !computed.ok()) {
    exchange_.GiveUp();
    return computed;
  }
  MONSOON_FAIL_POINT("member.before_sum");
  const SynchronousPosition before = parts_.state->at();
  if (sums) {
    if (const absl::Status summed = exchange_.Finish(); !summed.ok()) {
      return Break(summed);
    }
  }
  MONSOON_FAIL_POINT("member.summed");
  *report_.mutable_all_at() = before;
  RETURN_IF_ERROR(Judge(taken));
  MONSOON_FAIL_POINT("member.applied");
  Write();
  return absl::OkStatus();
}

std::span<float> SynchronousRunner::head() { return sum_.span().first(kLine); }
std::span<float> SynchronousRunner::gradient() { return sum_.span().subspan(kLine); }

absl::Status SynchronousRunner::Compute(uint64_t taken) {
  const std::span<float> gradient = this->gradient();
  const std::span<float> head = this->head();
  std::ranges::fill(head, 0.0f);
  ASSIGN_OR_RETURN(const std::vector<Batch*> batches, parts_.reader->Next());
  const uint64_t before = BatchesBefore();
  // The job may end within a step, which then is of fewer batches.
  const uint64_t mine = std::min<uint64_t>(batches.size(), taken > before ? taken - before : 0);
  ReplicaGroup& group = *parts_.group;
  group.SetParameters(parts_.state->parameters());
  // Of several batches the gradient is final when it has been added up.
  group.TellReady(mine == 1 && order_.member_size() > 1
                      ? [this](size_t from) { exchange_.Ready(kLine + from); }
                      : Network::GradientReady());
  bool some = false;
  for (uint64_t done = 0; done < mine;) {
    // A process that has lost a replica computes its batches in more rounds.
    const uint64_t first = done;
    while (done < mine && group.room() > 0) {
      const uint64_t number = parts_.state->at().batches() + before + done;
      group.Add(batches[done++], StepKey{seed_, 0, number, {}});
    }
    AlignedFloats more = some ? AlignedFloats::NanFilled(gradient.size()) : AlignedFloats();
    const std::span<float> to = some ? more.span() : gradient;
    RETURN_IF_ERROR(group.ComputeGradients(to));
    for (size_t i = 0; i < done - first; ++i) {
      const StepResult& result = group.result(i);
      const bool finite = std::isfinite(result.loss_mean);
      head[Head::kUseless] += finite ? 0.0f : 1.0f;
      head[Head::kUsed] += 1.0f;
      head[Head::kExamples] += static_cast<float>(result.examples);
      head[Head::kCorrect] += static_cast<float>(result.correct);
      head[Head::kLoss] +=
          finite ? static_cast<float>(result.loss_mean * static_cast<double>(result.examples)) : 0;
      if (finite) {
        parts_.stats->AddStep(result, parts_.clock->Now() - step_begun_);
      } else {
        parts_.stats->AddRefused();
      }
    }
    group.Sum(to);
    for (size_t i = 0; some && i < gradient.size(); ++i) {
      gradient[i] += more.data()[i];
    }
    some = true;
    steps_ += done - first;
  }
  if (!some) {
    std::ranges::fill(gradient, 0.0f);
  }
  return absl::OkStatus();
}

absl::Status SynchronousRunner::Judge(uint64_t taken) {
  const std::span<float> gradient = this->gradient();
  const std::span<const float> head = this->head();
  const auto used = static_cast<uint64_t>(head[Head::kUsed]);
  last_ = StepResult();
  last_.steps = used;
  last_.examples = static_cast<uint64_t>(head[Head::kExamples]);
  last_.correct = head[Head::kCorrect];
  last_.loss_mean = head[Head::kLoss] / std::max(1.0f, head[Head::kExamples]);
  std::string why;
  if (head[Head::kUseless] > 0) {
    why = "the loss of some batch is not finite";
  } else if (!AllFinite(gradient)) {
    why = absl::StrCat("the sum of the gradients is not finite at ",
                       NameFirstNonFinite(*parts_.layout, gradient));
  }
  if (why.empty()) {
    parts_.state->Apply(gradient, used, taken);
    return absl::OkStatus();
  }
  // All members see the same, and do the same.
  const DivergencePolicy& policy = parts_.job->divergence();
  if (policy.action() != DivergencePolicy::SKIP) {
    return DivergedError(absl::StrCat("worker/", parts_.worker, " update ",
                                      parts_.state->at().updates(), ": ", why));
  }
  LOG(WARNING) << "update " << parts_.state->at().updates() << " is left out: " << why;
  parts_.state->PassOver(taken);
  return absl::OkStatus();
}

// ---- the store ---------------------------------------------------------------

void SynchronousRunner::Write() {
  TakeWritten();
  if (writer_.busy() || wanted_ <= writing_ || !parts_.state->has()) {
    return;
  }
  copy_ = parts_.state->Copy();
  writing_ = wanted_;
  writer_.Start([this, number = wanted_]() -> absl::Status {
    MONSOON_FAIL_POINT("member.copied");
    uint32_t slot = 0;
    for (const std::span<const float> vector : copy_.spans()) {
      RETURN_IF_ERROR(parts_.client->WriteState(slot++, vector, copy_.at.updates(), number));
    }
    MONSOON_FAIL_POINT("member.before_seal");
    const std::vector<std::span<const float>> spans = copy_.spans();
    RETURN_IF_ERROR(parts_.client->SealState(spans, number));
    MONSOON_FAIL_POINT("member.sealed");
    return absl::OkStatus();
  });
}

void SynchronousRunner::TakeWritten() {
  const std::optional<absl::Status> written = writer_.TryTake();
  if (!written) {
    return;
  }
  report_.clear_write_error();
  if (written->ok()) {
    report_.set_written(writing_);
    *report_.mutable_written_at() = copy_.at;
  } else {
    report_.set_write_error(absl::StrCat("worker/", parts_.worker, ": ", written->message()));
    LOG(WARNING) << "the state was not written to the shards: " << std::string(written->message());
  }
  copy_.vectors.clear();
}

// ---- what is told ------------------------------------------------------------

SynchronousReport SynchronousRunner::Report() {
  if (joined_) {
    Write();
  }
  TakeWritten();
  asked_until_ = order_.until_batches();
  SynchronousReport report = report_;
  report_.clear_write_error();
  if (parts_.peers.mailbox != nullptr) {
    report.set_address(parts_.peers.address());
    report.set_caller(parts_.peers.caller);
    *report.mutable_shared_memory() = parts_.peers.offer();
    report.set_newest_group(parts_.peers.mailbox->newest());
  }
  report.set_batches(static_cast<uint32_t>(parts_.group->live()));
  if (parts_.state->has()) {
    *report.mutable_at() = parts_.state->at();
  }
  return report;
}

}  // namespace monsoon
