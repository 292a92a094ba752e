// SampleTable: the samples of a text file, whatever its format.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/data/access/data_access.h"

namespace monsoon {

// What a test set has to know of its training set, so that words and columns mean the same there.
struct TableFacts {
  // The labels' words, in the order of the classes; empty: labels are numbers, or there are none.
  std::vector<std::string> class_names;
  std::vector<std::string> features;  // columns' names; empty: they have none
  std::vector<double> means;          // of the features' values that are there
};

struct SampleTable {
  uint64_t examples = 0;
  size_t features = 0;
  size_t targets_per_example = 0;
  uint32_t classes = 0;          // the largest label + 1, or the class names; 0: no labels
  std::vector<float> values;     // [examples, features]
  std::vector<uint32_t> labels;  // [examples], or empty
  std::vector<float> targets;    // [examples, targets_per_example]
  std::vector<float> weights;    // [examples], or empty: 1 each
  TableFacts facts;              // its own, or those it was read by
};

struct TableOptions {
  uint64_t limit = 0;  // rows; 0: all
  // Dataset.class_name.
  std::vector<std::string> class_names;
  // Of a test set's training set, or null.
  const TableFacts* train = nullptr;
  // The training set's class_name, not its words, are the names.
  bool names_are_given = false;
  // Without names words are refused: the training set's labels are numbers.
  bool only_numbers = false;
  // Dataset.class_order says how words are numbered.
  bool order_is_told = true;
  // False: all is checked and counted, but `values` stays empty.
  bool keep_values = true;
  // DataContext: what the model's embeddings and loss can take.
  uint64_t id_limit = 0;
  bool targets_are_shares = false;
  DataAccess access = DataAccess::Own();

  // InvalidArgument, without the place.
  absl::Status CheckFeature(float value) const;
  absl::Status CheckTarget(float target) const;
};

}  // namespace monsoon
