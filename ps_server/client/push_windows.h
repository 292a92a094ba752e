// PushWindows: the pushes of one session that are kept, in a ReplayWindow a shard, each with what
// it was computed from; and what each shard has durable of them.
//
// Thread safety: calls of the first part belong to one thread at a time, those of the second may
// come from any.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "ps_server/client/answers.h"
#include "ps_server/client/buffer_ring.h"
#include "ps_server/client/heard_answers.h"
#include "ps_server/client/kept_bytes.h"
#include "ps_server/client/kept_rows.h"
#include "ps_server/client/parameter_client.h"
#include "ps_server/client/push_encoder.h"
#include "ps_server/client/replay_window.h"
#include "ps_server/client/requests.h"

namespace monsoon {

class PushWindows {
 public:
  // Both outlive this. `encoder` has what is to be kept.
  PushWindows(const ParameterClientOptions* options, const PushEncoder* encoder);

  // ---- one thread at a time ----

  // Of the newest push that is kept.
  uint64_t last() const { return last_; }
  // What is to be sent to the shard next; its acknowledgements go through OnAcknowledged.
  ReplayWindow& of(uint32_t shard) { return shards_[shard].window; }
  const ReplayWindow& of(uint32_t shard) const { return shards_[shard].window; }

  // What the next push brings beside what the encoder has encoded: [shard], of a job with tables.
  void SetRows(std::vector<std::shared_ptr<const KeptRows>> rows) { rows_ = std::move(rows); }
  // Some shard has no room for it.
  bool full() const;
  // Makes room for the push, as number last() + 1: whoever sends it fills what Unfilled gives,
  // and Fill the rest. With an `owner` of what the encoder gives as it is, that is kept and no
  // copy.
  void Keep(const FetchMarks& base, const std::shared_ptr<const void>& owner);
  std::shared_ptr<KeptBytes> TakeUnfilled(uint32_t shard) { return std::move(unfilled_[shard]); }
  void Fill();
  // Pushes need not survive a shard any more.
  void Forgo();

  // A request with the shard's push, whose bytes are `bytes`, wherever they are.
  RequestMaker::KeptPush RequestOf(uint32_t shard, const ReplayWindow::Push& push,
                                   std::span<const std::byte> bytes,
                                   std::shared_ptr<KeptBytes> keep) const;

  // All stripes of the shard have acknowledged `sequence`.
  void OnAcknowledged(uint32_t shard, uint64_t sequence, const HeardOfShard& heard);
  // What the shard has dropped as too old it is to drop again, should it be sent again.
  void NoteDropped(uint32_t shard, const HeardOfShard& heard);
  // It was asked what it has. DataLoss where it has lost what it had called durable.
  absl::Status OnMarks(uint32_t shard, const HeardOfShard& heard);
  // The last push is not in its newest generation yet.
  bool AwaitsGeneration(uint32_t shard) const;
  // That one, by shard.
  std::vector<uint64_t> generations() const;

  // Tells other threads how things stand.
  void Publish();

  // ---- any thread ----

  // All shards have acknowledged the pushes up to this one, in some epoch.
  uint64_t acknowledged() const { return acknowledged_; }
  uint64_t bytes() const { return bytes_; }
  // Of pushes that were copied to be kept, so far.
  uint64_t copied_bytes() const { return copied_bytes_; }

 private:
  struct Shard {
    ReplayWindow window;
    // Of the pushes in the window, in their order.
    std::deque<std::vector<StripeMark>> base;
    // [fragment], and then that of rows of tables: all pushes up to this one are, as far as it
    // is known.
    std::vector<uint64_t> durable;
    uint64_t written = 0;     // what the newest generation holds
    uint64_t generation = 0;  // that one
  };

  // Takes over what was heard, and tells up to which push all is durable.
  uint64_t HeardDurable(Shard* shard, const HeardOfShard& heard) const;
  // What belongs to pushes that the window has forgotten.
  static void ForgetBases(Shard* shard);

  const ParameterClientOptions& options_;
  const PushEncoder& encoder_;
  std::vector<std::shared_ptr<const KeptRows>> rows_;  // of the next push
  std::vector<Shard> shards_;
  uint64_t last_ = 0;
  BufferRing pool_;
  // [shard], of the newest push; null: its frames say where.
  std::vector<std::shared_ptr<KeptBytes>> unfilled_;

  std::atomic<uint64_t> acknowledged_{0};
  std::atomic<uint64_t> bytes_{0};
  std::atomic<uint64_t> copied_bytes_{0};
};

}  // namespace monsoon
