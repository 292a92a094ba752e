// DownpourRunner: rows of tables.

#include "worker/downpour/downpour_runner.h"

namespace monsoon {

absl::Status DownpourRunner::FetchRows(std::span<const RowRequest> wanted) {
  while (true) {
    FetchStats fetch;
    const absl::Status status = client_->FetchRows(wanted, &fetch);
    if (status.ok()) {
      stats_->AddRows(fetch);
      return status;
    }
    if (!MayRetry(status)) {
      return status;
    }
    if (stopped()) {
      return absl::CancelledError("session ends while rows are fetched");
    }
    PauseBeforeRetry("rows", status, client_->away().has_value());
  }
}

void DownpourRunner::AddRows(const RowSums& rows) { step_rows_.Add(rows); }

void DownpourRunner::TakeStepRows() {
  if (step_rows_.empty()) {
    return;
  }
  if (!group_->dropped(0)) {
    if (rows_ == nullptr) {
      rows_ = std::make_shared<RowSums>();
    }
    rows_->Add(step_rows_);
  }
  step_rows_.Clear();
}

}  // namespace monsoon
