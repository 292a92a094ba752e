// What a data set is, from its files' headers alone: no batch is read here
// (batches are the worker's).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/dataset.pb.h"

namespace monsoon {

// What stands in for the number of samples that nobody has counted
// (JoinersSource.unnumbered).
inline constexpr uint64_t kUnnumberedExamples = uint64_t{1} << 40;

enum class ElementType { kUint8, kFloat32 };

struct DatasetInfo {
  uint64_t examples = 0;               // after `limit`
  std::vector<uint64_t> sample_shape;  // without the batch; empty: as the model asks (synthetic)
  uint32_t classes = 0;                // 0: the headers do not tell
  uint64_t bytes = 0;                  // of all samples as stored, uncompressed; 0: no files
  ElementType type = ElementType::kUint8;

  // Values of one sample; 0 when sample_shape is empty.
  uint64_t sample_elements() const;
};

// One thing wrong with a data set; `field` is relative to the Dataset:
// "idx.images".
struct DatasetError {
  std::string field;
  absl::Status status;
};

// Reads the headers. Messages name the file and what was found there; with
// `errors` each wrong file is told, otherwise the first.
absl::StatusOr<DatasetInfo> DescribeDataset(const Dataset& dataset,
                                            std::vector<DatasetError>* errors = nullptr);

// Largest label + 1, by reading the label file whole (60 KB for MNIST).
// Synthetic: its classes. Errors as above; a negative label is one.
absl::StatusOr<uint64_t> CountClasses(const Dataset& dataset);

}  // namespace monsoon
