// The data sets of a job, as its settings want them: layout, normalisation and
// standardisation. Whoever trains or evaluates takes them from here.
#pragma once

#include <functional>
#include <memory>

#include "absl/status/statusor.h"
#include "common/data/data_context.h"
#include "proto/dataset.pb.h"
#include "worker/data/data_source.h"

namespace monsoon {

class Job;

struct JobData {
  std::shared_ptr<const DataSource> train;
  std::shared_ptr<const DataSource> test;  // null: the job has none
};

// OpenDataset, or a cache of it.
using DatasetOpener = std::function<absl::StatusOr<std::shared_ptr<const DataSource>>(
    const Dataset& dataset, const DataContext& context)>;
DatasetOpener OpenerFor();

// Blocks on the disk; errors are the opener's.
absl::StatusOr<JobData> OpenJobData(const Job& job, const DatasetOpener& open,
                                    const DataAccess& access);

// The test set alone. Reads the training set only where the job standardises.
// The job has a test set, of which `unlabelled` says that nobody knows labels.
absl::StatusOr<std::shared_ptr<const DataSource>> OpenTestData(const Job& job,
                                                               const DatasetOpener& open,
                                                               const DataAccess& access,
                                                               bool unlabelled = false);

}  // namespace monsoon
