#include "coordinator/session/replica_totals.h"

#include "coordinator/state/add_figures.h"

namespace monsoon {
namespace {

class Mean {
 public:
  void Add(double value) {
    sum_ += value;
    ++count_;
  }
  std::optional<double> value() const {
    return count_ > 0 ? std::optional<double>(sum_ / count_) : std::nullopt;
  }

 private:
  double sum_ = 0;
  int count_ = 0;
};

}  // namespace

void ReplicaTotals::Record(uint32_t worker, uint64_t incarnation, const ReplicaStats& stats) {
  ReplicaStats& known = sessions_[{worker, incarnation}];
  if (AllTotals(stats) < AllTotals(known)) {
    return;
  }
  steps_ += stats.steps() - known.steps();
  examples_ += stats.examples() - known.examples();
  known = stats;
}

ReplicaStats ReplicaTotals::Sum() const {
  ReplicaStats sum;
  for (const auto& [key, stats] : sessions_) {
    AddFigures(stats, &sum);
  }
  return sum;
}

ReplicaStats ReplicaTotals::SumOf(uint32_t worker) const {
  ReplicaStats sum;
  for (auto it = sessions_.lower_bound({worker, 0});
       it != sessions_.end() && it->first.first == worker; ++it) {
    AddFigures(it->second, &sum);
  }
  return sum;
}

ReplicaStats ReplicaTotals::Of(uint32_t worker, uint64_t incarnation) const {
  const auto found = sessions_.find({worker, incarnation});
  return found == sessions_.end() ? ReplicaStats() : found->second;
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
    Mean loss;
    Mean accuracy;
    bool any = false;
    for (const auto& [worker, stats] : newest) {
      if (only_these && !workers.contains(worker)) {
        continue;
      }
      any = true;
      if (stats->has_loss()) {
        loss.Add(stats->loss());
      }
      if (stats->has_accuracy()) {
        accuracy.Add(stats->accuracy());
      }
    }
    if (any) {
      return Recent{loss.value(), accuracy.value()};
    }
  }
  return std::nullopt;
}

}  // namespace monsoon
