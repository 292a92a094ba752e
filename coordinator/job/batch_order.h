// BatchOrder: the batches of a synchronous job in the order in which they are trained on. They are
// numbered over all epochs: each epoch is a permutation of the data that is cut into batches of
// batch_size, of which the last one has what is left. So batch i is batch i % per_epoch() of epoch
// i / per_epoch(), however many replicas share the work.
//
// Pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "proto/checkpoint.pb.h"
#include "proto/job.pb.h"

namespace monsoon {

class BatchOrder {
 public:
  // Both are above 0.
  BatchOrder(uint64_t examples, uint32_t batch_size)
      : examples_(examples), batch_size_(batch_size) {}

  uint64_t per_epoch() const { return (examples_ + batch_size_ - 1) / batch_size_; }
  // Samples of so many batches from the beginning on.
  uint64_t ExamplesOf(uint64_t batches) const;
  double EpochOf(uint64_t batches) const;
  // The batches by which so many epochs are done: the first batch edge that is no earlier.
  uint64_t BatchesOf(double epochs) const;

  // Where `stop` ends the training, in batches; nothing: nowhere.
  std::optional<uint64_t> EndOf(const Stop& stop) const;

  // Where a job goes on from that `context` is of. INVALID_ARGUMENT for what no job can have come
  // to. `note`: what is trained on once more, for people; "": nothing.
  absl::StatusOr<SynchronousPosition> Resume(const CheckpointContext& context,
                                             std::string* note) const;

  // What is done by then as a job says it whose data are cut into blocks of so many samples. Only
  // whole blocks count.
  DownpourProgress ProgressAt(const SynchronousPosition& position, uint64_t block_examples) const;

 private:
  uint64_t examples_;
  uint32_t batch_size_;
};

}  // namespace monsoon
