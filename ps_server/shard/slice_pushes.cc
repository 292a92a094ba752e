#include "ps_server/shard/slice_pushes.h"

#include <optional>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/codec/tensor_codec.h"
#include "ps_server/shard/session_table.h"
#include "ps_server/shard/stripe.h"
#include "ps_server/vector/contribution_sum.h"

namespace monsoon {
namespace {

SessionId IdOf(const SessionKey& key) { return {key.worker(), key.incarnation()}; }

// Of gradients that kernels read where they are.
constexpr size_t kContentAlignment = 64;

constexpr char kDraining[] = "the shard is draining";

// A verdict that changed no version.
PushVerdict MakeVerdict(Verdict kind, std::string message) {
  PushVerdict verdict;
  verdict.set_verdict(kind);
  verdict.set_staleness(-1);
  verdict.set_message(std::move(message));
  return verdict;
}

// The half of `scratch` that is for bytes to be decoded; made when first needed,
// which moves the other half.
std::span<std::byte> EncodedScratch(AlignedFloats* scratch) {
  constexpr size_t kHalf = kMaxFramePayloadBytes / sizeof(float);
  if (scratch->size() < 2 * kHalf) {
    *scratch = AlignedFloats(2 * kHalf);
  }
  return std::as_writable_bytes(scratch->span().subspan(kHalf));
}

}  // namespace

PushReply SlicePushes::Push(const PushRequest& request, ChunkCursor* payload,
                            AlignedFloats* scratch, bool draining) {
  figures_->CountPushedBytes(payload->remaining());
  PushReply reply;
  for (const PushRecord& record : request.record()) {
    Finish(record.stripe(), record.sequence(),
           draining ? MakeVerdict(REFUSED_BUSY, kDraining)
                    : PushRecordOf(request, record, payload, scratch),
           &reply);
  }
  return reply;
}

PushReply SlicePushes::Contribute(const ContributeRequest& request, ChunkCursor* payload,
                                  AlignedFloats* scratch, bool draining) {
  figures_->CountPushedBytes(payload->remaining());
  PushReply reply;
  for (const ContributeRecord& record : request.record()) {
    Finish(record.stripe(), /*sequence=*/0,
           draining ? MakeVerdict(REFUSED_BUSY, kDraining)
                    : ContributeRecordOf(request, record, payload, scratch),
           &reply);
  }
  return reply;
}

void SlicePushes::Finish(uint32_t stripe, uint64_t sequence, PushVerdict verdict,
                         PushReply* reply) {
  verdict.set_stripe(stripe);
  verdict.set_sequence(sequence);
  if (verdict.message().size() > kMaxVerdictMessage) {
    verdict.mutable_message()->resize(kMaxVerdictMessage);
  }
  figures_->CountVerdict(verdict.verdict());
  *reply->add_verdict() = std::move(verdict);
}

SlicePushes::Content SlicePushes::TakeContent(uint32_t stripe, WireFormat format, uint32_t length,
                                              ChunkCursor* payload, AlignedFloats* scratch) const {
  const TensorCodec* const codec = TensorCodec::Find(format);
  if (stripe >= stripes_->count() || codec == nullptr ||
      !codec->CheckLength(length, stripes_->at(stripe).size()).ok()) {
    payload->Skip(length);
    return {};
  }
  const size_t floats = stripes_->at(stripe).size();
  if (format != FLOAT32) {
    const std::span<std::byte> encoded = EncodedScratch(scratch).first(length);
    const std::span<float> content = scratch->span().first(floats);
    payload->Copy(length, encoded.data());
    absl::Status malformed = codec->Decode(encoded, content);
    return {content, /*finite=*/false, std::move(malformed)};
  }
  // A frame belongs to the shard's process alone: nobody changes the bytes
  // between the check and the application.
  if (const std::byte* whole = payload->Peek(length, kContentAlignment)) {
    payload->Skip(length);
    // So aligned, its floats are those that the receiver has looked at.
    return {{reinterpret_cast<const float*>(whole), floats}, payload->finite_payload(), {}};
  }
  const std::span<float> content = scratch->span().first(floats);
  payload->Copy(length, content.data());
  return {content, /*finite=*/false, {}};
}

PushVerdict SlicePushes::PushRecordOf(const PushRequest& request, const PushRecord& record,
                                      ChunkCursor* payload, AlignedFloats* scratch) {
  const Content content =
      TakeContent(record.stripe(), record.format(), record.length(), payload, scratch);
  RecordCheck check = ValidatePushRecord(facts_, request, record, content.malformed, content.values,
                                         content.finite);
  if (check.verdict != APPLIED && check.verdict != REFUSED_INVALID) {
    return MakeVerdict(check.verdict, std::move(check.message));
  }
  Stripe::Push push{IdOf(request.session()),
                    record.sequence(),
                    record.base_shard_epoch(),
                    record.base_version(),
                    content.values,
                    request.weight() == 0 ? 1.0f : request.weight(),
                    request.part() == 0 ? 1.0f : request.part(),
                    absl::Milliseconds(request.patience_ms()),
                    TensorCodec::CarriesStatistics(record.format()),
                    {request.absent().data(), static_cast<size_t>(request.absent_size())},
                    std::nullopt,
                    {},
                    record.dropped()};
  if (check.verdict == REFUSED_INVALID) {
    if (check.message.size() > kMaxVerdictMessage) {
      check.message.resize(kMaxVerdictMessage);
    }
    absl::StatusOr<MemoryBudget::Reservation> memory =
        budget_->Reserve(RefusalBytes(check.message.capacity()), absl::StrCat("job ", facts_.job),
                         "a refusal to remember");
    if (!memory.ok()) {
      return MakeVerdict(REFUSED_BUSY, std::string(memory.status().message()));
    }
    push.refusal_memory = *std::move(memory);
    push.invalid = std::move(check.message);
  }
  PushVerdict verdict = stripes_->at(record.stripe()).Apply(std::move(push));
  if (verdict.verdict() == APPLIED) {
    figures_->CountStaleness(verdict.staleness());
  }
  return verdict;
}

PushVerdict SlicePushes::ContributeRecordOf(const ContributeRequest& request,
                                            const ContributeRecord& record, ChunkCursor* payload,
                                            AlignedFloats* scratch) {
  const Content content = TakeContent(record.stripe(), FLOAT32, record.length(), payload, scratch);
  RecordCheck check =
      ValidateContributeRecord(facts_, request, record, content.values, content.finite);
  if (check.verdict != APPLIED) {
    return MakeVerdict(check.verdict, std::move(check.message));
  }
  const SessionId session = IdOf(request.session());
  if (!stripes_->at(record.stripe()).HasSession(session)) {
    return MakeVerdict(REFUSED_SESSION, NotOpen(session));
  }
  ContributionSum::Answer answer = vectors_->Contribute(
      request.evaluation(), request.contribution(), record.stripe(), content.values);
  return MakeVerdict(answer.verdict, std::move(answer.message));
}

}  // namespace monsoon
