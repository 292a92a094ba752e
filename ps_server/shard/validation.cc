#include "ps_server/shard/validation.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/finite.h"
#include "common/base/status.h"
#include "common/codec/tensor_codec.h"
#include "common/transport/frame/frame_codec.h"

namespace monsoon {
namespace {

template <typename Records>
absl::Status ValidateLengths(const Records& records, uint64_t payload_bytes) {
  if (records.size() > kMaxFrameRecords) {
    return absl::InvalidArgumentError(
        absl::StrCat("a frame of ", records.size(), " records; the limit is ", kMaxFrameRecords));
  }
  uint64_t sum = 0;
  for (const auto& record : records) {
    sum += record.length();
  }
  if (sum != payload_bytes) {
    return absl::InvalidArgumentError(absl::StrCat("the records' lengths sum up to ", sum,
                                                   " bytes, but the payload has ", payload_bytes));
  }
  return absl::OkStatus();
}

std::string HashError(const JobFacts& facts, uint64_t hash) {
  return absl::StrFormat("the sender's model has layout %016x, the job's %016x", hash,
                         facts.layout_hash);
}

// Where a value lies in the flat vector, so that the sender can name a tensor.
std::string NonFiniteText(const JobFacts& facts, uint32_t stripe, std::span<const float> values,
                          uint64_t index) {
  return absl::StrCat("stripe ", stripe, ": the value at flat index ",
                      facts.map.stripe(facts.shard, stripe).begin + index, " is ", values[index],
                      ", not finite");
}

uint64_t StripeBytes(const JobFacts& facts, uint32_t stripe) {
  return facts.map.stripe(facts.shard, stripe).size() * sizeof(float);
}

std::string LengthText(const JobFacts& facts, uint32_t stripe, uint64_t length) {
  return absl::StrCat("stripe ", stripe, " has ", StripeBytes(facts, stripe),
                      " bytes, the record has ", length);
}

RecordCheck ValidatePlace(const JobFacts& facts, uint64_t layout_hash, uint32_t stripe) {
  if (layout_hash != facts.layout_hash) {
    return {REFUSED_REQUEST, HashError(facts, layout_hash)};
  }
  if (stripe >= facts.map.stripes(facts.shard)) {
    return {REFUSED_REQUEST,
            absl::StrCat("stripe ", stripe, " of ", facts.map.stripes(facts.shard))};
  }
  return {};
}

// Epoch, length and values of a record whose stripe exists.
template <typename Record>
RecordCheck ValidateContent(const JobFacts& facts, const Record& record, const TensorCodec& codec,
                            const absl::Status& malformed, std::span<const float> gradient,
                            bool finite) {
  if (record.shard_epoch() != facts.shard_epoch) {
    return {REFUSED_EPOCH, absl::StrCat("the shard's epoch is ", facts.shard_epoch, ", not ",
                                        record.shard_epoch(), ": it was started anew")};
  }
  const size_t floats = facts.map.stripe(facts.shard, record.stripe()).size();
  if (const absl::Status length = codec.CheckLength(record.length(), floats); !length.ok()) {
    return {REFUSED_INVALID, absl::StrCat("stripe ", record.stripe(), " has ", floats,
                                          " values, the record: ", length.message())};
  }
  if (!malformed.ok()) {
    return {REFUSED_INVALID, absl::StrCat("stripe ", record.stripe(), ": ", malformed.message())};
  }
  if (finite) {
    return {};
  }
  if (const std::optional<uint64_t> index = FirstNonFinite(gradient)) {
    return {REFUSED_INVALID, NonFiniteText(facts, record.stripe(), gradient, *index)};
  }
  return {};
}

// Who may move the parameters: of a job whose shards only store, nobody by a gradient.
RecordCheck ValidateApplies(const JobFacts& facts) {
  return facts.store_only
             ? RecordCheck{REFUSED_REQUEST,
                           "the job's shards only store: its workers take the steps, and write "
                           "what comes of them"}
             : RecordCheck();
}

// Of tensors that rise.
RecordCheck ValidateAbsent(const JobFacts& facts, const PushRequest& request) {
  if (request.absent().empty()) {
    return {};
  }
  if (facts.rounds) {
    return {REFUSED_REQUEST,
            "a round averages differences, which have a value for each parameter; "
            "this push says that tensors have none"};
  }
  const uint32_t last = *request.absent().rbegin();
  return last < facts.tensors
             ? RecordCheck()
             : RecordCheck{REFUSED_REQUEST, absl::StrCat("tensor ", last, " of ", facts.tensors)};
}

absl::Status ValidateLayout(const JobFacts& facts, uint64_t layout_hash) {
  return layout_hash == facts.layout_hash
             ? absl::OkStatus()
             : absl::InvalidArgumentError(
                   absl::StrCat("job ", facts.job, ": ", HashError(facts, layout_hash)));
}

absl::Status ValidateStripes(const JobFacts& facts, uint32_t first, uint32_t count) {
  const uint64_t end = uint64_t{first} + count;
  if (count == 0 || end > facts.map.stripes(facts.shard)) {
    return absl::InvalidArgumentError(absl::StrCat("job ", facts.job, ": stripes ", first, " .. ",
                                                   end, " of ", facts.map.stripes(facts.shard)));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ValidatePushFrame(const PushRequest& request, uint64_t payload_bytes) {
  if (!(request.weight() >= 0 && std::isfinite(request.weight()))) {
    return absl::InvalidArgumentError(
        absl::StrCat("a push of weight ", request.weight(), "; finite ones above 0 are"));
  }
  if (!(request.part() >= 0 && request.part() <= 1)) {
    return absl::InvalidArgumentError(absl::StrCat("a push that is a part ", request.part(),
                                                   " of a difference; those in (0, 1] are"));
  }
  if (std::ranges::adjacent_find(request.absent(), std::greater_equal<>()) !=
      request.absent().end()) {
    return absl::InvalidArgumentError("a push whose absent tensors do not rise");
  }
  return ValidateLengths(request.record(), payload_bytes);
}

absl::Status ValidateContributeFrame(const ContributeRequest& request, uint64_t payload_bytes) {
  return ValidateLengths(request.record(), payload_bytes);
}

absl::Status ValidateWriteFrame(const WriteRequest& request, uint64_t payload_bytes) {
  return ValidateLengths(request.record(), payload_bytes);
}

RecordCheck ValidatePushRecord(const JobFacts& facts, const PushRequest& request,
                               const PushRecord& record, const absl::Status& malformed,
                               std::span<const float> gradient, bool finite) {
  if (RecordCheck check = ValidatePlace(facts, request.layout_hash(), record.stripe());
      check.verdict != APPLIED) {
    return check;
  }
  if (RecordCheck check = ValidateApplies(facts); check.verdict != APPLIED) {
    return check;
  }
  if (RecordCheck check = ValidateAbsent(facts, request); check.verdict != APPLIED) {
    return check;
  }
  const TensorCodec* const codec = TensorCodec::Find(record.format());
  if (codec == nullptr) {
    return {REFUSED_REQUEST, absl::StrCat("format ", record.format(), " is not known")};
  }
  if (record.sequence() == 0) {
    return {REFUSED_REQUEST, "sequences start at 1"};
  }
  return ValidateContent(facts, record, *codec, malformed, gradient, finite);
}

RecordCheck ValidateContributeRecord(const JobFacts& facts, const ContributeRequest& request,
                                     const ContributeRecord& record,
                                     std::span<const float> gradient, bool finite) {
  if (RecordCheck check = ValidatePlace(facts, request.layout_hash(), record.stripe());
      check.verdict != APPLIED) {
    return check;
  }
  if (RecordCheck check = ValidateApplies(facts); check.verdict != APPLIED) {
    return check;
  }
  if (request.evaluation() == 0) {
    return {REFUSED_REQUEST, "evaluations start at 1"};
  }
  return ValidateContent(facts, record, *TensorCodec::Find(FLOAT32), absl::OkStatus(), gradient,
                         finite);
}

absl::Status ValidateMarks(const JobFacts& facts, const MarksRequest& request) {
  RETURN_IF_ERROR(ValidateLayout(facts, request.layout_hash()));
  if (request.stripe_count() > kMaxMarksStripes) {
    return absl::InvalidArgumentError(
        absl::StrCat("job ", facts.job, ": marks of ", request.stripe_count(),
                     " stripes were asked for, at most ", kMaxMarksStripes, " are told at once"));
  }
  return ValidateStripes(facts, request.first_stripe(), request.stripe_count());
}

absl::Status ValidateFetch(const JobFacts& facts, const FetchRequest& request) {
  RETURN_IF_ERROR(ValidateLayout(facts, request.layout_hash()));
  if (!TensorCodec::CarriesParameters(request.format())) {
    return absl::InvalidArgumentError(
        absl::StrCat("parameters cannot be fetched in format ", request.format()));
  }
  return ValidateStripes(facts, request.first_stripe(), request.stripe_count());
}

absl::Status ValidateWrite(const JobFacts& facts, const WriteRequest& request) {
  RETURN_IF_ERROR(ValidateLayout(facts, request.layout_hash()));
  if (request.has_seal() && request.record_size() > 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("job ", facts.job, ": a seal with ", request.record_size(), " records"));
  }
  if (request.has_session() && (!facts.store_only || request.writer() == 0)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "job ", facts.job, ": a session's write ",
        facts.store_only ? "has a number, from 1" : "is of a job whose shards only store"));
  }
  for (const FetchRecord& record : request.record()) {
    if (record.stripe() >= facts.map.stripes(facts.shard)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "job ", facts.job, ": stripe ", record.stripe(), " of ", facts.map.stripes(facts.shard)));
    }
    if (record.length() != StripeBytes(facts, record.stripe())) {
      return absl::InvalidArgumentError(absl::StrCat(
          "job ", facts.job, ": ", LengthText(facts, record.stripe(), record.length())));
    }
  }
  return absl::OkStatus();
}

absl::Status ValidateWriteRecord(const JobFacts& facts, const FetchRecord& record,
                                 std::span<const float> parameters) {
  if (const std::optional<uint64_t> index = FirstNonFinite(parameters)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "job ", facts.job, ": ", NonFiniteText(facts, record.stripe(), parameters, *index)));
  }
  return absl::OkStatus();
}

}  // namespace monsoon
