// What a data set's description means depends on: the model that it feeds, and the training set
// that the job has beside it.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "common/data/access/data_access.h"
#include "proto/dataset.pb.h"

namespace monsoon {

class Job;

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
  // What may be opened, and what messages may quote.
  DataAccess access = DataAccess::Own();

  uint64_t input_values() const {
    uint64_t values = input_shape.empty() ? 0 : 1;
    for (const uint32_t extent : input_shape) {
      values *= extent;
    }
    return values;
  }
};

// Of the job's training set.
DataContext TrainingContext(const Job& job, const DataAccess& access);
// Of any other set that is used beside it.
DataContext TestContext(const Job& job, const DataAccess& access);

}  // namespace monsoon
