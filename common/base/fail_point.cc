#include "common/base/fail_point.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "common/base/status.h"

namespace monsoon {
namespace {

// As PosixStorage (common/storage) says them.
struct KnownError {
  const char* name;
  int number;
  absl::StatusCode code;
};
constexpr KnownError kErrors[] = {
    {"ENOSPC", ENOSPC, absl::StatusCode::kResourceExhausted},
    {"EIO", EIO, absl::StatusCode::kUnavailable},
    {"EACCES", EACCES, absl::StatusCode::kPermissionDenied},
};

std::string AllPoints() {
  std::string text = "; the points are:";
  for (const FailPoint& point : kFailPoints) {
    absl::StrAppend(&text, "\n  ", point.name, point.has_status ? "  (can return an error)" : "");
  }
  return text;
}

absl::Status WrongEntry(absl::string_view entry, absl::string_view why) {
  return absl::InvalidArgumentError(
      absl::StrCat("MONSOON_FAIL_POINTS: \"", entry, "\": ", why, AllPoints()));
}

// Takes `mark` and the number behind it from the end of *text; nothing where there is none.
// 0 is no number.
std::optional<uint64_t> TakeNumber(char mark, absl::string_view* text) {
  const size_t at = text->rfind(mark);
  uint64_t number = 0;
  if (at == absl::string_view::npos || !absl::SimpleAtoi(text->substr(at + 1), &number) ||
      number == 0) {
    return std::nullopt;
  }
  text->remove_suffix(text->size() - at);
  return number;
}

std::string Variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// The process's own, made of its environment before main begins.
class Process {
 public:
  Process() : count_file_(Variable("MONSOON_FAIL_POINTS_COUNT")) {
    auto points = FailPoints::Create(
        {Variable("MONSOON_FAIL_POINTS"), Variable("MONSOON_FAIL_POINTS_TOKENS")});
    if (!points.ok()) {
      std::fprintf(stderr, "%s\n", std::string(points.status().message()).c_str());
      _exit(2);
    }
    points_ = *std::move(points);
  }

  FailPoints::Effect Hit(size_t point) { return points_->Hit(point); }

  // At most once.
  void WriteCounts() {
    if (count_file_.empty() || written_.exchange(true)) {
      return;
    }
    const std::string counts = points_->Counts();
    const int fd = open(count_file_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (fd < 0 || write(fd, counts.data(), counts.size()) != static_cast<ssize_t>(counts.size())) {
      std::fprintf(stderr, "MONSOON_FAIL_POINTS_COUNT=%s: %s\n", count_file_.c_str(),
                   std::strerror(errno));
    }
    if (fd >= 0) {
      close(fd);
    }
  }

 private:
  const std::string count_file_;
  std::unique_ptr<FailPoints> points_;
  std::atomic<bool> written_{false};
};

// Never destroyed: threads may hit points to the end.
Process& TheProcess() {
  static Process* const process = new Process;
  return *process;
}

// A mistake in the variables is told at once, not when the first point is hit.
[[maybe_unused]] const bool begun = [] {
  TheProcess();
  std::atexit([] { TheProcess().WriteCounts(); });
  return true;
}();

}  // namespace

namespace internal {
void NoSuchFailPoint() {}
}  // namespace internal

absl::StatusOr<std::unique_ptr<FailPoints>> FailPoints::Create(const FailPointSettings& settings) {
  auto points = std::unique_ptr<FailPoints>(new FailPoints(settings.tokens));
  for (const absl::string_view entry :
       absl::StrSplit(settings.points, ',', absl::SkipWhitespace())) {
    RETURN_IF_ERROR(points->Parse(absl::StripAsciiWhitespace(entry)));
  }
  return points;
}

absl::Status FailPoints::Parse(absl::string_view entry) {
  const size_t equals = entry.find('=');
  const absl::string_view name = entry.substr(0, equals);
  size_t point = 0;
  while (point < kNumFailPoints && kFailPoints[point].name != name) {
    ++point;
  }
  if (point == kNumFailPoints) {
    return WrongEntry(entry, "there is no such point");
  }
  Plan& plan = plans_[point];
  if (equals == absl::string_view::npos || plan.first != 0) {
    return WrongEntry(
        entry, plan.first != 0 ? "the point is named twice" : "it is not NAME=ACTION[@N][xK]");
  }
  absl::string_view rest = entry.substr(equals + 1);
  plan.times = TakeNumber('x', &rest).value_or(1);
  plan.first = TakeNumber('@', &rest).value_or(1);
  if (rest == "kill") {
    plan.effect.kill = true;
    return absl::OkStatus();
  }
  uint32_t sleep_ms = 0;
  if (absl::ConsumePrefix(&rest, "sleep:") && absl::SimpleAtoi(rest, &sleep_ms)) {
    plan.effect.sleep = absl::Milliseconds(sleep_ms);
    return absl::OkStatus();
  }
  if (absl::ConsumePrefix(&rest, "error:")) {
    for (const KnownError& error : kErrors) {
      if (rest == error.name && kFailPoints[point].has_status) {
        plan.effect.error = absl::Status(
            error.code, absl::StrCat("fail point ", name, ": ", std::strerror(error.number)));
        return absl::OkStatus();
      }
    }
    return WrongEntry(entry, kFailPoints[point].has_status ? "an error is ENOSPC, EIO or EACCES"
                                                           : "the point cannot return an error");
  }
  return WrongEntry(entry, "an action is kill, sleep:MS or error:NAME");
}

std::string FailPoints::TokenOf(size_t point) const {
  return absl::StrCat(tokens_, "/", kFailPoints[point].name);
}

FailPoints::Effect FailPoints::Hit(size_t point) {
  const Plan& plan = plans_[point];
  MutexLock lock(&mutex_);
  State& state = states_[point];
  ++state.hits;
  if (plan.first == 0) {
    return {};
  }
  if (!tokens_.empty() && !state.taken && access(TokenOf(point).c_str(), F_OK) != 0) {
    state.armed = 0;
    return {};
  }
  ++state.armed;
  // Without overflow, whatever a user has written.
  if (state.armed < plan.first || state.armed - plan.first >= plan.times) {
    return {};
  }
  if (tokens_.empty()) {
    return plan.effect;
  }
  if (!state.taken) {
    // Of several processes one can.
    const std::string token = TokenOf(point);
    state.taken = rename(token.c_str(), (token + ".taken").c_str()) == 0;
  }
  const bool taken = state.taken;
  if (!taken || state.armed - plan.first + 1 == plan.times) {
    state.taken = false;
    state.armed = 0;  // for the next token
  }
  return taken ? plan.effect : Effect();
}

std::string FailPoints::Counts() const {
  std::string text;
  MutexLock lock(&mutex_);
  for (size_t i = 0; i < kNumFailPoints; ++i) {
    if (states_[i].hits > 0) {
      absl::StrAppend(&text, kFailPoints[i].name, " ", states_[i].hits, "\n");
    }
  }
  return text;
}

absl::Status HitFailPointWithStatus(size_t point) {
  FailPoints::Effect effect = TheProcess().Hit(point);
  if (effect.kill) {
    TheProcess().WriteCounts();
    kill(getpid(), SIGKILL);
    while (true) {
      pause();  // the signal comes before anything follows
    }
  }
  absl::SleepFor(effect.sleep);
  return std::move(effect.error);
}

void HitFailPoint(size_t point) { (void)HitFailPointWithStatus(point); }

}  // namespace monsoon
