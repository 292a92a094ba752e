// Cuts a parameter vector into request frames by the shard map. The frames
// point at the vector's memory.
//
// Headers, heads and lists are used again from call to call, so that a
// replica's steps allocate nothing.
//
// Thread safety: none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "common/model/shard_map.h"
#include "common/transport/frame/exchange.h"
#include "proto/tensor.pb.h"
#include "ps_server/client/kept_bytes.h"
#include "ps_server/client/kept_rows.h"
#include "ps_server/client/parameter_client.h"
#include "ps_server/client/public_view.h"
#include "ps_server/client/push_encoder.h"
#include "ps_server/client/row_fetch.h"

namespace monsoon {

class RequestMaker {
 public:
  // Frames per shard, in the order of the stripes.
  using ShardRequests = std::vector<std::vector<RequestFrame>>;

  // `options` outlives this.
  explicit RequestMaker(const ParameterClientOptions* options);

  // Each call that returns requests gives those of one exchange, which live
  // until the next such call.

  // One push of what `encoder` encoded last, under `sequence`. `base` may be
  // empty. `then_fetch`: the answers are to bring the parameters too; only where
  // FitsOneFrame holds. `rows`: [shard], of a job with tables.
  const ShardRequests& Push(const PushEncoder& encoder, const FetchMarks& base, uint64_t sequence,
                            bool then_fetch,
                            std::span<const std::shared_ptr<const KeptRows>> rows = {});
  // The same in pieces, of pushes that are kept: after Begin, one after the other.
  // `bytes` are those of the shard's stripes of the push's fragment, as `encoder` encodes them;
  // `base` has an entry a stripe of the shard, or none.
  struct KeptPush {
    uint64_t sequence = 0;  // of the session's pushes
    uint64_t shard_epoch = 0;
    std::span<const std::byte> bytes;
    std::span<const StripeMark> base;
    float weight = 1;
    float part = 1;
    absl::Duration patience;
    std::span<const uint32_t> absent;
    // Where `bytes` are to be kept; null: they need not be, or are already.
    std::shared_ptr<KeptBytes> keep;
  };
  void Begin();
  void AddPush(uint32_t shard, const PushEncoder& encoder, const KeptPush& push, bool then_fetch);
  // Before the records of a push: its rows, which must outlive the exchange.
  void AddRows(uint32_t shard, uint64_t sequence, uint64_t shard_epoch, const KeptRows& rows);
  // Those of a fetch of rows, one exchange, in the order of its requests.
  const ShardRequests& FetchRows(const RowFetch& fetch);
  // Which of the shard's requests since Begin that is.
  size_t IndexOf(uint32_t shard, uint64_t request_id) const;
  // Keeps what was not sent, too.
  void KeepAll();
  // Asks what the shard has of the session, or tells it that this passes.
  void AddMarks(uint32_t shard, bool passes = false);
  // Tells each shard that this passes.
  const ShardRequests& Pass();
  // The first stripe that such a question is about.
  uint32_t FirstMarked(uint32_t shard, uint64_t request_id) const;
  // Since Begin.
  const ShardRequests& requests() const { return requests_; }

  // Whether each shard's push is one frame, and its slice fits one frame.
  bool FitsOneFrame(const PushEncoder& encoder) const;

  // One contribution's gradient (map.size() floats).
  const ShardRequests& Contribute(uint64_t evaluation, uint32_t contribution,
                                  std::span<const float> gradient);

  // Writes `values` (map.size() floats). options.versions is empty or has the map's
  // shape.
  const ShardRequests& Write(std::span<const float> values,
                             const ParameterClient::WriteOptions& options);

  // The same of rows of a table. `writes` outlives the exchange.
  const ShardRequests& WriteRows(uint32_t table, std::span<const KeptRowWrite> writes,
                                 uint64_t writer);

  // Seals what `writer` wrote: `parameters` (map.size() floats), a frame a shard.
  const ShardRequests& Seal(std::span<const float> parameters, uint64_t writer);

  // The same of what the session writes to the shards' spare room, as its write `number`: a slot,
  // of which all stripes are to have `version`; and the seal of all slots.
  const ShardRequests& WriteState(uint32_t slot, std::span<const float> values, uint64_t version,
                                  uint64_t number);
  const ShardRequests& SealState(std::span<const std::span<const float>> slots, uint64_t number);

  // A fetch of all stripes of `shard` in `format`; of the parameters if `vector`
  // is empty, or of a slot of the optimizer's state, from 1. Lives until the next call for that
  // shard.
  const FetchRequest& WholeFetch(uint32_t shard, const std::string& vector, WireFormat format,
                                 uint32_t slot = 0);
  // Requests for those stripes of each shard ([shard], ascending) of which the
  // last WholeFetch was; neighbours share a frame.
  // `view`: of changes from what it has; null: of parameters.
  const ShardRequests& Fetch(std::span<const std::vector<uint32_t>> stripes,
                             const PublicView* view = nullptr);

 private:
  // Of a fetch of so many stripes of a shard, so that all its connections have some.
  size_t StripesPerFetch(size_t stripes) const;
  // header_'s, of the job, without records.
  WriteRequest* BeginWrite(uint64_t writer);
  // The same of the session.
  WriteRequest* BeginStateWrite(uint64_t number);
  // Frames of header_'s write, as it has been begun; `version_of(shard, stripe)` goes to its
  // records.
  template <typename VersionOf>
  const ShardRequests& AddWrite(std::span<const float> values, VersionOf version_of);
  // header_ with `payload`, as the next frame of `shard`. `keep`: from byte `at` on; null:
  // nowhere.
  void Add(uint32_t shard, std::span<const std::byte> payload,
           const std::shared_ptr<KeptBytes>& keep = nullptr, size_t at = 0);
  // Memory of a head that no frame holds any more.
  std::shared_ptr<std::string> FreeHead();

  const ParameterClientOptions& options_;
  uint64_t next_request_id_ = 1;
  DataHeader header_;
  std::vector<FetchRequest> whole_;  // [shard]
  std::vector<std::shared_ptr<std::string>> heads_;
  size_t next_head_ = 0;
  ShardRequests requests_;
  std::deque<bool> copied_;  // of frames that are to be kept
};

}  // namespace monsoon
