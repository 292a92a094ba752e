#include "ps_server/shard/slice_figures.h"

#include <utility>

namespace monsoon {

void SliceFigures::CountVerdict(Verdict verdict) {
  switch (verdict) {
    case APPLIED:
      ++applied_;
      break;
    case DUPLICATE:
      ++duplicates_;
      break;
    default:
      ++refused_;
      break;
  }
}

void SliceFigures::AddReader(std::shared_ptr<const ReadCounts> counts) {
  MutexLock lock(&readers_mutex_);
  FoldReaders();
  readers_.push_back(std::move(counts));
}

void SliceFigures::FoldReaders() const {
  std::erase_if(readers_, [this](const std::shared_ptr<const ReadCounts>& reader) {
    if (reader.use_count() > 1) {
      return false;
    }
    fetched_stripes_ += reader->stripes.load();
    bytes_fetched_ += reader->bytes.load();
    return true;
  });
}

void SliceFigures::AddTo(ShardJobStatus* status) const {
  for (const auto& [staleness, count] : staleness_.known()) {
    (*status->mutable_staleness())[staleness] = count;
  }
  status->set_staleness_unknown(staleness_.unknown());
  status->set_applied(applied_.load());
  status->set_duplicates(duplicates_.load());
  status->set_refused(refused_.load());
  {
    MutexLock lock(&readers_mutex_);
    // First, so that a reader which is gone counts once: in the sums, and not in the list.
    FoldReaders();
    uint64_t fetched = fetched_stripes_.load(), bytes = bytes_fetched_.load();
    for (const auto& reader : readers_) {
      fetched += reader->stripes.load();
      bytes += reader->bytes.load();
    }
    status->set_fetched_stripes(fetched);
    status->set_bytes_fetched(bytes);
  }
  status->set_bytes_pushed(bytes_pushed_.load());
}

void SliceFigures::AddTo(ShardCheckpoint* cut) const {
  cut->set_applied(applied_.load());
  cut->set_duplicates(duplicates_.load());
  cut->set_refused(refused_.load());
  for (const auto& [staleness, count] : staleness_.known()) {
    StalenessCount* const counted = cut->add_staleness();
    counted->set_staleness(staleness);
    counted->set_count(count);
  }
  cut->set_staleness_unknown(staleness_.unknown());
}

void SliceFigures::Restore(const ShardCheckpoint& content) {
  applied_ = content.applied();
  duplicates_ = content.duplicates();
  refused_ = content.refused();
  for (const StalenessCount& counted : content.staleness()) {
    staleness_.AddMany(counted.staleness(), counted.count());
  }
  staleness_.AddUnknown(content.staleness_unknown());
}

}  // namespace monsoon
