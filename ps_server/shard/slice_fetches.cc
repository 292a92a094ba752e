#include "ps_server/shard/slice_fetches.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status.h"
#include "common/codec/tensor_codec.h"
#include "common/transport/frame/frame_codec.h"
#include "ps_server/shard/stripe.h"

namespace monsoon {
namespace {

// Turns the stripes at the front of `payload` into `format`, in place.
void EncodeStripes(WireFormat format, SliceFetches::Copied* copied, AlignedFloats* payload) {
  const TensorCodec* const codec = TensorCodec::Find(format);
  // Each encoding is shorter than its floats, so they can move up.
  std::vector<std::byte> encoded;
  const std::span<std::byte> out = std::as_writable_bytes(payload->span());
  uint64_t from = 0, to = 0;
  for (FetchRecord& record : copied->records) {
    const size_t floats = record.length() / sizeof(float);
    encoded.resize(codec->EncodedBytes(floats));
    codec->Encode(payload->span().subspan(from / sizeof(float), floats), encoded);
    std::memcpy(out.data() + to, encoded.data(), encoded.size());
    from += record.length();
    to += encoded.size();
    record.set_length(static_cast<uint32_t>(encoded.size()));
  }
  copied->bytes = to;
}

}  // namespace

absl::Status SliceFetches::Validate(const FetchRequest& request) const {
  RETURN_IF_ERROR(ValidateFetch(facts_, request));
  if (request.changes()) {
    RETURN_IF_ERROR(ValidateChanges(request));
  }
  if (request.slot() > 0) {
    RETURN_IF_ERROR(ValidateState(request));
  }
  return writes_.CheckReadable();
}

absl::Status SliceFetches::ValidateState(const FetchRequest& request) const {
  std::string why;
  if (request.slot() > static_cast<uint32_t>(stripes_->optimizer_slots())) {
    why = absl::StrCat("its optimizer has ", stripes_->optimizer_slots(),
                       " float(s) of state for each parameter");
  } else if (!request.vector().empty() || request.changes() || request.after_round()) {
    why = "the optimizer's state is no vector, and has neither changes nor rounds";
  } else if (request.format() != FLOAT32) {
    why = "the optimizer's state is fetched as it is in memory, FLOAT32";
  }
  return why.empty()
             ? absl::OkStatus()
             : absl::InvalidArgumentError(absl::StrCat(
                   "job ", facts_.job, ": slot ", request.slot(), " cannot be fetched: ", why));
}

absl::Status SliceFetches::ValidateChanges(const FetchRequest& request) const {
  std::string why;
  if (request_.fetch_changes() == FLOAT32) {
    why = "the job keeps no public copy (fetch_changes)";
  } else if (request.read_only() || !request.vector().empty()) {
    why = "they are of a session's parameters";
  } else if (const int known = request.known_version_size();
             known != 0 && static_cast<uint32_t>(known) != request.stripe_count()) {
    why = absl::StrCat(known, " known versions of ", request.stripe_count(), " stripes");
  }
  return why.empty() ? absl::OkStatus()
                     : absl::InvalidArgumentError(
                           absl::StrCat("job ", facts_.job, ": changes cannot be fetched: ", why));
}

absl::Status SliceFetches::CheckRounds(SessionId session, uint32_t first, uint32_t count) {
  if (!request_.has_rounds()) {
    return absl::OkStatus();  // no look at each stripe: a combined push asks this every step
  }
  constexpr size_t kNamed = 4;
  for (uint32_t i = first; i < first + count; ++i) {
    const std::optional<std::vector<SessionId>> missing = stripes_->at(i).AwaitedBy(session);
    if (!missing.has_value()) {
      continue;
    }
    std::string who;
    for (size_t j = 0; j < std::min(kNamed, missing->size()); ++j) {
      absl::StrAppend(&who, j == 0 ? "" : ", ", "worker/", (*missing)[j].worker);
    }
    if (missing->size() > kNamed) {
      absl::StrAppend(&who, " and ", missing->size() - kNamed, " more");
    }
    return absl::UnavailableError(absl::StrCat("job ", facts_.job, ": round ",
                                               stripes_->at(i).version() + 1, " waits for ",
                                               who.empty() ? "its grace" : who));
  }
  return absl::OkStatus();
}

uint64_t SliceFetches::FramePayloadBytes(uint32_t first, uint32_t end) const {
  const uint64_t stripe_bytes = facts_.map.stripe_floats() * sizeof(float);
  const uint64_t fit = std::min<uint64_t>(kMaxFrameRecords, kMaxFramePayloadBytes / stripe_bytes);
  return std::min<uint64_t>(end - first, fit) * stripe_bytes;
}

absl::StatusOr<SliceFetches::Copied> SliceFetches::CopyStripes(
    std::optional<SessionId> session, uint32_t first, uint32_t end, const SliceVector* vector,
    WireFormat format, AlignedFloats* payload, uint32_t slot) {
  RETURN_IF_ERROR(writes_.CheckReadable());
  const uint64_t limit = FramePayloadBytes(first, end);
  CHECK_GE(payload->size() * sizeof(float), limit);
  Copied copied;
  for (uint32_t i = first; i < end; ++i) {
    const uint64_t bytes = stripes_->at(i).size() * sizeof(float);
    if (copied.bytes + bytes > limit) {
      break;
    }
    const std::span<float> out =
        payload->span().subspan(copied.bytes / sizeof(float), stripes_->at(i).size());
    std::optional<FetchRecord> record = vector == nullptr ? stripes_->at(i).Copy(session, out, slot)
                                                          : CopyVector(session, i, *vector, out);
    if (!record.has_value()) {
      return absl::FailedPreconditionError(
          absl::StrCat("job ", facts_.job, ": ", NotOpen(*session)));
    }
    record->set_stripe(i);
    copied.records.push_back(*std::move(record));
    copied.bytes += bytes;
  }
  if (format != FLOAT32) {
    EncodeStripes(format, &copied, payload);
  }
  figures_->CountFetched(copied.records.size(), copied.bytes);
  return copied;
}

absl::StatusOr<SliceFetches::Copied> SliceFetches::CopyChanges(const FetchRequest& request,
                                                               uint32_t first, uint32_t end,
                                                               AlignedFloats* payload) {
  RETURN_IF_ERROR(writes_.CheckReadable());
  const SessionId session{request.session().worker(), request.session().incarnation()};
  // Of another life of the shard a version says nothing.
  const bool known =
      request.known_epoch() == facts_.shard_epoch && request.known_version_size() > 0;
  const std::span<std::byte> out = std::as_writable_bytes(payload->span());
  Copied copied;
  uint64_t whole = 0;  // what fits a frame is reckoned in whole stripes
  for (uint32_t i = first; i < end; ++i) {
    const uint64_t bytes = stripes_->at(i).size() * sizeof(float);
    if (whole + bytes > out.size()) {
      break;
    }
    whole += bytes;
    std::optional<FetchRecord> record = stripes_->at(i).CopyChanges(
        session,
        known ? std::make_optional(
                    request.known_version(static_cast<int>(i - request.first_stripe())))
              : std::nullopt,
        out.subspan(copied.bytes, bytes));
    if (!record.has_value()) {
      return absl::FailedPreconditionError(
          absl::StrCat("job ", facts_.job, ": ", NotOpen(session)));
    }
    record->set_stripe(i);
    copied.bytes += record->length();
    copied.records.push_back(*std::move(record));
  }
  figures_->CountFetched(copied.records.size(), copied.bytes);
  return copied;
}

std::optional<FetchRecord> SliceFetches::CopyVector(std::optional<SessionId> session,
                                                    uint32_t stripe, const SliceVector& vector,
                                                    std::span<float> out) const {
  if (session.has_value() && !stripes_->at(stripe).HasSession(*session)) {
    return std::nullopt;
  }
  std::memcpy(out.data(), vector.data() + stripe * facts_.map.stripe_floats(), out.size_bytes());
  FetchRecord record;
  record.set_length(static_cast<uint32_t>(out.size_bytes()));
  return record;
}

absl::StatusOr<SliceFetches::Shared> SliceFetches::Share(std::optional<SessionId> session) const {
  Shared shared{-1, {}, stripes_->slice()->shape(), sessions_->file()};
  if (shared.file == nullptr) {
    return absl::FailedPreconditionError("it has no memory file that can be mapped");
  }
  shared.fd = shared.file->fd();
  if (session.has_value()) {
    if (request_.has_rounds()) {
      return absl::FailedPreconditionError("what it has pushed may be in a round that is open");
    }
    ASSIGN_OR_RETURN(shared.slot, sessions_->SlotOf(*session));
    return shared;
  }
  MutexLock lock(sessions_->mutex());
  if (request_.written_by_client() && !sessions_->had_session()) {
    return absl::FailedPreconditionError("its parameters may still be written");
  }
  return shared;
}

}  // namespace monsoon
