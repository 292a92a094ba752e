#include "coordinator/procedure/evaluation_schedule.h"

#include <cmath>

namespace monsoon {
namespace {

// Progress is a quotient of whole numbers; a mark such as 0.3 is not exact.
constexpr double kRounding = 1e-9;

}  // namespace

void EvaluationSchedule::NoteProgress(double epochs) {
  if (every_epochs_ <= 0 || final_requested_) {
    return;
  }
  const auto marks = static_cast<uint64_t>(std::floor(epochs / every_epochs_ + kRounding));
  if (marks > marks_passed_) {
    marks_passed_ = marks;
    due_ = true;
  }
}

void EvaluationSchedule::DropDue() {
  if (!final_requested_) {
    due_ = false;
  }
}

void EvaluationSchedule::RequestFinal() {
  if (!final_requested_) {
    final_requested_ = true;
    due_ = true;
  }
}

std::optional<uint64_t> EvaluationSchedule::Assign(uint32_t worker,
                                                   const std::set<uint32_t>& live) {
  if (assigned_) {
    return assigned_->worker == worker ? std::optional<uint64_t>(assigned_->id) : std::nullopt;
  }
  if (!due_ || live.empty()) {
    return std::nullopt;
  }
  auto turn = last_worker_ ? live.upper_bound(*last_worker_) : live.begin();
  if (turn == live.end()) {
    turn = live.begin();
  }
  if (*turn != worker) {
    return std::nullopt;
  }
  due_ = false;
  assigned_ = Assignment{next_id_++, worker, final_requested_};
  last_worker_ = worker;
  return assigned_->id;
}

std::optional<uint64_t> EvaluationSchedule::assigned_id() const {
  return assigned_ ? std::optional<uint64_t>(assigned_->id) : std::nullopt;
}

std::optional<uint32_t> EvaluationSchedule::assigned_worker() const {
  return assigned_ ? std::optional<uint32_t>(assigned_->worker) : std::nullopt;
}

bool EvaluationSchedule::Complete(uint32_t worker, uint64_t id) {
  if (!assigned_ || assigned_->id != id || assigned_->worker != worker) {
    return false;
  }
  final_done_ |= assigned_->final;
  assigned_.reset();
  return true;
}

void EvaluationSchedule::Remove(uint32_t worker) {
  if (assigned_ && assigned_->worker == worker) {
    assigned_.reset();
    due_ = true;
  }
}

}  // namespace monsoon
