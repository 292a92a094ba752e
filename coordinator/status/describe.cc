#include "coordinator/status/describe.h"

#include <algorithm>
#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "common/metrics/latency_histogram.h"
#include "coordinator/job/outer_optimizer.h"
#include "coordinator/state/add_figures.h"

namespace monsoon {
namespace {

// The time left goes by at least so much of what has been.
constexpr absl::Duration kShortestForTimeLeft = absl::Minutes(1);

template <typename Map>
std::map<uint64_t, uint64_t> Ordered(const Map& map) {
  return std::map<uint64_t, uint64_t>(map.begin(), map.end());
}

template <typename Map>
LatencyHistogram Histogram(const Map& buckets) {
  LatencyHistogram histogram;
  for (const auto& [bucket, count] : buckets) {
    histogram.Merge(bucket, count);
  }
  return histogram;
}

// From the first replica to the last acknowledged block, or until now.
absl::Duration TrainingTime(const JobRecord& job, absl::Duration now) {
  const JobProcedure* const procedure = job.procedure();
  if (procedure == nullptr || !procedure->started()) {
    return absl::ZeroDuration();
  }
  return procedure->trained().value_or(job.ended().value_or(now)) - *job.started();
}

void FillProgress(const JobRecord& job, double percent, bool waits, absl::Duration now,
                  JobDescription::Progress* progress) {
  progress->set_percent(percent);
  const DownpourProgress resumed = job.resumed();
  progress->set_step(resumed.steps() + job.figures.totals.steps());
  progress->set_examples(resumed.examples_done() + job.figures.totals.examples());
  if (job.procedure() == nullptr) {
    progress->set_epochs(job.plan.job.stop().epochs());
    return;
  }
  const JobProcedure& procedure = *job.procedure();
  progress->set_epoch(procedure.epoch());
  progress->set_epochs(procedure.planned_epochs());
  const double training_s = absl::ToDoubleSeconds(TrainingTime(job, now));
  std::optional<double> rate;
  if (procedure.trained() || job.ended()) {
    if (training_s > 0) {
      rate = static_cast<double>(job.figures.totals.examples()) / training_s;
    }
  } else {
    rate = job.figures.rate.Rate(now);
  }
  if (rate) {
    progress->set_examples_per_s(*rate);
  }
  if (const auto recent = job.figures.totals.RecentOf(procedure.replicas())) {
    if (recent->loss) {
      progress->set_loss(*recent->loss);
    }
    if (recent->accuracy) {
      progress->set_train_accuracy(*recent->accuracy);
    }
  }
  if (!procedure.running() || job.stage() != JOB_ACTIVE) {
    return;
  }
  std::optional<double> eta;
  const std::optional<double> steady = job.figures.long_rate.SteadyRate(now, kShortestForTimeLeft);
  // While it waits, nobody knows how long for.
  const bool goes_on = !waits && steady && *steady > 0;
  if (const auto planned = procedure.planned_examples(); planned && goes_on) {
    const uint64_t done = std::min(*planned, procedure.examples_done());
    eta = static_cast<double>(*planned - done) / *steady;
  }
  if (const double seconds = job.plan.job.stop().seconds(); seconds > 0) {
    const double left = std::max(0.0, seconds - training_s);
    eta = eta ? std::min(*eta, left) : left;
  }
  if (eta) {
    progress->set_eta_s(*eta);
  }
}

void FillFigures(const ReplicaStats& sum, JobDescription* description) {
  ShowTotals(sum, description->mutable_counts());
  *description->mutable_staleness() = sum.staleness();
  *description->mutable_fetch_width() = sum.fetch_width();

  JobDescription::Latency* const latency = description->mutable_latency_ms();
  const LatencyHistogram fetch = Histogram(sum.fetch_latency());
  const LatencyHistogram push = Histogram(sum.push_latency());
  const LatencyHistogram step = Histogram(sum.step_latency());
  if (fetch.count() > 0) {
    latency->set_fetch_p50(*fetch.Quantile(0.5));
    latency->set_fetch_p99(*fetch.Quantile(0.99));
  }
  if (push.count() > 0) {
    latency->set_push_p50(*push.Quantile(0.5));
    latency->set_push_p99(*push.Quantile(0.99));
  }
  if (step.count() > 0) {
    latency->set_step_p50(*step.Quantile(0.5));
    latency->set_step_p99(*step.Quantile(0.99));
  }
}

void FillRecent(const JobFigures& figures, absl::Duration now, JobDescription* description) {
  const std::map<uint64_t, uint64_t> staleness = figures.recent_staleness.Sum(now);
  if (const std::optional<uint64_t> p50 = ValueQuantile(staleness, 0.5)) {
    description->set_recent_staleness_p50(*p50);
    description->set_recent_staleness_p99(*ValueQuantile(staleness, 0.99));
  }
  JobDescription::Latency* const latency = description->mutable_latency_ms();
  if (const std::optional<double> fetch = figures.recent_fetch.Median(now)) {
    latency->set_recent_fetch_p50(*fetch);
  }
  if (const std::optional<double> push = figures.recent_push.Median(now)) {
    latency->set_recent_push_p50(*push);
  }
}

std::string WorkerState(const JobRecord& job, const Member& member, uint32_t worker) {
  if (job.end_state() == SUCCEEDED && job.stage() >= JOB_ENDED) {
    return "DONE";
  }
  if (member.state == Member::State::kLeft) {
    return "LEFT";
  }
  if (member.state != Member::State::kUp) {
    return "LOST";
  }
  return job.stage() == JOB_ACTIVE ? job.procedure()->ReplicaState(worker) : "WAITING";
}

// What its process says of itself, and when it did.
void FillMember(const Member& member, absl::Duration now, JobDescription::Worker* worker) {
  worker->set_pid(member.pid);
  worker->set_host(member.host);
  worker->set_device(member.device);
  worker->set_threads(member.threads);
  worker->set_last_seen_ms(member.last_seen_ms);
  if (member.was_heard()) {
    worker->set_silent_s(absl::ToDoubleSeconds(now - member.last_seen));
  }
}

// Of all sessions of worker->task(), whose figures are `sum`, and of the last seconds.
void FillStaleness(const JobFigures& figures, const ReplicaStats& sum, absl::Duration now,
                   JobDescription::Worker* worker) {
  if (const auto p50 = ValueQuantile(Ordered(sum.staleness()), 0.5)) {
    worker->set_staleness_p50(*p50);
  }
  const auto recent = figures.worker_staleness.find(worker->task());
  if (recent == figures.worker_staleness.end()) {
    return;
  }
  if (const auto p50 = ValueQuantile(recent->second.Sum(now), 0.5)) {
    worker->set_recent_staleness_p50(*p50);
  }
}

void FillWorkers(const JobRecord& job, const Registry& registry, absl::Duration now,
                 JobDescription* description) {
  const Membership& membership = registry.membership;
  // A guest's number may be that of another job's program by now.
  const auto is_its_own = [&](uint32_t worker) {
    return job.joined() ? membership.HasEntered(worker, job.id(), job.state().term())
                        : membership.Entered(worker) == nullptr;
  };
  std::set<uint32_t> workers = job.figures.totals.workers();
  const uint32_t most = job.joined() ? membership.size() : job.plan.replicas;
  for (uint32_t worker = 0; worker < most && !job.ended_or_deleting(); ++worker) {
    if (membership.member(worker).state != Member::State::kNeverSeen && is_its_own(worker)) {
      workers.insert(worker);
    }
  }
  for (const uint32_t index : workers) {
    Member member;
    member.state = Member::State::kLeft;
    if (is_its_own(index)) {
      member = membership.member(index);
    }
    const ReplicaStats sum = job.figures.totals.SumOf(index);
    JobDescription::Worker* const worker = description->add_worker();
    worker->set_task(index);
    if (membership.listed(index)) {
      worker->set_address(registry.cluster.worker(static_cast<int>(index)).address());
    }
    FillMember(member, now, worker);
    worker->set_state(WorkerState(job, member, index));
    worker->set_replicas(sum.replicas());
    worker->set_replicas_lost(sum.replicas_lost());
    const auto settings = job.figures.worker_settings.find(index);
    if (settings != job.figures.worker_settings.end()) {
      worker->set_settings_revision(settings->second);
    }
    if (!job.ended_or_deleting()) {
      worker->set_waits_for(sum.waits_for());
      const uint32_t steps = job.figures.pace ? job.figures.pace->LocalSteps(index) : 0u;
      if (steps > 0) {
        worker->set_local_steps(steps);
      }
    }
    worker->set_steps(sum.steps());
    worker->set_examples(sum.examples());
    worker->set_fetches(sum.fetches());
    worker->set_pushes(sum.pushes());
    FillStaleness(job.figures, sum, now, worker);
    if (job.procedure() != nullptr) {
      worker->set_blocks_done(job.procedure()->work_done_by(index));
    }
    if (job.ended() || (job.procedure() != nullptr && job.procedure()->trained())) {
      const double seconds = absl::ToDoubleSeconds(TrainingTime(job, now));
      worker->set_examples_per_s(seconds > 0 ? static_cast<double>(sum.examples()) / seconds : 0);
    } else if (const auto rate = job.figures.worker_rate.find(index);
               rate != job.figures.worker_rate.end()) {
      worker->set_examples_per_s(rate->second.Rate(now).value_or(0));
    }
  }
}

void FillShards(const JobRecord& job, const Cluster& cluster, JobDescription* description) {
  for (uint32_t index = 0; index < job.figures.shard_status.size(); ++index) {
    if (!job.figures.shard_status[index]) {
      continue;
    }
    const ShardJobStatus& status = *job.figures.shard_status[index];
    JobDescription::Shard* const shard = description->add_shard();
    shard->set_task(index);
    shard->set_pid(job.figures.shard_pid[index]);
    // The cluster file may have had more of them.
    if (index < static_cast<uint32_t>(cluster.ps_size())) {
      shard->set_address(cluster.ps(static_cast<int>(index)).address());
    }
    shard->set_begin(status.begin());
    shard->set_end(status.end());
    shard->set_stripes(status.stripes());
    shard->set_stripe_bytes(status.stripe_bytes());
    shard->set_version_min(status.version_min());
    shard->set_version_max(status.version_max());
    // A push has one record for each stripe.
    shard->set_pushes(status.stripes() > 0 ? status.applied() / status.stripes() : 0);
    shard->set_duplicates(status.duplicates());
    shard->set_epoch(job.state().shard_epoch(static_cast<int>(index)));
    shard->set_rss_bytes(job.figures.shard_rss[index]);
    shard->set_table_rows(status.table_rows());
    shard->set_table_stripes(status.table_stripes());
    shard->set_touched_table_stripes(status.touched_table_stripes());
    shard->set_rows_applied(status.rows_applied());
    shard->set_rows_fetched(status.rows_fetched());
    shard->set_settings_revision(status.settings_revision());
    shard->set_settings_from(status.settings_from());
  }
  if (job.figures.skew_now) {
    description->set_shard_skew_now(*job.figures.skew_now);
    description->set_shard_skew_max(*job.figures.skew_max);
  }
}

const char* ModeName(const Job& job) {
  if (job.has_downpour() && job.has_sandblaster()) {
    return "downpour+sandblaster";
  }
  if (job.has_synchronous()) {
    return "synchronous";
  }
  return job.has_sandblaster() ? "sandblaster" : "downpour";
}

void FillTestResults(const JobProcedure& procedure, JobDescription* description) {
  for (const TestResult& record : procedure.test_results()) {
    JobDescription::EvaluationResult* const result = description->add_evaluation();
    result->set_step(record.step);
    result->set_epoch(record.epoch);
    result->set_elapsed_s(absl::ToDoubleSeconds(record.at));
    result->set_generation(record.generation);
    for (const auto& [name, value] : record.metrics) {
      result->add_metric()->set_name(name);
      result->mutable_metric()->rbegin()->set_value(value);
    }
    if (record.has_loss()) {
      result->set_test_loss(record.loss);
      if (record.final) {
        description->set_final_loss(record.loss);
      }
    }
    if (record.has_accuracy()) {
      result->set_test_accuracy(record.accuracy);
      if (record.final) {
        description->set_final_test_accuracy(record.accuracy);
      }
    }
  }
}

// Of all shards and workers: which of them the job needs, or will, is not known here.
void FillTroubles(const Registry& registry, JobDescription* description) {
  const auto add = [&](const std::string& task, const std::string& text) {
    if (!text.empty()) {
      JobDescription::Trouble* const trouble = description->add_trouble();
      trouble->set_task(task);
      trouble->set_text(text);
    }
  };
  for (uint32_t i = 0; i < registry.shards.size(); ++i) {
    add(absl::StrCat("ps/", i), registry.shards.shard(i).trouble());
  }
  for (uint32_t i = 0; i < registry.membership.size(); ++i) {
    add(absl::StrCat("worker/", i), registry.membership.member(i).trouble());
  }
}

}  // namespace

JobDescription DescribeJob(const JobRecord& job, const JobSummary& summary,
                           const Registry& registry, absl::Duration now) {
  JobDescription description;
  *description.mutable_summary() = summary;
  description.set_seed(job.plan.job.seed());
  description.set_model_name(job.plan.job.model().name());
  description.set_parameters(job.plan.parameters);
  description.set_layout_hash(job.plan.layout_hash);
  for (const Table& table : job.plan.job.model().table()) {
    JobDescription::Table* const described = description.add_table();
    described->set_name(table.name());
    described->set_rows(table.rows());
    described->set_columns(table.columns());
  }
  if (job.state().has_settings() && job.started()) {
    const JobSettings& settings = job.state().settings();
    JobDescription::Settings* const described = description.mutable_settings();
    described->set_revision(job.plan.settings_revision);
    described->set_elapsed_s(absl::ToDoubleSeconds(FromNanos(settings.at_ns()) - *job.started()));
    if (settings.has_from_round()) {
      described->set_from_round(settings.from_round());
    }
  }
  FillProgress(job, summary.percent(), !summary.reason().empty(), now,
               description.mutable_progress());
  FillFigures(job.figures.totals.Sum(), &description);
  FillRecent(job.figures, now, &description);
  description.mutable_counts()->set_restores(job.state().restores());
  FillWorkers(job, registry, now, &description);
  FillShards(job, registry.cluster, &description);
  JobDescription::Data* const data = description.mutable_data();
  // Of samples without numbers nobody knows how many there are.
  data->set_examples(job.plan.job.train().joiners().unnumbered() ? 0 : job.plan.examples);
  // In a chain the figures of both.
  for (const auto& procedure : job.procedures()) {
    procedure->Describe(&description);
    FillTestResults(*procedure, &description);
  }
  description.set_mode(ModeName(job.plan.job));
  description.set_outer_optimizer(OuterOptimizerText(job.plan.job, job.plan.sharers));
  *description.mutable_event() = job.state().event();
  if (!job.ended_or_deleting()) {
    FillTroubles(registry, &description);
  }
  return description;
}

}  // namespace monsoon
