// HeardAnswers: what the answers of one exchange say of a session's pushes, a shard each. Shards
// speak of stripes and of those stripes' own pushes; what is heard is in pushes of the session, up
// to which nothing is missing.
//
// Thread safety: none.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "common/transport/frame/exchange.h"
#include "proto/tensor.pb.h"
#include "ps_server/client/answers.h"
#include "ps_server/client/parameter_client.h"
#include "ps_server/client/push_encoder.h"
#include "ps_server/client/requests.h"

namespace monsoon {

// Of one shard.
struct HeardOfShard {
  uint64_t applied = UINT64_MAX;  // of marks
  // [fragment], and then that of rows of tables. UINT64_MAX: nothing was said of it.
  std::vector<uint64_t> durable;
  uint64_t written = UINT64_MAX;  // in the newest generation
  uint64_t generation = 0;        // that one
  bool left_out = false;
  // It cannot take a push before a round is over, and says which. "": it said nothing of the kind.
  std::string round;
  bool refused_for_good = false;  // no other try will do
  // Too old for the job: (push, stripe).
  std::vector<std::pair<uint64_t, uint32_t>> dropped;
};

// Of a job's pushes: fragments, and the tables as one more.
uint32_t KindsOfPushes(const ParameterClientOptions& options);

class HeardAnswers {
 public:
  // All outlive this. `requests` made what is answered; `encoder` takes back what was refused of
  // the newest push.
  HeardAnswers(const ParameterClientOptions* options, const RequestMaker* requests,
               PushEncoder* encoder);

  // Nothing is heard yet: an exchange begins.
  void Begin();

  // The answer to one frame of a push. `newest`: what the encoder has is of that push.
  absl::StatusOr<Answer> TakeVerdicts(uint32_t shard, const DataHeader& header, uint64_t newest,
                                      ParameterClient::PushResult* result);
  // The answer to a question for marks, to the shard's life `epoch`.
  absl::StatusOr<Answer> TakeMarks(uint32_t shard, const DataHeader& header, uint64_t epoch);
  // The exchange goes on without the shard.
  void LeaveOut(uint32_t shard) { heard_[shard].left_out = true; }

  const HeardOfShard& of(uint32_t shard) const { return heard_[shard]; }

 private:
  absl::StatusOr<Answer> TakeRows(uint32_t shard, const RowPushReply& reply);

  const ParameterClientOptions& options_;
  const RequestMaker& requests_;
  PushEncoder* const encoder_;
  std::vector<HeardOfShard> heard_;
};

}  // namespace monsoon
