// Validation of the data plane: one pure function per RPC, run before any
// state changes. Errors name the job, the stripe and the value.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "common/model/shard_map.h"
#include "proto/tensor.pb.h"

namespace monsoon {

// What a request is checked against.
struct JobFacts {
  std::string job;
  uint64_t layout_hash = 0;
  ShardMap map;
  uint32_t shard = 0;
  uint64_t shard_epoch = 0;
  uint32_t tensors = 0;  // of the layout
  bool rounds = false;   // of differences
  bool store_only = false;
};

// Longest text of a verdict: kMaxFrameRecords of them fit a frame's header.
inline constexpr size_t kMaxVerdictMessage = 160;

// The frame itself, whichever job: the records' lengths sum up to the payload
// and there are not too many.
absl::Status ValidatePushFrame(const PushRequest& request, uint64_t payload_bytes);
absl::Status ValidateContributeFrame(const ContributeRequest& request, uint64_t payload_bytes);
absl::Status ValidateWriteFrame(const WriteRequest& request, uint64_t payload_bytes);

struct RecordCheck {
  // APPLIED: nothing wrong. REFUSED_INVALID consumes the sequence, the other
  // refusals change nothing.
  Verdict verdict = APPLIED;
  std::string message;
};
// One record of a push. `gradient` is its whole content, decoded, when the
// length fits the stripe, else empty; `malformed` says why it could not be
// decoded. `finite`: the values are known to be, on the bytes that are here.
RecordCheck ValidatePushRecord(const JobFacts& facts, const PushRequest& request,
                               const PushRecord& record, const absl::Status& malformed,
                               std::span<const float> gradient, bool finite);

// The same of a contribution; no refusal changes anything.
RecordCheck ValidateContributeRecord(const JobFacts& facts, const ContributeRequest& request,
                                     const ContributeRecord& record,
                                     std::span<const float> gradient, bool finite);

absl::Status ValidateFetch(const JobFacts& facts, const FetchRequest& request);

// Stripes that one MarksRequest may ask for: the answer fits a frame's header.
inline constexpr uint32_t kMaxMarksStripes = 1024;
absl::Status ValidateMarks(const JobFacts& facts, const MarksRequest& request);

// The parts of a write that need no content; then the content of one record.
absl::Status ValidateWrite(const JobFacts& facts, const WriteRequest& request);
absl::Status ValidateWriteRecord(const JobFacts& facts, const FetchRecord& record,
                                 std::span<const float> parameters);

}  // namespace monsoon
