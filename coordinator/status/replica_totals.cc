#include "coordinator/status/replica_totals.h"

namespace monsoon {
namespace {

// Grows with everything a session does.
uint64_t Progress(const ReplicaStats& stats) {
  return stats.steps() + stats.examples() + stats.fetches() + stats.pushes() + stats.rpcs() +
         stats.evaluation_fetches() + stats.replayed();
}

void AddTo(ReplicaStats* sum, const ReplicaStats& stats) {
  sum->set_steps(sum->steps() + stats.steps());
  sum->set_examples(sum->examples() + stats.examples());
  sum->set_fetches(sum->fetches() + stats.fetches());
  sum->set_pushes(sum->pushes() + stats.pushes());
  sum->set_rpcs(sum->rpcs() + stats.rpcs());
  sum->set_retries(sum->retries() + stats.retries());
  sum->set_duplicates(sum->duplicates() + stats.duplicates());
  sum->set_refused(sum->refused() + stats.refused());
  sum->set_bytes_fetched(sum->bytes_fetched() + stats.bytes_fetched());
  sum->set_bytes_pushed(sum->bytes_pushed() + stats.bytes_pushed());
  sum->set_evaluation_fetches(sum->evaluation_fetches() + stats.evaluation_fetches());
  sum->set_replayed(sum->replayed() + stats.replayed());
  sum->set_away_steps(sum->away_steps() + stats.away_steps());
  sum->set_replicas(stats.replicas());    // of the newest session, which comes last
  sum->set_waits_for(stats.waits_for());  // likewise
  sum->set_replicas_lost(sum->replicas_lost() + stats.replicas_lost());
  sum->set_staleness_unknown(sum->staleness_unknown() + stats.staleness_unknown());
  const auto add = [](auto* into, const auto& from) {
    for (const auto& [key, count] : from) {
      (*into)[key] += count;
    }
  };
  add(sum->mutable_staleness(), stats.staleness());
  add(sum->mutable_fetch_width(), stats.fetch_width());
  add(sum->mutable_fetch_latency(), stats.fetch_latency());
  add(sum->mutable_push_latency(), stats.push_latency());
  add(sum->mutable_step_latency(), stats.step_latency());
}

}  // namespace

void ReplicaTotals::Record(uint32_t worker, uint64_t incarnation, const ReplicaStats& stats) {
  ReplicaStats& known = sessions_[{worker, incarnation}];
  if (Progress(stats) < Progress(known)) {
    return;
  }
  steps_ += stats.steps() - known.steps();
  examples_ += stats.examples() - known.examples();
  known = stats;
}

ReplicaStats ReplicaTotals::Sum() const {
  ReplicaStats sum;
  for (const auto& [key, stats] : sessions_) {
    AddTo(&sum, stats);
  }
  return sum;
}

ReplicaStats ReplicaTotals::SumOf(uint32_t worker) const {
  ReplicaStats sum;
  for (auto it = sessions_.lower_bound({worker, 0});
       it != sessions_.end() && it->first.first == worker; ++it) {
    AddTo(&sum, it->second);
  }
  return sum;
}

std::set<uint32_t> ReplicaTotals::workers() const {
  std::set<uint32_t> workers;
  for (const auto& [key, stats] : sessions_) {
    workers.insert(key.first);
  }
  return workers;
}

std::optional<ReplicaTotals::Recent> ReplicaTotals::RecentOf(
    const std::set<uint32_t>& workers) const {
  std::map<uint32_t, const ReplicaStats*> newest;  // Incarnations come in order.
  for (const auto& [key, stats] : sessions_) {
    if (stats.steps() > 0) {
      newest[key.first] = &stats;
    }
  }
  for (const bool only_these : {true, false}) {
    Recent mean;
    int count = 0;
    for (const auto& [worker, stats] : newest) {
      if (!only_these || workers.contains(worker)) {
        mean.loss += stats->loss();
        mean.accuracy += stats->accuracy();
        ++count;
      }
    }
    if (count > 0) {
      return Recent{mean.loss / count, mean.accuracy / count};
    }
  }
  return std::nullopt;
}

}  // namespace monsoon
