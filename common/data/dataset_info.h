// What a data set is, from its files' headers alone: no batch is read here
// (batches are the worker's).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "common/data/data_context.h"
#include "proto/dataset.pb.h"

namespace monsoon {

// What stands in for the number of samples that nobody has counted
// (JoinersSource.unnumbered).
inline constexpr uint64_t kUnnumberedExamples = uint64_t{1} << 40;

// Integers are values as they are: ids for an embedding.
enum class ElementType { kUint8, kFloat32, kInteger };

struct DatasetInfo {
  uint64_t examples = 0;               // after `limit`
  std::vector<uint64_t> sample_shape;  // without the batch; empty: as the model asks (synthetic)
  uint32_t classes = 0;                // 0: the headers do not tell
  uint64_t bytes = 0;                  // of all samples as stored, uncompressed; 0: no files
  ElementType type = ElementType::kUint8;
  // Of each sample.
  uint64_t labels = 1;   // of a sequence one for each step; 0: targets alone
  uint64_t targets = 0;  // numbers that a model is to tell
  bool weighted = false;
  // In the order of the labels; empty: Dataset.class_name, or nothing, tells them.
  std::vector<std::string> class_names;
  // Of a sample's values; empty: they have none.
  std::vector<std::string> feature_names;

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
absl::StatusOr<DatasetInfo> DescribeDataset(const Dataset& dataset, const DataContext& context,
                                            std::vector<DatasetError>* errors = nullptr);

// Largest label + 1, by reading the labels whole (60 KB for MNIST); 0 where there are targets in
// their place. Synthetic: its classes. Errors as above; a negative label is one.
absl::StatusOr<uint64_t> CountClasses(const Dataset& dataset, const DataContext& context);

// Whether its samples are in files, and not made or in programs.
bool HasFiles(const Dataset& dataset);

// Calls `visit` with each field of the source that names files, empty ones too.
void VisitPaths(Dataset* dataset, absl::FunctionRef<void(std::string*)> visit);

}  // namespace monsoon
