// DataSource: samples by index, ready for a network.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "absl/status/status.h"
#include "worker/nn/batch.h"

namespace monsoon {

// Thread safety: immutable once made; all calls may run at once.
class DataSource {
 public:
  virtual ~DataSource() = default;

  // At least 1, below 2^32.
  virtual uint64_t examples() const = 0;
  // Of each sample; what batches for Gather are made of.
  virtual SampleFormat format() const = 0;
  // Floats of one sample.
  size_t values_per_example() const { return format().values; }

  // Copies the samples `indices`, normalised, with labels, targets and weights to the front of
  // `batch`, whose capacity and format must fit. Blocks on the disk where samples are not kept in
  // memory; DataLoss names the file and the place that cannot be read.
  virtual absl::Status Gather(std::span<const uint32_t> indices, Batch* batch) const = 0;

  // A hash of the shape, the normalisation and all samples (CRC-32 of the
  // content): equal where two processes would train on the same values.
  virtual uint64_t Fingerprint() const = 0;
};

}  // namespace monsoon
