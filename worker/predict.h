// `worker --predict`: what a model says of samples, in this process, without a cluster.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/local_model.h"
#include "worker/nn/predictions.h"

namespace monsoon {

struct PredictOptions {
  // Each "test" or "train", the job's own sets, or the path of a file of samples
  // without labels: .npy, .npz (with the job's name for images), else as the job's own sets are;
  // IDX where those are arrays. In order; none: the test set.
  std::vector<std::string> data;
  std::string out;  // prediction_file.h
  int threads = 1;
};

struct PredictionCounts {
  uint64_t samples = 0;
  uint64_t classes = 0;  // outputs at each step
  uint64_t steps = 1;
  PredictionKind kind = PredictionKind::kProbabilities;
  std::vector<std::string> class_names;  // in the order of the outputs; empty: they have none
  std::vector<std::string> notes;        // for people
};

// Whether all of `data` are files: the job's own sets need not be there then, unless
// the job standardises by its training set.
bool IsOfFilesOnly(const std::vector<std::string>& data);

// Files are treated as the job's test set is (its training set where it has no test
// set): Dataset.layout, mean and scale, then Job.standardise with the numbers of the
// training set; Dataset.limit is of the job's own sets. InvalidArgument for what does
// not fit the model, naming the file or the field; DataLoss for samples that
// cannot be read. `out` is written whole or not at all.
absl::StatusOr<PredictionCounts> PredictSamples(const PredictOptions& options,
                                                const LocalModel& model);

// {"schema_version":1,"out":...,"samples":...,"classes":...,"holds":"probabilities"}; of sequences
// "steps" too, and "class_names" where the classes have some. `holds` as in worker/nn/predictions.h
std::string ToJson(const PredictOptions& options, const PredictionCounts& counts);

}  // namespace monsoon
