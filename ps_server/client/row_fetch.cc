#include "ps_server/client/row_fetch.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "ps_server/client/answers.h"
#include "ps_server/client/requests.h"

namespace monsoon {
namespace {

absl::Status CheckWanted(std::span<const TableMap> tables, const RowRequest& wanted) {
  if (wanted.table >= tables.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("table ", wanted.table, ": the model has ", tables.size()));
  }
  const TableMap& map = tables[wanted.table];
  if (wanted.values.size() != wanted.rows.size() * map.columns()) {
    return absl::InvalidArgumentError(
        absl::StrCat("table ", wanted.table, ": room for ", wanted.values.size(), " values, where ",
                     wanted.rows.size(), " rows of ", map.columns(), " are asked for"));
  }
  for (const uint64_t row : wanted.rows) {
    if (row >= map.rows()) {
      return absl::InvalidArgumentError(
          absl::StrCat("table ", wanted.table, ": row ", row, " of ", map.rows()));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<RowFetch> RowFetch::Create(std::span<const TableMap> tables,
                                          std::span<const RowRequest> wanted, uint32_t shards) {
  RowFetch fetch;
  fetch.requests_.resize(shards);
  fetch.epochs_.assign(shards, 0);
  std::vector<uint64_t> bytes(shards, 0);  // of the values of each shard's last frame
  for (const RowRequest& request : wanted) {
    if (absl::Status status = CheckWanted(tables, request); !status.ok()) {
      return status;
    }
    const TableMap& map = tables[request.table];
    const uint64_t row_bytes = map.columns() * sizeof(float);
    std::vector<bool> begun(shards, false);  // a run of this table, in the last frame
    for (size_t i = 0; i < request.rows.size(); ++i) {
      const uint32_t shard = shards == 1 ? 0 : map.ShardOf(request.rows[i]);
      std::vector<Request>& frames = fetch.requests_[shard];
      // Runs are in the header, which is limited too: a table may be asked for many times.
      const bool many_runs = !begun[shard] && !frames.empty() &&
                             frames.back().tables.size() >= size_t{kMaxFrameRecords};
      if (frames.empty() || many_runs || bytes[shard] + row_bytes > kMaxFramePayloadBytes) {
        frames.emplace_back();
        bytes[shard] = 0;
        begun[shard] = false;
      }
      Request& frame = frames.back();
      if (!begun[shard]) {
        begun[shard] = true;
        frame.tables.emplace_back().set_table(request.table);
        frame.columns.push_back(map.columns());
      }
      frame.tables.back().set_rows(frame.tables.back().rows() + 1);
      frame.numbers.push_back(static_cast<uint32_t>(request.rows[i] - map.first_row(shard)));
      frame.places.push_back(request.values.data() + i * map.columns());
      bytes[shard] += row_bytes;
    }
  }
  return fetch;
}

absl::StatusOr<Answer> RowFetch::Take(uint32_t shard, size_t i, const DataHeader& header,
                                      ChunkCursor* payload) {
  if (!header.has_row_fetch_reply() || i >= requests_[shard].size()) {
    return absl::InternalError("the answer to a fetch of rows is of another kind");
  }
  const Request& request = requests_[shard][i];
  uint64_t expected = 0;
  for (size_t table = 0; table < request.tables.size(); ++table) {
    expected += uint64_t{request.tables[table].rows()} * request.columns[table] * sizeof(float);
  }
  if (payload->remaining() != expected) {
    return absl::InternalError(absl::StrCat("the answer to a fetch of rows has ",
                                            payload->remaining(), " bytes, expected ", expected));
  }
  const uint64_t epoch = header.row_fetch_reply().shard_epoch();
  // Frames of two lives: not of any.
  epochs_[shard] = epochs_[shard] == 0 || epochs_[shard] == epoch ? epoch : UINT64_MAX;
  size_t row = 0;
  for (size_t table = 0; table < request.tables.size(); ++table) {
    for (uint32_t j = 0; j < request.tables[table].rows(); ++j) {
      payload->Copy(request.columns[table] * sizeof(float), request.places[row++]);
    }
  }
  bytes_ += expected;
  return Answer::kDone;
}

absl::Status RunRowFetch(const ExchangeContext& context, bool has_session, bool keeps,
                         std::span<const uint64_t> epochs, RequestMaker* requests,
                         FrameTransport* transport, RowFetch* fetch, ExchangeCounts* counts) {
  const auto handler = [&](uint32_t shard, const DataHeader& header,
                           ChunkCursor* payload) -> absl::StatusOr<Answer> {
    if (header.has_error()) {
      const absl::Status status = ToStatus(header.error(), has_session);
      return keeps && IsSessionLost(status) ? absl::UnavailableError(status.message()) : status;
    }
    return fetch->Take(shard, requests->IndexOf(shard, header.request_id()), header, payload);
  };
  RETURN_IF_ERROR(RunExchange(context, requests->FetchRows(*fetch), transport, handler, counts));
  for (uint32_t shard = 0; shard < epochs.size(); ++shard) {
    if (fetch->epochs()[shard] != 0 && fetch->epochs()[shard] != epochs[shard]) {
      return absl::UnavailableError(
          absl::StrCat("ps/", shard, " was started anew while rows were fetched from it"));
    }
  }
  return absl::OkStatus();
}

}  // namespace monsoon
