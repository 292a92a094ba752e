#include "coordinator/cli/describe_text.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "common/metrics/latency_histogram.h"

namespace monsoon {
namespace {

// The last events shown; --json has all.
constexpr int kShownEvents = 10;

std::string DecimalOr(bool measured, double value, int digits) {
  return measured ? absl::StrFormat("%.*f", digits, value) : "-";
}

std::string CountOr(const std::optional<uint64_t>& value) {
  return value.has_value() ? absl::StrCat(*value) : "-";
}

template <typename Map>
std::string QuantileOf(const Map& counts, double q) {
  return CountOr(ValueQuantile(std::map<uint64_t, uint64_t>(counts.begin(), counts.end()), q));
}

void AppendRow(std::string* text, absl::string_view name, absl::string_view value) {
  absl::StrAppendFormat(text, "%-12s %s\n", name, value);
}

// What an evaluation found.
std::string FiguresOf(const JobDescription::EvaluationResult& result) {
  if (result.metric().empty()) {
    return absl::StrFormat("test accuracy %.4f, loss %.4f", result.test_accuracy(),
                           result.test_loss());
  }
  // Of a network: these two first.
  const bool both = result.metric_size() > 1 && result.metric(0).name() == "accuracy" &&
                    result.metric(1).name() == "loss";
  std::string text = both ? absl::StrFormat("test accuracy %.4f, loss %.4f", result.test_accuracy(),
                                            result.test_loss())
                          : "";
  for (int i = both ? 2 : 0; i < result.metric_size(); ++i) {
    absl::StrAppendFormat(&text, "%s%s %.6g", text.empty() ? "" : ", ", result.metric(i).name(),
                          result.metric(i).value());
  }
  return text;
}

// The first streams shown; --json has all.
constexpr int kShownStreams = 8;

// How far programs have read.
// How far it was read.
std::string PlaceInStream(const JobDescription::Stream& stream) {
  if (stream.has_read_by()) {
    return absl::StrCat("read to push ", stream.push(), " of worker/", stream.read_by());
  }
  return stream.state_bytes() > 0 ? "as the job before had it" : "not read";
}

void AppendStreams(const JobDescription::Data& data, std::string* text) {
  for (int i = 0; i < std::min(data.stream_size(), kShownStreams); ++i) {
    const JobDescription::Stream& stream = data.stream(i);
    std::string row = absl::StrCat(stream.name(), ": ", PlaceInStream(stream));
    if (stream.has_taken_by()) {
      absl::StrAppend(&row, ", by worker/", stream.taken_by(), " now");
    }
    if (stream.read_again() > 0) {
      absl::StrAppend(&row, "; what ", stream.read_again(), " pushes had read was read again");
    }
    AppendRow(text, i == 0 ? "streams" : "", row);
  }
  if (data.stream_size() > kShownStreams) {
    AppendRow(text, "", absl::StrCat("and ", data.stream_size() - kShownStreams, " more"));
  }
}

// What the shards tell of rows of tables.
void AppendTables(const JobDescription& job, std::string* text) {
  uint64_t stripes = 0, touched = 0, applied = 0, fetched = 0;
  for (const JobDescription::Shard& shard : job.shard()) {
    stripes += shard.table_stripes();
    touched += shard.touched_table_stripes();
    applied += shard.rows_applied();
    fetched += shard.rows_fetched();
  }
  for (const JobDescription::Table& table : job.table()) {
    AppendRow(text, "table",
              absl::StrCat(table.name(), ", ", table.rows(), " rows of ", table.columns()));
  }
  if (!job.table().empty()) {
    AppendRow(text, "rows",
              absl::StrCat(touched, " of ", stripes, " stripes touched, ", applied,
                           " rows applied, ", fetched, " fetched"));
  }
}

void AppendProgress(const JobDescription& job, std::string* text) {
  const JobDescription::Progress& progress = job.progress();
  const std::string epochs =
      progress.epochs() > 0 ? absl::StrFormat(" of %g", progress.epochs()) : "";
  AppendRow(text, "progress",
            absl::StrFormat("%.1f %%, epoch %.2f%s, step %d, %d examples", progress.percent(),
                            progress.epoch(), epochs, progress.step(), progress.examples()));
  AppendRow(
      text, "training",
      absl::StrCat("loss ", DecimalOr(progress.has_loss(), progress.loss(), 4), ", accuracy ",
                   DecimalOr(progress.has_train_accuracy(), progress.train_accuracy(), 4), ", ",
                   DecimalOr(progress.has_examples_per_s(), progress.examples_per_s(), 0),
                   " examples/s"));
  if (job.has_settings()) {
    AppendRow(text, "settings",
              absl::StrCat("revision ", job.settings().revision(),
                           absl::StrFormat(", set after %.1f s", job.settings().elapsed_s()),
                           job.settings().has_from_round()
                               ? absl::StrCat(", from round ", job.settings().from_round(), " on")
                               : ""));
  }
  if (!job.outer_optimizer().empty()) {
    AppendRow(text, "differences", job.outer_optimizer());
  }
  if (job.has_rate_factor()) {
    AppendRow(text, "rate", absl::StrFormat("times %.6g, by the test set", job.rate_factor()));
  }
  for (const JobDescription::EvaluationResult& result : job.evaluation()) {
    AppendRow(text, "evaluation",
              absl::StrFormat("epoch %.2f, step %d, %.0f s: %s", result.epoch(), result.step(),
                              result.elapsed_s(), FiguresOf(result)));
  }
  AppendRow(text, "final",
            absl::StrCat("test accuracy ",
                         DecimalOr(job.has_final_test_accuracy(), job.final_test_accuracy(), 4),
                         ", loss ", DecimalOr(job.has_final_loss(), job.final_loss(), 4)));
}

void AppendTraffic(const JobDescription& job, std::string* text) {
  const JobDescription::Counts& counts = job.counts();
  const JobDescription::Latency& latency = job.latency_ms();
  AppendRow(text, "counts",
            absl::StrCat(counts.fetches(), " fetches, ", counts.pushes(), " pushes, ",
                         counts.rpcs(), " RPCs, ", counts.retries(), " retries, ",
                         counts.duplicates(), " duplicates, ", counts.refused(), " refused"));
  AppendRow(text, "bytes",
            absl::StrCat(counts.bytes_fetched(), " fetched, ", counts.bytes_pushed(), " pushed"));
  AppendRow(text, "staleness",
            absl::StrCat("p50 ", QuantileOf(job.staleness(), 0.5), ", p99 ",
                         QuantileOf(job.staleness(), 0.99), "; fetch width p50 ",
                         QuantileOf(job.fetch_width(), 0.5), "; shard skew ",
                         job.has_shard_skew_max() ? absl::StrCat(job.shard_skew_max()) : "-",
                         " at most"));
  if (counts.dropped() > 0 || counts.bound_wait_ms() > 0) {
    AppendRow(text, "bound",
              absl::StrFormat("%d pushes with stripes that dropped them; replicas have waited %.1f "
                              "s for slower ones",
                              counts.dropped(), static_cast<double>(counts.bound_wait_ms()) / 1e3));
  }
  AppendRow(
      text, "latency",
      absl::StrCat("fetch ", DecimalOr(latency.has_fetch_p50(), latency.fetch_p50(), 2), "/",
                   DecimalOr(latency.has_fetch_p99(), latency.fetch_p99(), 2), ", push ",
                   DecimalOr(latency.has_push_p50(), latency.push_p50(), 2), "/",
                   DecimalOr(latency.has_push_p99(), latency.push_p99(), 2), ", step ",
                   DecimalOr(latency.has_step_p50(), latency.step_p50(), 2), "/",
                   DecimalOr(latency.has_step_p99(), latency.step_p99(), 2), " ms (p50/p99)"));
}

// Whether, and how much of, the job survives its shards.
void AppendDurability(const JobDescription::Durability& durability,
                      const JobDescription::Counts& counts, std::string* text) {
  if (durability.state_dir().empty()) {
    AppendRow(text, "checkpoint", "none: the parameter servers keep it in memory only");
    return;
  }
  std::string newest = "none yet";
  if (durability.generation() > 0) {
    newest = absl::StrFormat("generation %d, %.1f s old; %s on the disk", durability.generation(),
                             durability.age_s(), BytesText(durability.disk_bytes()));
  }
  if (durability.ordered() > 0) {
    absl::StrAppend(&newest, "; generation ", durability.ordered(), " is being written");
  }
  AppendRow(text, "checkpoint", newest);
  if (durability.has_best()) {
    const TestedGeneration& best = durability.best();
    AppendRow(text, "best",
              absl::StrCat("generation ", best.generation(), ": test accuracy ",
                           DecimalOr(best.has_accuracy(), best.accuracy(), 4), ", loss ",
                           DecimalOr(best.has_loss(), best.loss(), 4)));
  }
  if (!durability.error().empty()) {
    AppendRow(text, "", absl::StrCat("not written: ", durability.error()));
  }
  if (counts.restores() > 0) {
    AppendRow(text, "",
              absl::StrCat("restored ", counts.restores(), " times, ", counts.replayed(),
                           " records sent again"));
  }
  for (const LostPushes& lost : durability.lost()) {
    AppendRow(text, "", absl::StrCat("lost: ", LostPushesText(lost)));
  }
  for (const std::string& folder : durability.state_dir()) {
    AppendRow(text, "", folder);
  }
}

void AppendSandblaster(const JobDescription::Sandblaster& batch, std::string* text) {
  AppendRow(
      text, "sandblaster",
      absl::StrCat("iteration ", batch.iteration(), ", f ",
                   batch.has_f() ? absl::StrFormat("%.9g", batch.f()) : "-", ", |g| ",
                   batch.has_gradient_norm() ? absl::StrFormat("%.3e", batch.gradient_norm()) : "-",
                   ", step length ",
                   batch.has_step_length() ? absl::StrFormat("%.4g", batch.step_length()) : "-"));
  AppendRow(text, "evaluations",
            absl::StrCat(batch.evaluations(), ", ", batch.overflows(), " repeated on overflow",
                         batch.reproducibility().empty() ? "" : "; ", batch.reproducibility()));
  AppendRow(
      text, "chunks",
      absl::StrCat(batch.chunks_done(), " of ", batch.chunks_total(), " done, ",
                   batch.chunks_outstanding(), " outstanding, ", batch.chunks_backup(),
                   " backup, affinity ", DecimalOr(batch.has_affinity(), batch.affinity(), 2)));
  AppendRow(text, "commands",
            absl::StrCat(batch.commands(), " to shards, ", batch.command_bytes(),
                         " bytes, the largest ", batch.largest_command_bytes()));
  if (!batch.end_reason().empty()) {
    AppendRow(text, "end reason",
              batch.end_detail().empty()
                  ? batch.end_reason()
                  : absl::StrCat(batch.end_reason(), ": ", batch.end_detail()));
  }
}

void AppendSynchronous(const JobDescription::Synchronous& job, std::string* text) {
  AppendRow(text, "synchronous",
            job.group() == 0
                ? "no group yet"
                : absl::StrCat("update ", job.updates(), ", ", job.batches(),
                               " replicas in sync: group ", job.group(), " of workers ",
                               absl::StrJoin(job.member(), ", "), ", reduce ", job.reduce()));
  AppendRow(text, "",
            absl::StrFormat("%d groups broken, %d steps taken again, nobody trained for %.1f s",
                            job.broken(), job.retaken(), job.regrouping_s()));
  AppendRow(text, "",
            job.has_stored() ? absl::StrCat("the shards store update ", job.stored())
                             : "the shards store what the job began with");
}

// "CPUx2": two threads; "3/4 CPUx2": three replicas of four with so many each.
std::string DeviceOf(const JobDescription::Worker& worker) {
  const std::string device = absl::StrCat(worker.device(), "x", worker.threads());
  const uint32_t replicas = worker.replicas() + worker.replicas_lost();
  return replicas <= 1 ? device : absl::StrCat(worker.replicas(), "/", replicas, " ", device);
}

// Where a task listens, and on which machine it runs as far as that is known.
std::string PlaceOf(const std::string& address, const std::string& host) {
  return host.empty()      ? (address.empty() ? "-" : address)
         : address.empty() ? absl::StrCat("on ", host)
                           : absl::StrCat(address, " on ", host);
}

void AppendTasks(const JobDescription& job, std::string* text) {
  absl::StrAppend(text,
                  "\nworker  pid      state       device  steps     examples/s  "
                  "staleness p50  blocks    at\n");
  for (const JobDescription::Worker& worker : job.worker()) {
    absl::StrAppendFormat(text, "%-6d  %-7d  %-10s  %-6s  %-8d  %-10.0f  %-13s  %-8d  %s\n",
                          worker.task(), worker.pid(), worker.state(), DeviceOf(worker),
                          worker.steps(), worker.examples_per_s(),
                          worker.has_staleness_p50() ? absl::StrCat(worker.staleness_p50()) : "-",
                          worker.blocks_done(), PlaceOf(worker.address(), worker.host()));
    if (worker.has_local_steps()) {
      absl::StrAppend(text, "        takes ", worker.local_steps(), " local steps\n");
    }
    if (!worker.waits_for().empty()) {
      absl::StrAppend(text, "        waits for ", worker.waits_for(), "\n");
    }
  }
  absl::StrAppend(text,
                  "\nshard   pid      range                  stripes  versions     pushes    at\n");
  for (const JobDescription::Shard& shard : job.shard()) {
    absl::StrAppendFormat(text, "%-6d  %-7d  %-21s  %-7d  %-11s  %-8d  %s\n", shard.task(),
                          shard.pid(), absl::StrCat("[", shard.begin(), ", ", shard.end(), ")"),
                          shard.stripes(),
                          absl::StrCat(shard.version_min(), "..", shard.version_max()),
                          shard.pushes(), PlaceOf(shard.address(), ""));
  }
}

void AppendEvents(const JobDescription& job, std::string* text) {
  const int first = std::max(0, job.event_size() - kShownEvents);
  absl::StrAppend(text, "\nevents\n");
  for (int i = first; i < job.event_size(); ++i) {
    const JobDescription::Event& event = job.event(i);
    absl::StrAppendFormat(text, "%8.1f s  %-17s  %-9s  %s\n", event.elapsed_s(), event.kind(),
                          event.task(), event.text());
  }
}

}  // namespace

namespace {

std::string OrphansText(const ListReply& jobs, CommandHint hint) {
  std::string text;
  for (const OrphanJob& orphan : jobs.orphan()) {
    absl::StrAppendFormat(
        &text,
        "%s: slices that an earlier coordinator left on %s, %.1f MiB; `%s` "
        "frees them\n",
        orphan.job(),
        absl::StrJoin(orphan.shard(), ", ",
                      [](std::string* out, uint32_t shard) { absl::StrAppend(out, "ps/", shard); }),
        static_cast<double>(orphan.memory_bytes()) / (1 << 20),
        hint(absl::StrCat("delete ", orphan.job())));
  }
  return text;
}

}  // namespace

std::string LostPushesText(const LostPushes& lost) {
  return absl::StrCat(
      "pushes ", lost.from(), " to ",
      lost.has_to() ? absl::StrCat(lost.to()) : absl::StrCat(lost.to_at_least(), " at least"),
      " of worker/", lost.worker(), "#", lost.incarnation(), " on ps/", lost.shard(),
      lost.row_pushes() > 0 ? absl::StrCat(", of which ", lost.row_pushes(), " had rows of tables")
                            : "");
}

std::string BytesText(uint64_t bytes) {
  constexpr const char* kUnits[] = {"KiB", "MiB", "GiB", "TiB"};
  if (bytes < 1024) {
    return absl::StrCat(bytes, " B");
  }
  double value = static_cast<double>(bytes) / 1024;
  size_t unit = 0;
  // 1023.95 would be rounded to 1024.0.
  while (value >= 1023.95 && unit + 1 < std::size(kUnits)) {
    value /= 1024;
    ++unit;
  }
  return absl::StrFormat("%.1f %s", value, kUnits[unit]);
}

std::string JobsText(const ListReply& jobs, CommandHint hint) {
  if (jobs.job().empty()) {
    return absl::StrCat("no jobs; submit one: ", hint("submit JOB.textproto"), "\n",
                        OrphansText(jobs, hint));
  }
  size_t width = 3;
  for (const JobSummary& summary : jobs.job()) {
    width = std::max(width, summary.job().size());
  }
  std::string text = absl::StrFormat("%-*s  %-12s  percent  elapsed s  %10s  reason\n",
                                     static_cast<int>(width), "job", "state", "disk");
  for (const JobSummary& summary : jobs.job()) {
    absl::StrAppendFormat(
        &text, "%-*s  %-12s  %7.1f  %9.1f  %10s  %s\n", static_cast<int>(width), summary.job(),
        JobState_Name(summary.state()), summary.percent(), summary.elapsed_s(),
        summary.disk_bytes() == 0 ? "-" : BytesText(summary.disk_bytes()), summary.reason());
  }
  return text + OrphansText(jobs, hint);
}

std::string DescribeText(const JobDescription& job) {
  std::string text;
  AppendRow(&text, "job", job.summary().job());
  AppendRow(&text, "state", JobState_Name(job.summary().state()));
  if (!job.summary().reason().empty()) {
    AppendRow(&text, "reason", job.summary().reason());
  }
  for (const JobDescription::Trouble& trouble : job.trouble()) {
    AppendRow(&text, "trouble", absl::StrCat(trouble.task(), " ", trouble.text()));
  }
  AppendRow(&text, "mode", job.mode());
  AppendRow(&text, "model",
            absl::StrCat(job.model_name(), job.model_name().empty() ? "" : ", ", job.parameters(),
                         " parameters, seed ", job.seed()));
  AppendTables(job, &text);
  AppendRow(&text, "elapsed", absl::StrFormat("%.1f s", job.summary().elapsed_s()));
  AppendProgress(job, &text);
  if (job.has_sandblaster()) {
    AppendSandblaster(job.sandblaster(), &text);
  }
  if (job.has_synchronous()) {
    AppendSynchronous(job.synchronous(), &text);
  }
  AppendTraffic(job, &text);
  AppendRow(
      &text, "data",
      absl::StrCat(job.data().examples(), " examples in ", job.data().blocks(),
                   " blocks an epoch; ", job.data().blocks_done(), " blocks done in all epochs, ",
                   job.data().blocks_released(), " given away after a loss"));
  AppendStreams(job.data(), &text);
  if (job.has_durability()) {
    AppendDurability(job.durability(), job.counts(), &text);
  }
  AppendTasks(job, &text);
  AppendEvents(job, &text);
  return text;
}

}  // namespace monsoon
