#include "coordinator/procedure/test_evaluations.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "coordinator/procedure/replica_set.h"

namespace monsoon {

void TestEvaluations::RequestFinal() {
  if (has_test_) {
    schedule_.RequestFinal();
  }
}

std::optional<uint64_t> TestEvaluations::Assign(uint32_t worker, const std::set<uint32_t>& live) {
  return schedule_.Assign(worker, live);
}

void TestEvaluations::GivenOut(EvaluationRecord when) {
  CHECK(schedule_.assigned_id());
  if (given_out_id_ == *schedule_.assigned_id()) {
    return;
  }
  given_out_id_ = *schedule_.assigned_id();
  given_out_ = when;
  given_out_.final = ends_job_ && schedule_.assigned_final();
}

absl::StatusOr<const EvaluationRecord*> TestEvaluations::Report(
    uint32_t worker, const ReportEvaluationRequest& request) {
  if (request.examples() == 0 || request.correct() > request.examples()) {
    return absl::InvalidArgumentError(
        absl::StrCat("evaluation ", request.evaluation(), " of ", WorkerName(worker), " counts ",
                     request.correct(), " correct of ", request.examples()));
  }
  const auto assigned = schedule_.assigned_id();
  if (!schedule_.Complete(worker, request.evaluation())) {
    if (assigned == request.evaluation()) {
      return absl::FailedPreconditionError(absl::StrCat(
          "evaluation ", request.evaluation(), " is not ", WorkerName(worker), "'s any more"));
    }
    return nullptr;
  }
  EvaluationRecord record = given_out_;
  const auto examples = static_cast<double>(request.examples());
  record.loss = request.loss_sum() / examples;
  record.accuracy = static_cast<double>(request.correct()) / examples;
  records_.push_back(record);
  return &records_.back();
}

}  // namespace monsoon
