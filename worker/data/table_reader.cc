#include "worker/data/table_reader.h"

#include <string>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "common/data/table_source.h"
#include "worker/data/in_memory_dataset.h"

namespace monsoon {

absl::StatusOr<std::unique_ptr<DataSource>> ReadTableSource(const Dataset& dataset,
                                                            const ReadOptions& options) {
  const std::string& path = dataset.has_csv() ? dataset.csv().file() : dataset.libsvm().file();
  ASSIGN_OR_RETURN(SampleTable table, ReadTable(dataset, options.context, /*keep_values=*/true));
  const std::vector<uint64_t> shape = {table.features};
  RETURN_IF_ERROR(CheckOrder(path, shape, options));
  Answers answers(std::move(table.labels));
  answers.targets = std::move(table.targets);
  answers.targets_per_example = table.targets_per_example;
  if (answers.targets_per_example > 0) {
    answers.labels_per_example = 0;
  } else if (answers.labels.empty()) {
    answers.labels.assign(table.examples, 0);
  }
  answers.weights = std::move(table.weights);
  return std::unique_ptr<DataSource>(
      new InMemoryDataset({}, std::move(table.values), std::move(answers), options.normalisation));
}

}  // namespace monsoon
