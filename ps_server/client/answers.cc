#include "ps_server/client/answers.h"

#include <algorithm>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/clock.h"
#include "common/base/fail_point.h"
#include "common/base/status.h"

namespace monsoon {
namespace {

constexpr char kSessionLostUrl[] = "monsoon/session_lost";
constexpr char kEpochUrl[] = "monsoon/epoch";
constexpr char kRoundUrl[] = "monsoon/round";

absl::Status Refusal(Verdict verdict, const std::string& text) {
  switch (verdict) {
    case REFUSED_EPOCH: {
      absl::Status status = SessionLostError(text);
      status.SetPayload(kEpochUrl, absl::Cord("1"));
      return status;
    }
    case REFUSED_SESSION:
      return SessionLostError(text);
    case REFUSED_REQUEST:
      return absl::InvalidArgumentError(text);
    default:
      return absl::InternalError(text);
  }
}

absl::Status Refusal(const PushVerdict& verdict) {
  const std::string push =
      verdict.sequence() == 0 ? "" : absl::StrCat(", push ", verdict.sequence());
  return Refusal(verdict.verdict(),
                 absl::StrCat("stripe ", verdict.stripe(), push, ": ", verdict.message()));
}

}  // namespace

bool IsSessionLost(const absl::Status& status) {
  return status.GetPayload(kSessionLostUrl).has_value();
}

bool IsEpochRefused(const absl::Status& status) { return status.GetPayload(kEpochUrl).has_value(); }

bool IsRoundOpen(const absl::Status& status) { return status.GetPayload(kRoundUrl).has_value(); }

absl::Status RoundOpenError(absl::string_view message) {
  absl::Status status = absl::UnavailableError(message);
  status.SetPayload(kRoundUrl, absl::Cord("1"));
  return status;
}

absl::Status SessionLostError(absl::string_view message) {
  absl::Status status = absl::FailedPreconditionError(message);
  status.SetPayload(kSessionLostUrl, absl::Cord("1"));
  return status;
}

absl::Status ToStatus(const DataError& error, bool has_session) {
  // A shard that was started anew does not even know the job; REFUSED_REQUEST
  // says that only the vector is missing.
  if (error.verdict() == REFUSED_SESSION ||
      (has_session && error.verdict() != REFUSED_REQUEST &&
       error.code() == static_cast<int>(absl::StatusCode::kNotFound))) {
    return SessionLostError(error.message());
  }
  return absl::Status(static_cast<absl::StatusCode>(error.code()), error.message());
}

absl::StatusOr<Answer> TakePushReply(const PushReply& reply, uint64_t sequence,
                                     ParameterClient::PushResult* result) {
  // Nothing is counted before the whole frame is known to be done.
  for (const PushVerdict& verdict : reply.verdict()) {
    if (verdict.sequence() != sequence) {
      return absl::InternalError(absl::StrCat("a verdict for push ", verdict.sequence(),
                                              " came where push ", sequence, " was asked"));
    }
    switch (verdict.verdict()) {
      case APPLIED:
      case DUPLICATE:
      case REFUSED_INVALID:
      case DROPPED:
        break;
      case REFUSED_BUSY:
        return Answer::kBusy;
      default:
        return Refusal(verdict);
    }
  }
  for (const PushVerdict& verdict : reply.verdict()) {
    if (verdict.verdict() == DUPLICATE) {
      ++result->duplicates;
    } else if (verdict.verdict() == DROPPED) {
      ++result->dropped;
    } else if (verdict.verdict() == REFUSED_INVALID) {
      ++result->refused_invalid;
      if (result->first_refusal.empty()) {
        result->first_refusal = verdict.message();
      }
    } else {
      result->staleness = std::max(result->staleness, verdict.staleness());
    }
  }
  return Answer::kDone;
}

absl::StatusOr<Answer> TakeRowPushReply(const RowPushReply& reply) {
  switch (reply.verdict()) {
    case APPLIED:
    case DUPLICATE:
      return Answer::kDone;
    case REFUSED_BUSY:
      return Answer::kBusy;
    default:
      return Refusal(reply.verdict(), absl::StrCat("rows: ", reply.message()));
  }
}

absl::StatusOr<Answer> TakePushAnswer(uint32_t shard, const DataHeader& header,
                                      const FragmentMap& fragments, PushEncoder* encoder,
                                      ParameterClient::PushResult* result) {
  if (header.has_error()) {
    return ToStatus(header.error(), /*has_session=*/true);
  }
  if (header.has_row_push_reply()) {
    return TakeRowPushReply(header.row_push_reply());
  }
  if (!header.has_push_reply()) {
    return absl::InternalError("the answer to a push is of another kind");
  }
  const PushReply& reply = header.push_reply();
  ASSIGN_OR_RETURN(const Answer answer,
                   TakePushReply(reply, fragments.SequenceOf(result->sequence), result));
  if (answer == Answer::kDone) {
    for (const PushVerdict& verdict : reply.verdict()) {
      if (verdict.verdict() == REFUSED_INVALID && fragments.Has(shard, verdict.stripe())) {
        encoder->Refused(shard, verdict.stripe());
      }
    }
  }
  return answer;
}

absl::StatusOr<Answer> TakeContributeAnswer(const DataHeader& header,
                                            ParameterClient::ContributeResult* result) {
  if (header.has_error()) {
    return ToStatus(header.error(), /*has_session=*/true);
  }
  if (!header.has_contribute_reply()) {
    return absl::InternalError("the answer to a contribution is of another kind");
  }
  const PushReply& reply = header.contribute_reply();
  // Nothing is counted before the whole frame is known to be done.
  for (const PushVerdict& verdict : reply.verdict()) {
    switch (verdict.verdict()) {
      case APPLIED:
      case DUPLICATE:
      case REFUSED_CLOSED:
        break;
      case REFUSED_BUSY:
        return Answer::kBusy;
      default:
        return Refusal(verdict);
    }
  }
  for (const PushVerdict& verdict : reply.verdict()) {
    result->duplicates += verdict.verdict() == DUPLICATE ? 1 : 0;
    result->closed |= verdict.verdict() == REFUSED_CLOSED;
  }
  return Answer::kDone;
}

absl::StatusOr<Answer> TakePassAnswer(const DataHeader& header) {
  return header.has_error() ? ToStatus(header.error(), /*has_session=*/true)
                            : absl::StatusOr<Answer>(Answer::kDone);
}

absl::StatusOr<Answer> TakeWriteAnswer(const DataHeader& header, bool has_session) {
  if (!has_session) {
    MONSOON_FAIL_POINT("initial.half_written");
  }
  if (header.has_error()) {
    return ToStatus(header.error(), has_session);
  }
  if (!header.has_write_reply()) {
    return absl::InternalError("the answer to a write is of another kind");
  }
  return Answer::kDone;
}

bool AreOfEpochs(const FetchMarks& marks, std::span<const uint64_t> epochs,
                 const FragmentMap& fragments, std::optional<uint32_t> fragment) {
  for (uint32_t shard = 0; shard < epochs.size(); ++shard) {
    for (uint32_t stripe = 0; stripe < marks.shard[shard].size(); ++stripe) {
      const uint32_t of = fragments.Of(shard, stripe);
      if (fragment.value_or(of) == of && marks.shard[shard][stripe].shard_epoch != epochs[shard]) {
        return false;
      }
    }
  }
  return true;
}

void CountInPushes(const FragmentMap& fragments, std::optional<uint32_t> fragment,
                   FetchMarks* marks) {
  for (uint32_t shard = 0; !fragments.whole() && shard < marks->shard.size(); ++shard) {
    for (uint32_t stripe = 0; stripe < marks->shard[shard].size(); ++stripe) {
      const uint32_t of = fragments.Of(shard, stripe);
      if (fragment.value_or(of) == of) {
        uint64_t& sequence = marks->shard[shard][stripe].applied_sequence;
        sequence = fragments.PushesBefore(of, sequence);
      }
    }
  }
}

uint64_t FetchWidth(const FetchMarks& marks) {
  uint64_t least = UINT64_MAX, most = 0;
  for (const auto& shard : marks.shard) {
    for (const StripeMark& mark : shard) {
      if (mark.shard_epoch != 0) {
        least = std::min(least, mark.version);
        most = std::max(most, mark.version);
      }
    }
  }
  return most - std::min(least, most);
}

FetchTarget FetchTarget::Of(const ParameterClientOptions& options, WireFormat format,
                            std::span<float> parameters, FetchMarks* marks) {
  const ShardMap& map = options.map;
  CHECK_EQ(parameters.size(), options.halves ? map.size() / 2 : map.size());
  marks->shard.resize(map.shards());
  for (uint32_t shard = 0; shard < map.shards(); ++shard) {
    marks->shard[shard].resize(map.stripes(shard));
  }
  FetchTarget target;
  target.map = &map;
  target.codec = TensorCodec::Find(format);
  target.parameters = parameters;
  target.marks = marks;
  target.halves = options.halves;
  return target;
}

namespace {

// The next `bytes` of the payload, which stand for that stripe.
absl::Status TakeStripe(const Slice& slice, size_t bytes, ChunkCursor* payload,
                        FetchTarget* target) {
  const size_t each = target->halves ? sizeof(uint16_t) : sizeof(float);
  const std::span<std::byte> place =
      std::as_writable_bytes(target->parameters).subspan(slice.begin * each, slice.size() * each);
  if (bytes == place.size()) {  // in the form that it has there: straight to its place
    payload->Copy(bytes, place.data());
    return absl::OkStatus();
  }
  target->encoded.resize(bytes);
  payload->Copy(bytes, target->encoded.data());
  if (!target->halves) {
    return target->codec->Decode(target->encoded,
                                 target->parameters.subspan(slice.begin, slice.size()));
  }
  target->decoded.resize(slice.size());
  RETURN_IF_ERROR(target->codec->Decode(target->encoded, target->decoded));
  TensorCodec::Find(BFLOAT16)->Encode(target->decoded, place);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Answer> TakeFetchReply(uint32_t shard, const FetchReply& reply, ChunkCursor* payload,
                                      FetchTarget* target) {
  const ShardMap& map = *target->map;
  for (const FetchRecord& record : reply.record()) {
    if (record.stripe() >= map.stripes(shard)) {
      return absl::InternalError(
          absl::StrCat("an answer with stripe ", record.stripe(), " of ", map.stripes(shard)));
    }
    const Slice slice = map.stripe(shard, record.stripe());
    StripeMark& mark = target->marks->shard[shard][record.stripe()];
    const StripeMark told{reply.shard_epoch(), record.version(), record.applied_sequence()};
    if (target->view != nullptr) {
      target->bytes += record.length();
      ASSIGN_OR_RETURN(const bool taken,
                       target->view->Take(shard, record, reply.shard_epoch(), payload,
                                          target->parameters.subspan(slice.begin, slice.size())));
      mark = taken ? told : mark;
      continue;
    }
    const size_t expected = target->codec->EncodedBytes(slice.size());
    if (record.length() != expected || record.length() > payload->remaining()) {
      return absl::InternalError(absl::StrCat("stripe ", record.stripe(), " came with ",
                                              record.length(), " bytes instead of ", expected));
    }
    RETURN_IF_ERROR(TakeStripe(slice, expected, payload, target));
    target->bytes += expected;
    ++target->records;
    mark = told;
  }
  return reply.last() ? Answer::kDone : Answer::kPart;
}

absl::StatusOr<Answer> TakeFetchAnswer(uint32_t shard, const DataHeader& header,
                                       ChunkCursor* payload, const Fetcher& fetcher,
                                       RoundWait* wait, FetchTarget* target) {
  if (header.has_error() && header.error().verdict() == REFUSED_BUSY) {
    wait->NoteOpen(header.error().message());
    return Answer::kBusy;
  }
  if (header.has_error()) {
    const absl::Status status = ToStatus(header.error(), fetcher.session);
    // It may be a life that has not got the job back yet.
    return fetcher.keeps && IsSessionLost(status) ? absl::UnavailableError(status.message())
                                                  : status;
  }
  if (!header.has_fetch_reply()) {
    return absl::InternalError("the answer to a fetch is of another kind");
  }
  wait->NoteOver(Clock::Real()->Now());
  return TakeFetchReply(shard, header.fetch_reply(), payload, target);
}

}  // namespace monsoon
