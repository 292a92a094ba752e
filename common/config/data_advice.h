// What is right about a job's data, and mostly not what somebody meant.
#pragma once

#include <optional>

#include "common/config/reporter.h"
#include "common/data/dataset_info.h"
#include "proto/job.pb.h"

namespace monsoon {

// Of the sets whose files were looked at.
struct CheckedData {
  std::optional<DatasetInfo> train;
  std::optional<DatasetInfo> test;
};

// Tells `reporter`: values that are not scaled, an index taken for a feature, a class that is no
// number among numbers, a test set that is made into values otherwise than the training set.
void AdviseData(const Job& job, const CheckedData& data, Reporter* reporter);

// Reads the first samples of the training set, and tells `reporter` of features that differ in
// scale or lie far from 0 where the job does not standardise them.
void AdviseFeatures(const Job& job, const CheckedData& data, const DataAccess& access,
                    Reporter* reporter);

}  // namespace monsoon
