#include "worker/replica/group/member_group.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/clock.h"
#include "common/base/logging.h"
#include "common/base/mutex.h"
#include "common/base/status.h"
#include "worker/replica/gradient_sum.h"
#include "worker/replica/session_status.h"

namespace monsoon {
namespace {

// One wait counts so long at most: a process that was stopped saw no time pass.
constexpr absl::Duration kWaitSlice = absl::Seconds(1);
// Below, handing slices to threads (some 20 us) costs more than it saves.
constexpr size_t kMinSlicedFloats = 64 * 1024;
// Slices begin on a 64-byte line.
constexpr size_t kSliceFloats = 16;

// The same for any network: the model, the job or the data is at fault.
bool AnyNetworkWould(const absl::Status& status) {
  return absl::IsInvalidArgument(status) || absl::IsUnimplemented(status);
}

// What the loss of the last member comes to. Want of memory breaks no device.
absl::Status LossError(const absl::Status& why, const std::string& message) {
  return absl::IsResourceExhausted(why) ? absl::ResourceExhaustedError(message)
                                        : DeviceError(message);
}

}  // namespace

struct MemberGroup::Board {
  explicit Board(size_t calls) : done(calls, false) {}

  void Done(size_t call, absl::Duration duration) {
    {
      MutexLock lock(&mutex);
      done[call] = true;
      ++finished;
      longest = std::max(longest, duration);
    }
    changed.NotifyAll();
  }

