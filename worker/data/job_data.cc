#include "worker/data/job_data.h"

#include <cstdint>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "worker/data/open_dataset.h"
#include "worker/data/standardised_dataset.h"

namespace monsoon {

DatasetOpener OpenerFor(const Model& model) {
  const std::vector<uint32_t> input_shape(model.input_shape().begin(), model.input_shape().end());
  return
      [input_shape](const Dataset& dataset) -> absl::StatusOr<std::shared_ptr<const DataSource>> {
        ASSIGN_OR_RETURN(std::unique_ptr<DataSource> source, OpenDataset(dataset, input_shape));
        return std::shared_ptr<const DataSource>(std::move(source));
      };
}

absl::StatusOr<JobData> OpenJobData(const Job& job, const DatasetOpener& open) {
  JobData data;
  ASSIGN_OR_RETURN(data.train, open(job.train()));
  if (job.has_test()) {
    ASSIGN_OR_RETURN(data.test, open(job.test()));
  }
  if (job.standardise()) {
    const auto scaling = std::make_shared<const FeatureScaling>(MeasureFeatures(*data.train));
    data.train = std::make_shared<StandardisedDataset>(std::move(data.train), scaling);
    if (data.test != nullptr) {
      data.test = std::make_shared<StandardisedDataset>(std::move(data.test), scaling);
    }
  }
  return data;
}

absl::StatusOr<std::shared_ptr<const DataSource>> OpenTestData(const Job& job,
                                                               const DatasetOpener& open) {
  if (!job.standardise()) {
    return open(job.test());
  }
  ASSIGN_OR_RETURN(JobData data, OpenJobData(job, open));
  return std::move(data.test);
}

}  // namespace monsoon
