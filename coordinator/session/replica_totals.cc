#include "coordinator/session/replica_totals.h"

#include <algorithm>

#include "common/base/peer_text.h"
#include "coordinator/state/add_figures.h"

namespace monsoon {
namespace {

// A session's means are over about its last so many steps (StatsCollector); one that has made
// fewer goes on with what the worker's session before it told.
constexpr double kMeanSteps = 50.0;

// A figure of one worker, through its sessions.
class Continued {
 public:
  void Take(uint64_t steps, double value) {
    const double weight = value_ ? std::min(1.0, static_cast<double>(steps) / kMeanSteps) : 1.0;
    value_ = weight * value + (1.0 - weight) * value_.value_or(0.0);
  }
  const std::optional<double>& value() const { return value_; }

 private:
  std::optional<double> value_;
};

struct WorkerFigures {
  Continued loss;
  Continued accuracy;
};

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
  if (!known.waits_for().empty()) {
    known.set_waits_for(PeerText(known.waits_for(), kMostPeerText));
  }
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
  std::map<uint32_t, WorkerFigures> known;
  for (const auto& [key, stats] : sessions_) {  // incarnations come in order
    if (stats.steps() == 0) {
      continue;
    }
    WorkerFigures& figures = known[key.first];
    if (stats.has_loss()) {
      figures.loss.Take(stats.steps(), stats.loss());
    }
    if (stats.has_accuracy()) {
      figures.accuracy.Take(stats.steps(), stats.accuracy());
    }
  }
  for (const bool only_these : {true, false}) {
    Mean loss;
    Mean accuracy;
    bool any = false;
    for (const auto& [worker, figures] : known) {
      if (only_these && !workers.contains(worker)) {
        continue;
      }
      any = true;
      if (figures.loss.value()) {
        loss.Add(*figures.loss.value());
      }
      if (figures.accuracy.value()) {
        accuracy.Add(*figures.accuracy.value());
      }
    }
    if (any) {
      return Recent{loss.value(), accuracy.value()};
    }
  }
  return std::nullopt;
}

}  // namespace monsoon
