// OrderReader: the batches of a job's order (coordinator/job/batch_order.h) that one member of a
// group computes: in each step `count` of them, one after another, and those of the next step
// `stride` further on. Gathers the next step's in a thread of its own while the present one's
// compute.
//
// Thread safety: none; the compute thread owns it.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/data/data_source.h"
#include "worker/nn/batch.h"
#include "worker/session/background_call.h"

namespace monsoon {

class OrderReader {
 public:
  // `source` must outlive this. `seed` is the job's.
  OrderReader(const DataSource* source, uint64_t seed, uint32_t batch_size);
  // Waits for what is being gathered.
  ~OrderReader() = default;

  // The first step's batches are `first` and on.
  void Seek(uint64_t first, uint32_t count, uint64_t stride);

  // The batches of the next step, `count` of them, valid until the next call. They may be swapped
  // for others of the same capacity. Blocks until they are gathered; the data set's error where
  // they cannot be.
  absl::StatusOr<std::vector<Batch*>> Next();

 private:
  // Data sets hold two epochs' orders at most: a step may lie at the border.
  static constexpr size_t kMostPermutations = 2;

  void GatherAhead();
  absl::Status Gather(uint64_t batch, Batch* to);
  const std::vector<uint32_t>& Permutation(uint32_t epoch);

  const DataSource* const source_;
  const uint64_t seed_;
  const uint32_t batch_size_;
  const uint64_t per_epoch_;
  uint64_t next_first_ = 0;  // of what is gathered ahead
  uint64_t stride_ = 1;
  std::vector<Batch> current_;
  std::vector<Batch> next_;
  std::map<uint32_t, std::vector<uint32_t>> permutations_;  // of whoever gathers
  // Last: its thread uses the ones above.
  BackgroundCall<absl::Status> gatherer_;
};

}  // namespace monsoon
