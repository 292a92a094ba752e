// Files of predictions: the class probabilities of samples, in order.
//
//   .npy  float32 [samples, classes]
//   .csv  index,label_predicted,p_0,p_1,...  a line a sample; each number reads back as
//         the same float32
//
// The label is the class of the largest probability, of equal ones the first. The file
// replaces another in Finish, or nothing does.
//
// Thread safety: none. Errors name the file.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace monsoon {

class PredictionFile {
 public:
  // By the suffix of `path`; InvalidArgument names both where it is another.
  static absl::StatusOr<std::unique_ptr<PredictionFile>> Create(const std::string& path,
                                                                uint64_t samples, size_t classes);
  virtual ~PredictionFile() = default;
  // Of the next samples: [n, classes].
  virtual absl::Status Add(std::span<const float> probabilities) = 0;
  // All samples were added.
  virtual absl::Status Finish() = 0;
};

}  // namespace monsoon
