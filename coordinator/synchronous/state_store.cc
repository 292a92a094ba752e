#include "coordinator/synchronous/state_store.h"

namespace monsoon {
namespace {

constexpr absl::Duration kRetry = absl::Seconds(1);

}  // namespace

std::string StateStore::Take(const SynchronousReport& report, absl::Duration now) {
  std::string error;
  if (!report.write_error().empty() && ordered_) {
    error = report.write_error();
    ordered_ = false;
    not_before_ = now + kRetry;
  }
  if (report.written() != state().writes() || report.written() <= state().written() ||
      report.written_at().batches() > state().done().batches()) {
    return error;
  }
  writer_.Make([&](StateUpdate* update) {
    update->set_procedure(SYNCHRONOUS);
    update->mutable_state_written()->set_number(report.written());
    *update->mutable_state_written()->mutable_at() = report.written_at();
  });
  whole_ = false;  // until all shards have adopted it
  lost_ = false;
  ordered_ = false;
  due_ = now + every_;
  return error;
}

bool StateStore::Wants(absl::Duration now) const {
  // What a generation is made of must not change under it.
  if (ordered_ || writer_.job().checkpoint().ordered() != 0 || now < not_before_) {
    return false;
  }
  return lost_ || (whole_ && !has_all() && (urgent_ || now >= due_));
}

uint64_t StateStore::Order() {
  const uint64_t number = state().writes() + 1;
  writer_.Make([&](StateUpdate* update) {
    update->set_procedure(SYNCHRONOUS);
    update->mutable_write_begun()->set_number(number);
  });
  ordered_ = true;
  return number;
}

bool StateStore::has_all() const {
  const SynchronousPosition& stored =
      state().written() > 0 ? state().written_at() : state().resumed();
  // Before any write the resumed job's shards know better how many updates there were.
  return whole_ && stored.batches() == state().done().batches();
}

std::optional<SynchronousPosition> StateStore::from() const {
  if (!whole_) {
    return std::nullopt;
  }
  return state().written() > 0 ? state().written_at() : state().resumed();
}

std::string StateStore::waits_for() const {
  if (whole_ || !nobody_has_) {
    return "";
  }
  return "waits for shards that store one state: no worker has it any more, and some shard has "
         "another than the others; if one is not to come back, cancel the job and go on from its "
         "newest generation (submit --resume)";
}

}  // namespace monsoon
