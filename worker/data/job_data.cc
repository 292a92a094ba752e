#include "worker/data/job_data.h"

#include <cstdint>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "proto/job.pb.h"
#include "worker/data/open_dataset.h"
#include "worker/data/standardised_dataset.h"

namespace monsoon {

namespace {

absl::StatusOr<JobData> Open(const Job& job, const DatasetOpener& open, const DataAccess& access,
                             bool unlabelled) {
  JobData data;
  ASSIGN_OR_RETURN(data.train, open(job.train(), TrainingContext(job, access)));
  if (job.has_test()) {
    DataContext context = TestContext(job, access);
    context.unlabelled = unlabelled;
    ASSIGN_OR_RETURN(data.test, open(job.test(), context));
  }
  if (job.standardise()) {
    ASSIGN_OR_RETURN(FeatureScaling measured, MeasureFeatures(*data.train));
    const auto scaling = std::make_shared<const FeatureScaling>(std::move(measured));
    data.train = std::make_shared<StandardisedDataset>(std::move(data.train), scaling);
    if (data.test != nullptr) {
      data.test = std::make_shared<StandardisedDataset>(std::move(data.test), scaling);
    }
  }
  return data;
}

}  // namespace

DatasetOpener OpenerFor() {
  return [](const Dataset& dataset,
            const DataContext& context) -> absl::StatusOr<std::shared_ptr<const DataSource>> {
    ASSIGN_OR_RETURN(std::unique_ptr<DataSource> source, OpenDataset(dataset, context));
    return std::shared_ptr<const DataSource>(std::move(source));
  };
}

absl::StatusOr<JobData> OpenJobData(const Job& job, const DatasetOpener& open,
                                    const DataAccess& access) {
  return Open(job, open, access, /*unlabelled=*/false);
}

absl::StatusOr<std::shared_ptr<const DataSource>> OpenTestData(const Job& job,
                                                               const DatasetOpener& open,
                                                               const DataAccess& access,
                                                               bool unlabelled) {
  if (!job.standardise()) {
    DataContext context = TestContext(job, access);
    context.unlabelled = unlabelled;
    return open(job.test(), context);
  }
  ASSIGN_OR_RETURN(JobData data, Open(job, open, access, unlabelled));
  return std::move(data.test);
}

}  // namespace monsoon
