#include "ps_server/shard/spare_room.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/check.h"
#include "common/base/status.h"
#include "common/base/xxh3.h"
#include "common/memory/float_arena.h"
#include "ps_server/shard/stripe.h"

namespace monsoon {
namespace {

std::string WorkerName(SessionId session) {
  return absl::StrCat("worker/", session.worker, "#", session.incarnation);
}

}  // namespace

SpareRoom::SpareRoom(const JobFacts* facts, SliceStripes* stripes)
    : facts_(*facts), stripes_(stripes) {}

uint64_t SpareRoom::Bytes(uint64_t floats, uint64_t stripes, int optimizer_slots) {
  const uint64_t slots = 1 + static_cast<uint64_t>(optimizer_slots);
  // Bits of what is written, with what two vectors are rounded up to.
  const uint64_t marks = stripes * (sizeof(uint64_t) + slots) + 2 * sizeof(uint64_t) + 64;
  return sizeof(SpareRoom) + slots * sizeof(AlignedFloats) + FloatArena::BytesFor(slots, floats) +
         marks;
}

// ---- writing -----------------------------------------------------------------------

absl::Status SpareRoom::Late(uint64_t number) const {
  return absl::FailedPreconditionError(absl::StrCat("job ", facts_.job, ": write ", number,
                                                    " comes late: write ", write_.number,
                                                    " has begun after it"));
}

absl::StatusOr<bool> SpareRoom::Begin(SessionId session, uint64_t number) {
  if (number < write_.number) {
    return Late(number);
  }
  if (number == write_.number && session == write_.session) {
    // It writes all again because another shard's seal did not come through: the next seal's
    // checksum says whether it is the same.
    return !write_.sealed;
  }
  if (number == adopted_) {
    return absl::FailedPreconditionError(absl::StrCat(
        "job ", facts_.job, ": write ", number, " is ", WorkerName(write_.session),
        "'s, and was adopted; a write of ", WorkerName(session), " has another number"));
  }
  write_ = {.number = number, .session = session};
  std::ranges::fill(versions_, 0);
  written_.assign(written_.size(), false);
  return true;
}

absl::Status SpareRoom::MakeRoom() {
  if (!slots_.empty()) {
    return absl::OkStatus();
  }
  const size_t slots = 1 + static_cast<size_t>(stripes_->optimizer_slots());
  const uint64_t floats = facts_.map.shard(facts_.shard).size();
  ASSIGN_OR_RETURN(const std::shared_ptr<FloatArena> arena,
                   FloatArena::Create(FloatArena::BytesFor(slots, floats)));
  slots_.reserve(slots);
  for (size_t slot = 0; slot < slots; ++slot) {
    slots_.emplace_back(arena, floats);
  }
  versions_.assign(stripes_->count(), 0);
  written_.assign(slots * stripes_->count(), false);
  return absl::OkStatus();
}

std::span<float> SpareRoom::PlaceOf(size_t slot, uint32_t stripe) {
  return slots_[slot].span().subspan(stripe * facts_.map.stripe_floats(),
                                     stripes_->at(stripe).size());
}

absl::Status SpareRoom::Stage(SessionId session, const WriteRequest& request,
                              std::span<const float> content) {
  MutexLock lock(&mutex_);
  RETURN_IF_ERROR(MakeRoom());
  ASSIGN_OR_RETURN(const bool begun, Begin(session, request.writer()));
  if (!begun) {
    return absl::OkStatus();
  }
  CHECK_LT(request.slot(), slots_.size());
  for (const FetchRecord& record : request.record()) {
    const std::span<float> place = PlaceOf(request.slot(), record.stripe());
    std::ranges::copy(content.first(place.size()), place.begin());
    content = content.subspan(place.size());
    written_[request.slot() * stripes_->count() + record.stripe()] = true;
    if (request.set_version()) {
      versions_[record.stripe()] = record.version();
    }
  }
  return absl::OkStatus();
}

std::string SpareRoom::Missing() const {
  const auto missing = std::ranges::count(written_, false);
  if (missing == 0) {
    return "";
  }
  const auto first = static_cast<size_t>(std::ranges::find(written_, false) - written_.begin());
  return absl::StrCat("stripe ", first % stripes_->count(), " of slot ", first / stripes_->count(),
                      missing == 1 ? "" : absl::StrCat(" and ", missing - 1, " more"));
}

absl::Status SpareRoom::Seal(SessionId session, uint64_t number, uint64_t checksum) {
  MutexLock lock(&mutex_);
  if (number < write_.number) {
    return Late(number);
  }
  if (number != write_.number || session != write_.session) {
    return absl::FailedPreconditionError(
        absl::StrCat("job ", facts_.job, ": ", WorkerName(session), " seals write ", number,
                     ", of which it has written nothing here (the last one is ", write_.number,
                     " of ", WorkerName(write_.session), "): write all again"));
  }
  if (write_.sealed) {
    return checksum == write_.checksum
               ? absl::OkStatus()
               : absl::FailedPreconditionError(
                     absl::StrFormat("job %s: write %d is sealed with checksum %016x, not %016x",
                                     facts_.job, number, write_.checksum, checksum));
  }
  if (const std::string missing = Missing(); !missing.empty()) {
    return absl::FailedPreconditionError(absl::StrCat("job ", facts_.job, ": write ", number,
                                                      " lacks ", missing, ": write all again"));
  }
  Xxh3 hash;
  for (const AlignedFloats& slot : slots_) {
    hash.Add(std::as_bytes(slot.span()));
  }
  if (hash.Digest() != checksum) {
    return absl::FailedPreconditionError(absl::StrFormat(
        "job %s: write %d has checksum %016x here, its seal says %016x: write all again",
        facts_.job, number, hash.Digest(), checksum));
  }
  write_.sealed = true;
  write_.checksum = checksum;
  return absl::OkStatus();
}

// ---- adopting ----------------------------------------------------------------------

absl::Status SpareRoom::Adopt(uint64_t number) {
  MutexLock lock(&mutex_);
  if (number <= adopted_) {
    return absl::OkStatus();
  }
  if (number != write_.number || !write_.sealed) {
    return absl::FailedPreconditionError(
        absl::StrCat("job ", facts_.job, ": write ", number, " is not here whole: ",
                     write_.number == 0        ? "nothing was written in this life of the slice"
                     : number != write_.number ? absl::StrCat("the last one is ", write_.number)
                                               : "it is not sealed"));
  }
  if (cuts_ > 0) {
    return absl::UnavailableError(absl::StrCat(
        "job ", facts_.job, ": a generation is being cut; write ", number, " is adopted after it"));
  }
  std::vector<std::span<const float>> content(slots_.size());
  for (uint32_t stripe = 0; stripe < stripes_->count(); ++stripe) {
    for (size_t slot = 0; slot < slots_.size(); ++slot) {
      content[slot] = PlaceOf(slot, stripe);
    }
    stripes_->at(stripe).Adopt(content, versions_[stripe]);
  }
  adopted_ = number;
  return absl::OkStatus();
}

SpareRoom::CutScope::CutScope(SpareRoom* room) : room_(room) {
  if (room_ != nullptr) {
    MutexLock lock(&room_->mutex_);
    ++room_->cuts_;
  }
}

SpareRoom::CutScope::~CutScope() {
  if (room_ != nullptr) {
    MutexLock lock(&room_->mutex_);
    --room_->cuts_;
  }
}

}  // namespace monsoon
