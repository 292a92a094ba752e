#include "worker/class_names.h"

#include <utility>

#include "common/base/status.h"
#include "common/data/access/data_access.h"
#include "common/data/data_context.h"
#include "common/data/dataset_info.h"

namespace monsoon {
namespace {

// Of these sources alone.
bool TellsNames(const Dataset& data) { return data.has_csv() || data.has_image_folder(); }

}  // namespace

absl::StatusOr<std::vector<std::string>> ClassNamesOf(const Job& job) {
  for (const Dataset* const set : {&job.test(), &job.train()}) {
    if (set->class_name_size() > 0) {
      return std::vector<std::string>(set->class_name().begin(), set->class_name().end());
    }
  }
  DatasetInfo info;
  if (TellsNames(job.train())) {
    ASSIGN_OR_RETURN(info, DescribeDataset(job.train(), TrainingContext(job, DataAccess::Own())));
  } else if (TellsNames(job.test())) {
    ASSIGN_OR_RETURN(info, DescribeDataset(job.test(), TestContext(job, DataAccess::Own())));
  }
  return std::move(info.class_names);
}

}  // namespace monsoon
