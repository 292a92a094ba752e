#include "worker/session/session_host.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "common/base/logging.h"
#include "common/base/shorten.h"
#include "common/base/utf8.h"
#include "common/memory/freed_memory.h"
#include "worker/session/replica_stats.h"
#include "worker/session/work_source.h"

namespace monsoon {
namespace {

// One look for an assignment; stopping waits for it at most.
constexpr absl::Duration kAssignmentPoll = absl::Milliseconds(100);
// A session that ends badly at once must not turn in a tight circle.
constexpr absl::Duration kRejoinPause = absl::Milliseconds(200);
// More of a reason the coordinator does not keep.
constexpr size_t kMostReasonBytes = 4096;
constexpr int kReportTries = 10;
constexpr absl::Duration kReportPause = absl::Milliseconds(200);

}  // namespace

SessionHost::SessionHost(Options options, ReplicaClient* heartbeats, ReplicaClient* work,
                         SessionRunner* runner)
    : options_(std::move(options)),
      work_(work),
      runner_(runner),
      member_(options_.member, heartbeats, options_.calls) {}

void SessionHost::Start() {
  member_.Start();
  thread_ = Thread([this] { Run(); });
}

SessionHost::~SessionHost() {
  Wind(/*drain=*/false);
  if (thread_.joinable()) {
    thread_.Join();
  }
}

void SessionHost::Wind(bool drain) {
  MutexLock lock(&mutex_);
  winding_ = true;
  drains_ = drain;
  if (control_ != nullptr) {
    if (drain) {
      control_->Drain();
    } else {
      control_->Stop();
    }
  }
}

bool SessionHost::winding() const {
  MutexLock lock(&mutex_);
  return winding_;
}

void SessionHost::Run() {
  bool computes = true;
  while (computes && !winding()) {
    if (std::optional<Assignment> assignment = member_.AwaitAssignment(kAssignmentPoll)) {
      computes = RunSession(*assignment);
    }
  }
  if (!computes) {
    Depart();  // else it is given the next session
  }
  {
    MutexLock lock(&mutex_);
    ended_ = true;
  }
  changed_.NotifyAll();
  if (!computes && options_.on_device_lost) {
    options_.on_device_lost();
  }
}

bool SessionHost::RunSession(const Assignment& assignment) {
  StatsCollector stats;
  SessionControl control(Clock::Real(), options_.lost_after);
  {
    MutexLock lock(&mutex_);
    if (winding_) {
      return true;
    }
    control_ = &control;
  }
  member_.Enter(assignment.session(), &stats, &control);
  SessionEnd end = runner_->Run(assignment, &stats, &control);
  if (end.kind == SessionEnd::Kind::kLost) {
    // Shards close a session a little before the coordinator tells. It knows
    // whether this worker was lost or the job has ended.
    member_.Beat();
    if (control.state() == SessionControl::State::kStop) {
      end.kind = SessionEnd::Kind::kStopped;
    }
  }
  LogEnd(assignment.session(), end);
  const bool device_lost = end.kind == SessionEnd::Kind::kDeviceLost;
  bool diverged = end.kind == SessionEnd::Kind::kFailed &&
                  end.failure == ReportFailureRequest::PROGRAM_DIVERGED;
  if (end.kind == SessionEnd::Kind::kDrained || diverged) {
    member_.Beat();  // with the final figures, while they still stand
  }
  if (end.kind == SessionEnd::Kind::kLost) {
    control.Sleep(kRejoinPause);
  } else if (end.kind == SessionEnd::Kind::kFailed || device_lost) {
    // How the job has ended is told by the next heartbeats, as to all others.
    diverged = !ReportFailure(assignment.session(), end) && diverged;
  }
  if (diverged && options_.on_program_diverged) {
    options_.on_program_diverged(end.message);
  }
  member_.Exit(/*rejoin=*/end.kind == SessionEnd::Kind::kLost);
  // Of pushes that were kept, above all: up to a GiB, also of a small model.
  ReturnFreedMemory();
  MutexLock lock(&mutex_);
  control_ = nullptr;
  return !device_lost && !diverged;
}

void SessionHost::LogEnd(const SessionKey& session, const SessionEnd& end) const {
  const std::string name = absl::StrCat("session ", session.job(), "#", session.incarnation());
  switch (end.kind) {
    case SessionEnd::Kind::kFinished:
      LOG(INFO) << name << " finished";
      break;
    case SessionEnd::Kind::kDrained:
      LOG(INFO) << name << " drained";
      break;
    case SessionEnd::Kind::kStopped:
      LOG(INFO) << name << " stopped: " << end.message;
      break;
    case SessionEnd::Kind::kLost:
      LOG(WARNING) << name << " lost, joining again: " << end.message;
      break;
    case SessionEnd::Kind::kFailed:
      LOG(ERROR) << name << " failed: " << end.message;
      break;
    case SessionEnd::Kind::kDeviceLost:
      LOG(ERROR) << name << " ended, and this worker leaves: " << end.message;
      break;
  }
}

bool SessionHost::ReportFailure(const SessionKey& session, const SessionEnd& end) {
  ReportFailureRequest request;
  *request.mutable_session() = session;
  request.set_kind(end.failure);
  request.set_message(ValidUtf8(Shorten(end.message, kMostReasonBytes)));
  for (int i = 0; i < kReportTries && !winding(); ++i) {
    const absl::StatusOr<ReportFailureReply> reply = work_->ReportFailure(request);
    if (reply.ok()) {
      return reply->job_ends();
    }
    if (!IsTransient(reply.status())) {
      LOG(ERROR) << "the coordinator does not take the report: " << reply.status().message();
      return false;
    }
    MutexLock lock(&mutex_);
    changed_.WaitFor(&mutex_, kReportPause);
  }
  return false;
}

void SessionHost::Drain(absl::Duration grace) {
  Wind(/*drain=*/true);
  {
    MutexLock lock(&mutex_);
    const bool ended = changed_.WaitFor(&mutex_, grace, [this] {
      mutex_.AssertHeld();
      return ended_;
    });
    if (!ended) {
      LOG(WARNING) << "the push did not end within " << absl::FormatDuration(grace)
                   << "; it is given up";
    }
  }
  Wind(/*drain=*/false);
  if (thread_.joinable()) {
    thread_.Join();
  }
  Depart();
}

void SessionHost::Depart() {
  if (const absl::Status status = member_.Depart(); !status.ok()) {
    LOG(WARNING) << "the coordinator was not told of the departure: "
                 << std::string(status.message());
  }
}

}  // namespace monsoon
