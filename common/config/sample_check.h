// Whether the samples of a job's data are such as its model reads and its loss judges.
#pragma once

#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "common/config/reporter.h"
#include "common/data/dataset_info.h"
#include "common/model/parameter_layout.h"
#include "proto/dataset.pb.h"
#include "proto/job.pb.h"

namespace monsoon {

// Of one job, which must outlive it, as the layout and the reporter. Errors go to the reporter.
class SampleCheck {
 public:
  SampleCheck(const Job& job, const ParameterLayout& layout, Reporter* reporter)
      : job_(job), layout_(layout), reporter_(reporter) {}

  // Whether the samples have the model's input_shape, in its order. `samples` is the field that
  // names the files.
  bool CheckShape(const std::string& samples, const Dataset& data, const DatasetInfo& info) const;

  // What an embedding reads must come as whole numbers. `set` is "train" or "test".
  void CheckIds(const std::string& set, const std::string& samples, const Dataset& data,
                const DatasetInfo& info) const;

  // Labels or targets, as the model's loss and outputs want them. `field` names them;
  // `count_classes` reads them, and is called where it matters.
  void CheckAnswers(const std::string& field, const DatasetInfo& info,
                    absl::FunctionRef<absl::StatusOr<uint64_t>()> count_classes) const;

 private:
  void Error(const std::string& field, const std::string& message,
             const std::string& suggestion = "") const {
    reporter_->Error(field, message, suggestion);
  }
  void CheckTargets(const std::string& field, const DatasetInfo& info, uint64_t wanted) const;

  const Job& job_;
  const ParameterLayout& layout_;
  Reporter* const reporter_;
};

}  // namespace monsoon
