#include "coordinator/state/add_figures.h"

namespace monsoon {

void AddFigures(const ReplicaStats& stats, ReplicaStats* sum) {
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
  sum->set_replicas(stats.replicas());
  sum->set_waits_for(stats.waits_for());
  if (stats.has_loss()) {
    sum->set_loss(stats.loss());
  }
  if (stats.has_accuracy()) {
    sum->set_accuracy(stats.accuracy());
  }
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

}  // namespace monsoon
