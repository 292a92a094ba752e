#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "coordinator/cli/describe_json.h"
#include "coordinator/cli/job_commands.h"
#include "coordinator/cli/patience.h"
#include "coordinator/cli/watch_view.h"

namespace monsoon {
namespace {

// Between two lines, or frames, of one state; and between two looks whether it has changed.
constexpr absl::Duration kRefresh = absl::Seconds(1);
constexpr absl::Duration kLook = absl::Milliseconds(100);

class Watcher {
 public:
  Watcher(const Invocation& call, const WatchOptions& options)
      : env_(call.env()),
        output_(options.output),
        strict_(options.strict),
        out_(options.output == WatchOutput::kData ? *env_.out : *env_.err) {}

  void Show(const JobDescription& job) {
    if (!env_.terminal || output_ != WatchOutput::kData) {
      out_ << WatchLines(job) << "\n" << std::flush;
      return;
    }
    const TerminalSize size = env_.terminal_size();
    const std::vector<std::string> lines =
        WatchScreen(job, {.columns = size.columns, .rows = size.rows, .color = env_.color});
    std::string frame;
    if (shown_lines_ > 0 && size == shown_at_) {
      frame = absl::StrCat("\x1b[", shown_lines_, "A\r\x1b[J");
    } else if (shown_lines_ > 0) {
      // The terminal has broken the old lines anew: nobody knows how many there are.
      frame = "\x1b[H\x1b[2J";
    }
    absl::StrAppend(&frame, absl::StrJoin(lines, "\n"), "\n");
    shown_lines_ = lines.size();
    shown_at_ = size;
    out_ << frame << std::flush;
  }

  // False: what was shown could not be written, and more of it cannot either.
  bool is_heard() const { return out_.good(); }

  // The same once more if the terminal has another size by now.
  void Resize(const JobDescription& job) {
    if (shown_lines_ > 0 && env_.terminal_size() != shown_at_) {
      Show(job);
    }
  }

  int End(const JobDescription& job) {
    out_ << DoneLine(job) << "\n" << std::flush;
    if (output_ == WatchOutput::kJson) {
      *env_.out << DescribeJson(job) << "\n" << std::flush;
    }
    const JobSummary& summary = job.summary();
    if (summary.state() != SUCCEEDED) {
      *env_.err << env_.program << " watch: " << summary.job() << " "
                << (summary.state() == FAILED ? "failed" : "was cancelled")
                << (summary.reason().empty() ? "" : ": ") << summary.reason() << "\n";
    }
    return strict_ && summary.state() == SUCCEEDED && MissedItsMinimum(job) ? kExitJobFailed
                                                                            : ExitCodeOf(summary);
  }

 private:
  const Environment& env_;
  const WatchOutput output_;
  const bool strict_;
  std::ostream& out_;
  size_t shown_lines_ = 0;
  TerminalSize shown_at_;
};

}  // namespace

void AddStrictFlag(Invocation* call, bool* strict) {
  call->flags().Add("strict", strict,
                    "exit with 1 where a batch job ended before it was at a minimum: stalled, "
                    "line_search_failed");
}

int WatchJob(const Invocation& call, JobClient* client, const std::string& job,
             const WatchOptions& options, Patience* patience) {
  const Environment& env = call.env();
  Watcher watcher(call, options);
  // "latest" is resolved once: the watched job stays the same.
  std::string id = job;
  env.wait(absl::ZeroDuration());  // from here on Ctrl-C has its own exit code
  std::optional<JobState> shown;
  absl::Duration next_line;
  while (true) {
    const absl::Duration asked_at = env.clock->Now();
    const absl::StatusOr<JobDescription> description = client->Describe(id);
    absl::Duration pause = Patience::kPause;
    if (description.ok()) {
      patience->Answered();
      id = description->summary().job();
      const JobState state = description->summary().state();
      if (shown != state || asked_at >= next_line) {
        watcher.Show(*description);
        shown = state;
        next_line = asked_at + kRefresh;
      }
      if (HasEnded(state)) {
        return watcher.End(*description);
      }
      if (!watcher.is_heard()) {
        return kExitData;  // RunCli says it
      }
      pause = kLook - (env.clock->Now() - asked_at);
    } else if (!patience->GoesOn(description.status())) {
      return call.Fail(description.status());
    }
    const absl::Duration next = env.clock->Now() + pause;
    do {
      if (const std::optional<int> signal = env.wait(next - env.clock->Now())) {
        if (patience->answered()) {
          call.Note(absl::StrCat(
              id, " goes on; watch it again: ", call.CommandLine(absl::StrCat("watch ", id))));
        }
        return 128 + *signal;
      }
      if (description.ok()) {
        watcher.Resize(*description);
      }
    } while (env.clock->Now() < next);
  }
}

}  // namespace monsoon
