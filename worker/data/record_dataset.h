// RecordDataset: samples as records of equal length in a ByteStore, turned into a network's
// input when they are gathered. What is larger than memory is read in this way.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/npz/npy_header.h"
#include "worker/data/byte_store.h"
#include "worker/data/data_source.h"
#include "worker/data/in_memory_dataset.h"

namespace monsoon {

// A record: values, and beside them labels of a byte each.
struct RecordFormat {
  uint64_t stride = 0;  // from one record's first byte to the next one's
  uint64_t values_at = 0;
  NpyType type = NpyType::kUint8;
  size_t values = 0;
  size_t channels_last = 0;  // of values that become [channels, ...]; 0: they stay as they are
  uint64_t labels_at = 0;
  size_t labels = 0;  // 0: the answers have them

  uint64_t values_bytes() const { return values * NpyTypeBytes(type); }
  // Bytes that are read of one.
  uint64_t bytes() const;
};

// Numbers of each sample that lie in a store of their own, row by row.
struct AnswerRows {
  std::unique_ptr<ByteStore> bytes;  // null: there are none
  NpyType type = NpyType::kUint8;
  size_t count = 0;

  uint64_t row_bytes() const { return count * NpyTypeBytes(type); }
};

class RecordDataset : public DataSource {
 public:
  struct Parts {
    uint64_t examples = 0;
    std::unique_ptr<ByteStore> records;
    RecordFormat format;
    // Labels come from the records, from `labels` or from `answers`; targets from one of the last
    // two. The sizes of those that are elsewhere are 0 in `answers`.
    Answers answers;
    AnswerRows labels;
    AnswerRows targets;
    Normalisation normalisation;
    uint64_t fingerprint = 0;
  };

  explicit RecordDataset(Parts parts) : parts_(std::move(parts)) {}

  uint64_t examples() const override { return parts_.examples; }
  SampleFormat format() const override;
  absl::Status Gather(std::span<const uint32_t> indices, Batch* batch) const override;
  uint64_t Fingerprint() const override { return parts_.fingerprint; }

 private:
  void Normalise(const uint8_t* record, float* out) const;
  absl::Status CopyRows(uint32_t index, size_t n, Batch* batch) const;

  const Parts parts_;
};

}  // namespace monsoon
