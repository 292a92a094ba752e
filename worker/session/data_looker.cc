#include "worker/session/data_looker.h"

#include <utility>

namespace monsoon {

DataLooker::DataLooker(std::function<DataReport(const Job&)> look, std::function<void()> on_answer)
    : look_(std::move(look)), on_answer_(std::move(on_answer)) {}

DataLooker::~DataLooker() {
  Thread last;
  {
    MutexLock lock(&mutex_);
    last = std::move(thread_);
  }
  if (last.joinable()) {
    last.Join();
  }
}

void DataLooker::Ask(const DataQuestion& question, uint64_t term) {
  if (!look_) {
    return;
  }
  Thread before;
  {
    MutexLock lock(&mutex_);
    const bool answered =
        report_ && report_->number() == question.number() && report_->term() == term;
    if (looks_ || answered) {
      return;
    }
    looks_ = true;
    before = std::move(thread_);
    thread_ = Thread([this, question, term] { Look(question, term); });
  }
  if (before.joinable()) {
    before.Join();  // It has answered.
  }
}

void DataLooker::Look(const DataQuestion& question, uint64_t term) {
  DataReport report = look_(question.job());
  report.set_number(question.number());
  report.set_term(term);
  {
    MutexLock lock(&mutex_);
    report_ = std::move(report);
    looks_ = false;
  }
  on_answer_();
}

std::optional<DataReport> DataLooker::report() const {
  MutexLock lock(&mutex_);
  return report_;
}

}  // namespace monsoon
