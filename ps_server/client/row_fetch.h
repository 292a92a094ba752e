// RowFetch: one fetch of rows: what each shard is asked, and where its answers go.
//
// Thread safety: none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/model/table_map.h"
#include "common/transport/frame/exchange.h"
#include "common/transport/frame/frame_transport.h"
#include "proto/tensor.pb.h"
#include "ps_server/client/row_gradient.h"

namespace monsoon {

class RowFetch {
 public:
  // A frame to be sent to one shard, and the places of its rows.
  struct Request {
    std::vector<TableRows> tables;
    std::vector<uint32_t> numbers;  // as the shard has them
    std::vector<float*> places;     // one a row
    std::vector<uint32_t> columns;  // of each of the tables
  };

  // InvalidArgument names the table and the row that is not there. What `wanted` points to
  // outlives this.
  static absl::StatusOr<RowFetch> Create(std::span<const TableMap> tables,
                                         std::span<const RowRequest> wanted, uint32_t shards);

  // [shard]
  const std::vector<std::vector<Request>>& requests() const { return requests_; }
  // The answer to request `i` of the shard. What names no epoch is not looked at:
  // epochs()[shard] says of which life it was, 0 where nothing was asked.
  absl::StatusOr<Answer> Take(uint32_t shard, size_t i, const DataHeader& header,
                              ChunkCursor* payload);
  const std::vector<uint64_t>& epochs() const { return epochs_; }
  uint64_t bytes() const { return bytes_; }

 private:
  std::vector<std::vector<Request>> requests_;
  std::vector<uint64_t> epochs_;
  uint64_t bytes_ = 0;
};

class RequestMaker;

// Sends it, and takes all answers. `keeps`: shards come back, so one that does not know the
// session is UNAVAILABLE. So is one that answers in another life than that of epochs[shard]; empty:
// that of any life will do.
absl::Status RunRowFetch(const ExchangeContext& context, bool has_session, bool keeps,
                         std::span<const uint64_t> epochs, RequestMaker* requests,
                         FrameTransport* transport, RowFetch* fetch, ExchangeCounts* counts);

}  // namespace monsoon
