// A joined job with a table for ledger_pusher: how a pusher enters it, which rows are its own,
// and what they have come to.
//
// The rows of place P are P, P + 15420, P + 2 x 15420 ...: one in each stripe. A push brings -1 for
// each value of each, so that by row-wise Adagrad with rate 1 the row's value tells how many
// pushes it has counted.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "coordinator/client/replica_client.h"
#include "proto/coordinator.pb.h"
#include "ps_server/client/parameter_client.h"
#include "ps_server/client/row_gradient.h"

namespace monsoon {

// Enters the job of these settings (protobuf text, with a model of tensors and tables), and
// writes zeros as its initial parameters where that is this guest's turn, until it may train.
absl::StatusOr<EnterReply> EnterTables(ReplicaClient* coordinator, const std::string& settings,
                                       uint64_t guest);

class LedgerRows {
 public:
  // Of a job whose first table has 16 columns.
  LedgerRows(const std::vector<TableMap>& tables, uint32_t place);

  std::vector<RowGradient> gradient() const { return {{0, rows_, values_}}; }
  // For each row how many pushes it has counted; Internal for a value that no number of pushes
  // leads to, or more than `most`.
  struct Count {
    uint32_t shard = 0;
    uint64_t pushes = 0;
  };
  absl::StatusOr<std::vector<Count>> Read(ParameterClient* client, uint64_t most) const;

 private:
  const TableMap map_;
  std::vector<uint64_t> rows_;
  std::vector<float> values_;
};

// Prints "PLACE SHARD PUSHES" for each row of the places below `places`.
absl::Status PrintRows(const std::string& coordinator, const std::string& job, uint32_t places);

}  // namespace monsoon