  Mutex mutex;
  CondVar changed;
  std::vector<bool> done ABSL_GUARDED_BY(mutex);
  size_t finished ABSL_GUARDED_BY(mutex) = 0;
  absl::Duration longest ABSL_GUARDED_BY(mutex);
};

// ---- making ------------------------------------------------------------------

absl::StatusOr<std::unique_ptr<MemberGroup>> MemberGroup::Create(const Options& options,
                                                                 uint32_t members,
                                                                 const MakeNetwork& make) {
  CHECK_GE(members, 1u);
  std::unique_ptr<MemberGroup> group;
  if (members == 1) {
    ASSIGN_OR_RETURN(std::unique_ptr<Network> network, make(0));
    group = std::make_unique<MemberGroup>(options, network.get());
    group->owned_ = std::move(network);
  } else {
    group.reset(new MemberGroup(options, members));
    RETURN_IF_ERROR(group->MakeNetworks(make));
  }
  return group;
}

MemberGroup::MemberGroup(const Options& options, Network* network)
    : options_(options), alone_(network) {
  slots_.push_back(std::make_shared<Work>());
  TellStats();
}

MemberGroup::MemberGroup(const Options& options, uint32_t members)
    : options_(options), members_(members) {}

MemberGroup::~MemberGroup() {
  for (Member& member : members_) {
    if (member.thread != nullptr) {
      member.thread->Start([seat = std::move(member.seat)] { seat->network.reset(); });
    }
  }
}

absl::Status MemberGroup::MakeNetworks(const MakeNetwork& make) {
  const auto board = std::make_shared<Board>(members_.size());
  std::vector<absl::Status> made(members_.size());
  for (size_t i = 0; i < members_.size(); ++i) {
    Member& member = members_[i];
    member.seat = std::make_shared<Seat>();
    member.thread = std::make_unique<MemberThread>();
    member.name = absl::StrCat("worker/", options_.worker, " replica ", i);
    member.thread->Start([&make, &member, &status = made[i], seat = member.seat, i, board] {
      absl::StatusOr<std::unique_ptr<Network>> network = make(static_cast<uint32_t>(i));
      if (network.ok()) {
        seat->network = *std::move(network);
        member.fingerprint = seat->network->Fingerprint();
        absl::StrAppend(&member.name, " (", member.fingerprint, ")");
      } else {
        status = std::move(network).status();
      }
      board->Done(i, absl::ZeroDuration());
    });
  }
  {
    MutexLock lock(&board->mutex);
    while (board->finished < members_.size()) {
      board->changed.WaitFor(&board->mutex, kWaitSlice);
    }
  }
  for (size_t i = 0; i < members_.size(); ++i) {
    if (AnyNetworkWould(made[i])) {
      return made[i];
    }
    if (!made[i].ok()) {
      Lose(members_[i], made[i]);
    }
  }
  TellStats();
  return live() > 0 ? absl::OkStatus() : Annotate(made[0], members_[0].name);
}

// ---- the group -----------------------------------------------------------------

size_t MemberGroup::live() const {
  return alone_ != nullptr ? 1
                           : static_cast<size_t>(
                                 std::count_if(members_.begin(), members_.end(),
                                               [](const Member& member) { return member.alive; }));
}

std::vector<MemberGroup::Member*> MemberGroup::Living() {
  std::vector<Member*> living;
  for (Member& member : members_) {
    if (member.alive) {
      living.push_back(&member);
    }
  }
  return living;
}

std::vector<std::string> MemberGroup::Fingerprints() const {
  if (alone_ != nullptr) {
    return {alone_->Fingerprint()};
  }
  std::vector<std::string> different;
  for (const Member& member : members_) {
    if (!member.fingerprint.empty() &&
        std::find(different.begin(), different.end(), member.fingerprint) == different.end()) {
      different.push_back(member.fingerprint);
    }
  }
  return different;
}

void MemberGroup::TellStats() const {
  if (options_.stats != nullptr) {
    options_.stats->SetReplicas(static_cast<uint32_t>(live()),
                                static_cast<uint32_t>(members() - live()));
  }
}

void MemberGroup::Lose(Member& member, const absl::Status& why) {
  member.alive = false;
  const std::string message = absl::StrCat(member.name, ": ", why.message());
  last_loss_ = LossError(why, message);
  if (live() > 0) {
    LOG(ERROR) << message << "; the session goes on with " << live() << " of " << members()
               << " replicas";
  }
  TellStats();
}

void MemberGroup::GiveUp(Member& member, std::shared_ptr<Work>* work) {
  // From here on it owns what it computes with; the batch is read by both.
  auto again = std::make_shared<Work>();
  again->own = (*work)->own;
  again->batch = (*work)->batch;
  again->lent = true;
  again->samples = (*work)->samples;
  again->key = (*work)->key;
  again->key.samples = again->samples;
  *work = std::move(again);
  if (std::find(kept_.begin(), kept_.end(), parameters_) == kept_.end()) {
    kept_.push_back(parameters_);
  }
  member.thread->GiveUp();
  member.thread.reset();
  member.seat.reset();
  Lose(member, absl::DeadlineExceededError("did not finish its work in time"));
}

void MemberGroup::SetParameters(SharedBuffer parameters) {
  parameters_ = std::move(parameters);
  ++generation_;
  if (alone_ != nullptr) {
    alone_->SetParameters(parameters_->span());
  }
}

void MemberGroup::Reclaim(SharedBuffer* buffer) {
  if (kept_.empty() || std::find(kept_.begin(), kept_.end(), *buffer) == kept_.end()) {
    return;
  }
  auto copy = std::make_shared<AlignedBuffer>((*buffer)->size());
  std::copy_n((*buffer)->data(), (*buffer)->size(), copy->data());
  const bool in_use = *buffer == parameters_;
  *buffer = std::move(copy);
  if (in_use) {
    SetParameters(*buffer);
  }
}

// ---- rounds --------------------------------------------------------------------

size_t MemberGroup::room() const { return live() - (computed_ ? 0 : size_); }

void MemberGroup::Add(Batch* batch, const StepKey& key) {
  if (std::exchange(computed_, false)) {
    size_ = 0;
  }
  CHECK_GT(room(), 0u);
  if (size_ == slots_.size()) {
    slots_.push_back(std::make_shared<Work>());
  }
  Work& work = *slots_[size_++];
  work.dropped = false;
  work.key = key;
  if (alone_ != nullptr) {
    work.batch = batch;
    return;
  }
  work.samples.assign(key.samples.begin(), key.samples.end());
  work.key.samples = work.samples;
  if (work.own == nullptr || work.lent || work.own->capacity() != batch->capacity()) {
    work.own = std::make_shared<Batch>(batch->capacity(), batch->values);
    work.lent = false;
  }
  std::swap(*work.own, *batch);
  work.batch = work.own.get();
}

absl::Status MemberGroup::ComputeGradients(std::span<float> alone) {
  alone_gradient_ = alone;
  return Compute(Kind::kGradient);
}

absl::Status MemberGroup::Evaluate() { return Compute(Kind::kEvaluation); }

absl::Status MemberGroup::Compute(Kind kind) {
  if (std::exchange(computed_, true)) {
    size_ = 0;
  }
  if (alone_ != nullptr) {
    return size_ == 0 ? absl::OkStatus() : ComputeAlone(kind);
  }
  std::vector<size_t> open(size_);
  for (size_t i = 0; i < size_; ++i) {
    open[i] = i;
  }
  while (!open.empty()) {
    if (live() == 0) {
      return last_loss_;
    }
    RETURN_IF_ERROR(ComputeSome(kind, &open));
  }
  return absl::OkStatus();
}

absl::Status MemberGroup::ComputeAlone(Kind kind) {
  Work& work = *slots_[0];
  if (kind == Kind::kGradient) {
    absl::StatusOr<StepResult> result =
        alone_->LossAndGradient(*work.batch, work.key, alone_gradient_);
    work.status = result.status();
    work.result = result.value_or(StepResult());
  } else {
    absl::StatusOr<EvaluationResult> evaluation = alone_->Evaluate(*work.batch);
    work.status = evaluation.status();
    work.evaluation = evaluation.value_or(EvaluationResult());
  }
  if (work.status.ok() || AnyNetworkWould(work.status)) [[likely]] {
    return work.status;
  }
  return LossError(work.status, absl::StrCat("worker/", options_.worker, " (",
                                             alone_->Fingerprint(), "): ", work.status.message()));
}

absl::Status MemberGroup::ComputeSome(Kind kind, std::vector<size_t>* open) {
  const std::vector<Member*> living = Living();
  const size_t calls = std::min(open->size(), living.size());
  const auto board = std::make_shared<Board>(calls);
  for (size_t call = 0; call < calls; ++call) {
    StartWork(kind, *living[call], slots_[(*open)[call]], call, board);
  }
  Await(*board);
  std::vector<bool> done;
  {
    MutexLock lock(&board->mutex);
    done = board->done;
    if (board->finished > 0) {
      longest_ = std::max(longest_.value_or(board->longest), board->longest);
    }
  }
  absl::Status error;
  std::vector<size_t> again;
  for (size_t call = 0; call < calls; ++call) {
    std::shared_ptr<Work>& work = slots_[(*open)[call]];
    if (!done[call]) {
      GiveUp(*living[call], &work);
      again.push_back((*open)[call]);
    } else if (AnyNetworkWould(work->status)) {
      error = error.ok() ? work->status : error;
    } else if (!work->status.ok()) {
      Lose(*living[call], work->status);
      again.push_back((*open)[call]);
    }
  }
  again.insert(again.end(), open->begin() + static_cast<std::ptrdiff_t>(calls), open->end());
  *open = std::move(again);
  return error;
}

void MemberGroup::StartWork(Kind kind, Member& member, const std::shared_ptr<Work>& work,
                            size_t call, const std::shared_ptr<Board>& board) {
  member.thread->Start([kind, call, work, board, seat = member.seat, parameters = parameters_,
                        generation = generation_] {
    const absl::Duration begin = Clock::Real()->Now();
    Network& network = *seat->network;
    if (std::exchange(seat->generation, generation) != generation) {
      network.SetParameters(parameters->span());
    }
    if (kind == Kind::kGradient) {
      if (work->gradient.size() != parameters->size()) {
        work->gradient = AlignedBuffer(parameters->size());
      }
      absl::StatusOr<StepResult> result =
          network.LossAndGradient(*work->batch, work->key, work->gradient.span());
      work->status = result.status();
      work->result = result.value_or(StepResult());
    } else {
      absl::StatusOr<EvaluationResult> evaluation = network.Evaluate(*work->batch);
      work->status = evaluation.status();
      work->evaluation = evaluation.value_or(EvaluationResult());
    }
    board->Done(call, Clock::Real()->Now() - begin);
  });
}

void MemberGroup::Await(Board& board) const {
  const absl::Duration slice = std::min(kWaitSlice, options_.patience);
  absl::Duration waited;
  MutexLock lock(&board.mutex);
  while (board.finished < board.done.size()) {
    const bool comparable = longest_.has_value() || board.finished > 0;
    const absl::Duration longest = std::max(longest_.value_or(board.longest), board.longest);
    if (waited >
        (comparable ? options_.patience + kLateFactor * longest : options_.first_patience)) {
      return;
    }
    if (!board.changed.WaitFor(&board.mutex, slice)) {
      waited += slice;
    }
  }
}

// ---- sums ----------------------------------------------------------------------

std::span<const float> MemberGroup::gradient(size_t i) const {
  return alone_ != nullptr ? alone_gradient_ : slots_[i]->gradient.span();
}

bool MemberGroup::Sum(std::span<float> to) {
  if (alone_ != nullptr) {
    return size_ > 0 && !slots_[0]->dropped;
  }
  std::vector<const float*> from;
  for (size_t i = 0; i < size_; ++i) {
    if (!slots_[i]->dropped) {
      from.push_back(gradient(i).data());
    }
  }
  if (from.empty()) {
    return false;
  }
  ForSlices(to.size(), [&](size_t begin, size_t end) { SumInOrder(from, begin, end, to.data()); });
  return true;
}

void MemberGroup::ForSlices(size_t size, const std::function<void(size_t, size_t)>& work) {
  if (live() <= 1 || size < kMinSlicedFloats) {
    work(0, size);
    return;
  }
  const std::vector<Member*> living = Living();
  const size_t lines = (size + kSliceFloats - 1) / kSliceFloats;
  const size_t slice = (lines + living.size() - 1) / living.size() * kSliceFloats;
  const auto board = std::make_shared<Board>(living.size());
  for (size_t i = 0; i < living.size(); ++i) {
    const size_t begin = std::min(i * slice, size);
    const size_t end = std::min(begin + slice, size);
    living[i]->thread->Start([&work, begin, end, i, board] {
      if (begin < end) {
        work(begin, end);
      }
      board->Done(i, absl::ZeroDuration());
    });
  }
  MutexLock lock(&board->mutex);
  while (board->finished < living.size()) {
    board->changed.WaitFor(&board->mutex, kWaitSlice);
  }
}

}  // namespace monsoon
