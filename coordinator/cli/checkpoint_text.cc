#include "coordinator/cli/checkpoint_text.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "proto/job.pb.h"

namespace monsoon {
namespace {

// Machines that set their clocks by others' differ by less.
constexpr absl::Duration kClocksDiffer = absl::Seconds(10);

std::string NameOf(const std::string& job, uint64_t generation, const CheckpointContext& context) {
  return absl::StrCat(job, " generation ", generation, " (", ProgressText(context), ")");
}

}  // namespace

std::string CheckpointName(const ShardCheckpoint& content) {
  return NameOf(content.create().job(), content.generation(), content.context());
}

std::string CheckpointName(const ResumePoint& point) {
  return NameOf(point.source_job(), point.generation(), point.context());
}

double EpochsOf(const DownpourProgress& progress) {
  double epochs = progress.epochs_done();
  for (const EpochCursor& cursor : progress.epoch()) {
    double done = 0;
    for (const EpochCursor::Run& run : cursor.done()) {
      done += run.end() - run.first();
    }
    epochs += cursor.blocks() > 0 ? done / cursor.blocks() : 0;
  }
  return epochs;
}

std::string ProgressText(const CheckpointContext& context) {
  std::string text;
  if (context.job().has_downpour() || !context.job().has_sandblaster()) {
    text = absl::StrFormat("epoch %.1f, %d steps", EpochsOf(context.downpour()),
                           context.downpour().steps());
  }
  if (context.job().has_sandblaster()) {
    absl::StrAppend(&text, text.empty() ? "" : ", ", "iteration ", context.iterations());
  }
  return text;
}

std::optional<absl::Duration> AgeOf(const CheckpointContext& context, absl::Time now) {
  const absl::Duration age = now - absl::FromUnixMillis(context.ordered_ms());
  return age < -kClocksDiffer ? std::nullopt
                              : std::make_optional(std::max(age, absl::ZeroDuration()));
}

std::string AgeText(const CheckpointContext& context, absl::Time now) {
  const std::optional<absl::Duration> age = AgeOf(context, now);
  if (!age) {
    return absl::StrCat(
        "made at ",
        absl::FormatTime("%Y-%m-%d %H:%M UTC", absl::FromUnixMillis(context.ordered_ms()),
                         absl::UTCTimeZone()),
        ", which this machine's clock has not reached");
  }
  const double seconds = absl::ToDoubleSeconds(*age);
  return absl::StrCat("made ",
                      seconds < 120         ? absl::StrFormat("%.0f s", seconds)
                      : seconds < 2 * 3600  ? absl::StrFormat("%.1f min", seconds / 60)
                      : seconds < 48 * 3600 ? absl::StrFormat("%.1f h", seconds / 3600)
                                            : absl::StrFormat("%.1f days", seconds / 86400),
                      " ago");
}

std::string SizeText(uint64_t bytes) {
  const auto size = static_cast<double>(bytes);
  return bytes < 1024      ? absl::StrFormat("%d bytes", bytes)
         : bytes < 1 << 20 ? absl::StrFormat("%.1f KiB", size / 1024)
         : bytes < 1 << 30 ? absl::StrFormat("%.1f MiB", size / (1 << 20))
                           : absl::StrFormat("%.1f GiB", size / (1 << 30));
}

}  // namespace monsoon
