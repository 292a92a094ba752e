// EqualRows: a job with two tables whose rows all begin alike and get the same gradient with
// each push, so that a row which has not counted each push once is seen. Its pushes take several
// frames to a shard. For tests.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ps_server/client/parameter_client.h"
#include "ps_server/client/row_gradient.h"
#include "ps_server/testing/test_shards.h"

namespace monsoon {

class EqualRows {
 public:
  EqualRows();

  static TestJobOptions Job();
  // Of the vector beside the tables.
  static constexpr size_t kFloats = 64;
  // That a client keeps of a push, on all shards.
  static uint64_t push_bytes();

  absl::StatusOr<ParameterClient::PushResult> Push(ParameterClient* client) const;
  // FailedPrecondition names the first row that is another than after so many pushes.
  absl::Status Check(ParameterClient* client, uint64_t pushes) const;

 private:
  std::vector<std::vector<uint64_t>> rows_;  // [table]
  std::vector<std::vector<float>> values_;   // of gradients
};

}  // namespace monsoon
