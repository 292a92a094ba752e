// Files of predictions of samples, in order.
//
//   .npy  float32 [samples, outputs]; of sequences [samples, steps, outputs]
//   .csv  index,label_predicted,p_0,p_1,...  a line a sample; the label by its class's name, in
//         quotes where it needs them; each number reads back as the same float32
//
// Of sequences a line a step, with a column `step` after the index. What p_0, p_1, ... are
// the model's loss says (worker/nn/predictions.h); of values they are named value_0, value_1, ...
// and there is no label.
//
// The label is PredictedLabel's, as an evaluation counts it, so of probabilities that are the same
// once rounded it may be the second. There is none of several
// outputs of BINARY_CROSS_ENTROPY, each of which may be a yes. The file replaces another in
// Finish, or nothing does.
//
// Thread safety: none. Errors name the file.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/nn/loss_plan.h"
#include "worker/nn/predictions.h"

namespace monsoon {

class PredictionFile {
 public:
  // By the suffix of `path`; InvalidArgument names both where it is another. For a model of
  // this loss. `names`: of the classes, in the order of labels; a label that has none is written
  // as its number.
  static absl::StatusOr<std::unique_ptr<PredictionFile>> Create(const std::string& path,
                                                                uint64_t samples,
                                                                const LossPlan& loss,
                                                                std::vector<std::string> names);
  virtual ~PredictionFile() = default;
  // Of the next samples: n * steps steps, labels too.
  virtual absl::Status Add(const PredictionSpans& predictions) = 0;
  // All samples were added.
  virtual absl::Status Finish() = 0;
};

}  // namespace monsoon
