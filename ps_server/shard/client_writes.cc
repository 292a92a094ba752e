#include "ps_server/shard/client_writes.h"

#include <cstddef>
#include <span>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/status.h"
#include "common/base/xxh3.h"
#include "ps_server/shard/session_table.h"
#include "ps_server/shard/stripe.h"

namespace monsoon {

ClientWrites::ClientWrites(const CreateShardJobRequest& request, const JobFacts* facts,
                           SliceStripes* stripes, TableSlice* tables, SliceSessions* sessions,
                           SpareRoom* spare)
    : facts_(*facts),
      stripes_(stripes),
      tables_(tables),
      sessions_(sessions),
      spare_(spare),
      // Its parameters come from a program that may go away in the midst of it.
      writing_(request.written_by_client() && request.model().tensor_size() > 0),
      readable_(writing_.readable()) {}

absl::Status ClientWrites::CheckReadable() const {
  if (readable_) {
    return absl::OkStatus();
  }
  MutexLock lock(sessions_->mutex());
  return absl::FailedPreconditionError(
      absl::StrCat("job ", facts_.job, ": its parameters cannot be read before writer ",
                   writing_.writer(), " or a later one has sealed them"));
}

absl::Status ClientWrites::CheckWritable() const {
  return !sessions_->had_session()
             ? absl::OkStatus()
             : absl::FailedPreconditionError(absl::StrCat(
                   "job ", facts_.job, " has had a session; parameters are written before"));
}

absl::StatusOr<bool> ClientWrites::BeginWrite(uint64_t writer) {
  RETURN_IF_ERROR(CheckWritable());
  const absl::StatusOr<bool> begun = writing_.Begin(writer);
  if (!begun.ok()) {
    return Annotate(begun.status(), absl::StrCat("job ", facts_.job));
  }
  readable_ = writing_.readable();
  return begun;
}

absl::StatusOr<WriteReply> ClientWrites::WriteRows(const RowWriteRequest& request,
                                                   ChunkCursor* payload, AlignedFloats* scratch) {
  if (request.layout_hash() != facts_.layout_hash || tables_ == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("job ", facts_.job, ": the job has another layout here"));
  }
  MutexLock lock(sessions_->mutex());
  ASSIGN_OR_RETURN(const bool begun, BeginWrite(request.writer()));
  if (begun) {
    RETURN_IF_ERROR(tables_->Write(request, payload, scratch));
  }
  return WriteReply();
}

absl::StatusOr<WriteReply> ClientWrites::Write(const WriteRequest& request, ChunkCursor* payload,
                                               AlignedFloats* scratch) {
  RETURN_IF_ERROR(ValidateWrite(facts_, request));
  if (request.has_seal()) {
    RETURN_IF_ERROR(request.has_session() ? ToSpare(request, {})
                                          : Seal(request.writer(), request.seal().checksum()));
    return WriteReply();
  }
  const std::span<float> all = scratch->span().first(payload->remaining() / sizeof(float));
  payload->Copy(payload->remaining(), all.data());
  std::span<const float> rest = all;
  for (const FetchRecord& record : request.record()) {
    RETURN_IF_ERROR(
        ValidateWriteRecord(facts_, record, rest.first(record.length() / sizeof(float))));
    rest = rest.subspan(record.length() / sizeof(float));
  }
  if (request.slot() > static_cast<uint32_t>(stripes_->optimizer_slots())) {
    return absl::InvalidArgumentError(
        absl::StrCat("job ", facts_.job, ": slot ", request.slot(), ", but its optimizer has ",
                     stripes_->optimizer_slots(), " float(s) of state for each parameter"));
  }
  WriteReply reply;
  reply.set_stripes(static_cast<uint32_t>(request.record_size()));
  if (request.has_session()) {
    RETURN_IF_ERROR(ToSpare(request, all));
    return reply;
  }
  MutexLock lock(sessions_->mutex());
  ASSIGN_OR_RETURN(const bool begun, BeginWrite(request.writer()));
  if (!begun) {
    return reply;
  }
  rest = all;
  for (const FetchRecord& record : request.record()) {
    Stripe& stripe = stripes_->at(record.stripe());
    const std::span<const float> content = rest.first(record.length() / sizeof(float));
    stripe.Write(content, request.slot());
    if (request.set_version()) {
      stripe.RaiseVersion(record.version());
    }
    rest = rest.subspan(record.length() / sizeof(float));
  }
  return reply;
}

absl::Status ClientWrites::ToSpare(const WriteRequest& request, std::span<const float> content) {
  const SessionId session{request.session().worker(), request.session().incarnation()};
  MutexLock lock(sessions_->mutex());
  if (!sessions_->IsOpen(session)) {
    return absl::FailedPreconditionError(absl::StrCat("job ", facts_.job, ": ", NotOpen(session)));
  }
  return request.has_seal() ? spare_->Seal(session, request.writer(), request.seal().checksum())
                            : spare_->Stage(session, request, content);
}

absl::Status ClientWrites::Seal(uint64_t writer, uint64_t checksum) {
  MutexLock lock(sessions_->mutex());
  const absl::StatusOr<bool> may = writing_.MaySeal(writer, checksum);
  if (!may.ok()) {
    return Annotate(may.status(), absl::StrCat("job ", facts_.job));
  }
  if (!*may) {
    return absl::OkStatus();  // The same once more, maybe after the first session.
  }
  RETURN_IF_ERROR(CheckWritable());
  Xxh3 hash;
  AlignedFloats copy(facts_.map.stripe_floats());
  for (const auto& stripe : stripes_->all()) {
    const std::span<float> floats = copy.span().first(stripe->size());
    stripe->Copy(/*session=*/std::nullopt, floats);
    hash.Add(std::as_bytes(floats));
  }
  if (hash.Digest() != checksum) {
    return absl::FailedPreconditionError(absl::StrFormat(
        "job %s: the slice has checksum %016x, the seal of writer %d says %016x: some of what it "
        "wrote is not here; write all parameters again",
        facts_.job, hash.Digest(), writer, checksum));
  }
  writing_.Seal(checksum);
  readable_ = writing_.readable();
  return absl::OkStatus();
}

void ClientWrites::NoteRestored() {
  MutexLock lock(sessions_->mutex());
  writing_.Restore();
  readable_ = writing_.readable();
}

}  // namespace monsoon
