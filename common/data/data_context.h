// What a data set's description means depends on: the model that it feeds, and the training set
// that the job has beside it.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "proto/dataset.pb.h"
#include "proto/job.pb.h"
#include "proto/model.pb.h"

namespace monsoon {

struct DataContext {
  // The model's, without the batch dimension; empty: it has none (a model of tensors).
  std::vector<uint32_t> input_shape = {};
  // Of the job, where the data set is another of its sets: what is measured or numbered by the
  // training set (classes' words, means in place of missing values) is so for all.
  std::optional<Dataset> training = std::nullopt;
  // Nobody knows labels, and none are needed: samples to predict for.
  bool unlabelled = false;
  // What values are judged by beside NaN, of tables as they are read, else by a scan. Rows of the
  // smallest embedding that reads the samples, 0: none does; and whether the loss needs targets in
  // [0, 1].
  uint64_t id_limit = 0;
  bool targets_are_shares = false;

  uint64_t input_values() const {
    uint64_t values = input_shape.empty() ? 0 : 1;
    for (const uint32_t extent : input_shape) {
      values *= extent;
    }
    return values;
  }
};

// Of the job's training set.
inline DataContext TrainingContext(const Job& job) {
  const auto& shape = job.model().input_shape();
  DataContext context;
  context.input_shape = {shape.begin(), shape.end()};
  context.targets_are_shares = job.model().loss() == BINARY_CROSS_ENTROPY;
  for (const Layer& layer : job.model().layer()) {
    const uint64_t rows = layer.embedding().rows();
    if (layer.has_embedding() && (context.id_limit == 0 || rows < context.id_limit)) {
      context.id_limit = rows;
    }
  }
  return context;
}
// Of any other set that is used beside it.
inline DataContext TestContext(const Job& job) {
  DataContext context = TrainingContext(job);
  if (job.has_train()) {
    context.training = job.train();
  }
  return context;
}

}  // namespace monsoon
