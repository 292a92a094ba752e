#include "coordinator/job/test_schedule.h"

#include <cmath>

namespace monsoon {
namespace {

void ForgetGeneration(TestSchedulePosition* position) {
  position->clear_generation();
  position->clear_generation_is_held();
}

// Progress is a quotient of whole numbers; a mark such as 0.3 is not exact.
constexpr double kRounding = 1e-9;

}  // namespace

uint64_t TestSchedule::MarksAt(double epochs) const {
  return every_epochs_ <= 0 ? 0
                            : static_cast<uint64_t>(std::floor(epochs / every_epochs_ + kRounding));
}

void TestSchedule::PassOver(double epochs) {
  const uint64_t marks = MarksAt(epochs);
  if (marks > position().marks_passed()) {
    Update([&](TestSchedulePosition* next) { next->set_marks_passed(marks); });
  }
}

void TestSchedule::NoteProgress(double epochs) {
  const uint64_t marks = MarksAt(epochs);
  if (!position().final_requested() && marks > position().marks_passed()) {
    Update([&](TestSchedulePosition* next) {
      next->set_marks_passed(marks);
      next->set_due(true);
    });
  }
}

std::optional<double> TestSchedule::NextMark() const {
  return every_epochs_ <= 0
             ? std::nullopt
             : std::optional(static_cast<double>(position().marks_passed() + 1) * every_epochs_);
}

void TestSchedule::DropDue() {
  if (!position().final_requested() && position().due()) {
    Update([](TestSchedulePosition* next) { next->set_due(false); });
  }
}

void TestSchedule::RequestFinal() {
  if (!position().final_requested()) {
    Update([](TestSchedulePosition* next) {
      next->set_final_requested(true);
      next->set_due(true);
      if (!next->has_assigned()) {
        ForgetGeneration(next);  // it was cut before the end
      }
    });
  }
}

std::optional<uint64_t> TestSchedule::Assign(uint32_t worker, const std::set<uint32_t>& live) {
  if (position().has_assigned()) {
    return assigned_worker() == worker ? assigned_id() : std::nullopt;
  }
  if (!position().due() || live.empty()) {
    return std::nullopt;
  }
  if (over_generations() && !position().generation_is_held()) {
    return std::nullopt;
  }
  auto turn =
      position().has_last_worker() ? live.upper_bound(position().last_worker()) : live.begin();
  if (turn == live.end()) {
    turn = live.begin();
  }
  if (*turn != worker) {
    return std::nullopt;
  }
  Update([&](TestSchedulePosition* next) {
    next->set_due(false);
    next->set_last_id(next->last_id() + 1);
    next->mutable_assigned()->set_id(next->last_id());
    next->mutable_assigned()->set_worker(worker);
    next->mutable_assigned()->set_final(next->final_requested());
    next->set_last_worker(worker);
  });
  return assigned_id();
}

std::optional<uint64_t> TestSchedule::assigned_id() const {
  return position().has_assigned() ? std::optional<uint64_t>(position().assigned().id())
                                   : std::nullopt;
}

std::optional<uint32_t> TestSchedule::assigned_worker() const {
  return position().has_assigned() ? std::optional<uint32_t>(position().assigned().worker())
                                   : std::nullopt;
}

bool TestSchedule::assigned_final() const {
  return position().final_requested() && position().assigned().final();
}

bool TestSchedule::Complete(uint32_t worker, uint64_t id) {
  if (assigned_id() != id || assigned_worker() != worker) {
    return false;
  }
  Update([](TestSchedulePosition* next) {
    next->set_final_done(next->final_done() || next->assigned().final());
    next->clear_assigned();
    ForgetGeneration(next);
  });
  return true;
}

bool TestSchedule::WantsGeneration() const {
  return over_generations() && position().due() && !position().has_assigned() &&
         position().generation() == 0;
}

void TestSchedule::UseGeneration(uint64_t generation) {
  Update([&](TestSchedulePosition* next) {
    next->set_generation(generation);
    next->set_generation_is_held(false);
  });
}

void TestSchedule::NoteHeld(uint64_t generation) {
  if (position().generation() == 0 || position().generation_is_held() ||
      generation < position().generation()) {
    return;
  }
  Update([&](TestSchedulePosition* next) {
    if (generation == next->generation()) {
      next->set_generation_is_held(true);
    } else {
      ForgetGeneration(next);  // it was given up
    }
  });
}

void TestSchedule::LoseGeneration(uint32_t worker) {
  if (assigned_worker() == worker && position().generation() != 0) {
    Remove(worker);
    Update(ForgetGeneration);
  }
}

void TestSchedule::Remove(uint32_t worker) {
  if (assigned_worker() == worker) {
    Update([](TestSchedulePosition* next) {
      next->clear_assigned();
      next->set_due(true);
    });
  }
}

}  // namespace monsoon
