// DataSource: samples by index, ready for a network.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "worker/nn/batch.h"

namespace monsoon {

// Thread safety: immutable once made; all calls may run at once.
class DataSource {
 public:
  virtual ~DataSource() = default;

  // At least 1, below 2^32.
  virtual uint64_t examples() const = 0;
  // Floats of one sample.
  virtual size_t values_per_example() const = 0;

  // Copies the samples `indices`, normalised, and their labels to the front of
  // `batch`, whose capacity and values must fit. Does not block on I/O.
  virtual void Gather(std::span<const uint32_t> indices, Batch* batch) const = 0;

  // A hash of the shape, the normalisation and all samples (CRC-32 of the
  // content): equal where two processes would train on the same values.
  virtual uint64_t Fingerprint() const = 0;
};

}  // namespace monsoon
