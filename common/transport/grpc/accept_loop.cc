#include "common/transport/grpc/accept_loop.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "common/base/logging.h"
#include "common/process/open_files.h"
#include "common/process/peer_user.h"

namespace monsoon {
namespace {

// Of the descriptors that the process may have, an eighth is kept, and no more than this.
constexpr uint64_t kMostKept = 256;
// Connections taken in a row before the others and the end are looked at.
constexpr int kMostInARow = 64;
constexpr int kRestMs = 20;
constexpr absl::Duration kRefusalPeriod = absl::Minutes(1);
constexpr absl::Duration kReminderPeriod = absl::Minutes(1);
constexpr absl::Duration kCalm = absl::Seconds(1);
constexpr char kUnreached[] = "cannot reach its own address";

std::string NoFilesText() {
  return absl::StrCat("takes no new connections: of the ", OpenFileLimit(),
                      " files that this process may have open, hardly any are left (ulimit -n)");
}

// The kernel gives the lowest number that is free, so a high one means that few are.
bool IsKept(const UniqueFd& fd) {
  const uint64_t limit = OpenFileLimit();
  return static_cast<uint64_t>(fd.get()) >= limit - std::min(limit / 8, kMostKept);
}

bool RanOut(int error) {
  return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
}

UniqueFd Reserve() { return UniqueFd(open("/dev/null", O_RDONLY | O_CLOEXEC)); }

UniqueFd Accept(int listener) {
  return UniqueFd(accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
}

}  // namespace

absl::StatusOr<std::unique_ptr<AcceptLoop>> AcceptLoop::Start(AcceptLoopOptions options,
                                                              std::vector<UniqueFd> listeners,
                                                              Take take) {
  UniqueFd stop(eventfd(0, EFD_CLOEXEC));
  if (!stop.valid()) {
    return absl::UnavailableError("no event descriptor is left");
  }
  return std::unique_ptr<AcceptLoop>(
      new AcceptLoop(std::move(options), std::move(listeners), std::move(stop), std::move(take)));
}

AcceptLoop::AcceptLoop(AcceptLoopOptions options, std::vector<UniqueFd> listeners, UniqueFd stop,
                       Take take)
    : options_(std::move(options)),
      listeners_(std::move(listeners)),
      stop_(std::move(stop)),
      take_(std::move(take)),
      reserve_(Reserve()),
      refusals_(kRefusalPeriod),
      reminders_(kReminderPeriod),
      strangers_(kRefusalPeriod),
      thread_([this] { Run(); }) {}

AcceptLoop::~AcceptLoop() {
  eventfd_write(stop_.get(), 1);
  thread_.join();
}

void AcceptLoop::Run() {
  std::vector<pollfd> fds = {{stop_.get(), POLLIN, 0}};
  for (const UniqueFd& listener : listeners_) {
    fds.push_back({listener.get(), POLLIN, 0});
    own_.emplace_back(listener.get(), options_.probe_every, Clock::Real()->Now());
  }
  while (true) {
    const bool rests = std::exchange(rests_, false);
    poll(fds.data(), rests ? 1 : fds.size(), TimeoutMs(rests));
    if (fds[0].revents != 0) {
      return;
    }
    for (size_t i = 1; i < fds.size(); ++i) {
      if (rests || fds[i].revents != 0) {
        AcceptAll(fds[i].fd);
      }
    }
    // What has arrived meanwhile was taken, so that a process that stood still accuses nobody.
    for (OwnAddress& own : own_) {
      own.Work(Clock::Real()->Now());
    }
    Tell();
    if (!options_.reminder.empty() && reminders_.Take(Clock::Real()->Now())) {
      LOG(WARNING) << options_.reminder;
    }
  }
}

int AcceptLoop::TimeoutMs(bool rests) const {
  if (rests) {
    return kRestMs;
  }
  absl::Duration due = absl::InfiniteDuration();
  for (const OwnAddress& own : own_) {
    due = std::min(due, own.due());
  }
  const absl::Duration left = std::max(absl::ZeroDuration(), due - Clock::Real()->Now());
  // Whole milliseconds are too few by a part of one, in which poll would return at once.
  return own_.empty() ? -1 : static_cast<int>(absl::ToInt64Milliseconds(left)) + 1;
}

void AcceptLoop::AcceptAll(int listener) {
  const bool of_this_machine = IsUnixSocket(listener);
  for (int i = 0; i < kMostInARow && !rests_; ++i) {
    UniqueFd connection = Accept(listener);
    if (!connection.valid() && !RanOut(errno)) {
      if (errno == EAGAIN || errno == EWOULDBLOCK) {
        return;
      }
      continue;  // this client has gone already
    }
    if (!connection.valid()) {
      rests_ = !Refuse(listener);
      continue;
    }
    const bool own = IsOwn(connection);
    if (IsKept(connection)) {
      connection.reset();
      NoteRefusal();
      continue;
    }
    NoteTaken();
    if (of_this_machine && !MayConnect(connection)) {
      continue;
    }
    if (!own) {
      take_(listener, std::move(connection));
    }
  }
}

bool AcceptLoop::IsOwn(const UniqueFd& connection) {
  return std::ranges::any_of(own_, [&](OwnAddress& own) { return own.Arrived(connection); });
}

std::string AcceptLoop::Trouble() const {
  if (refuses_) {
    return NoFilesText();
  }
  for (const OwnAddress& own : own_) {
    if (!own.trouble().empty()) {
      return absl::StrCat(kUnreached, " ", options_.name, ": ", own.trouble());
    }
  }
  return "";
}

void AcceptLoop::Tell() {
  std::string trouble = Trouble();
  if (trouble == trouble_) {
    return;
  }
  // Of descriptors NoteRefusal has told the log.
  if (absl::StartsWith(trouble, kUnreached)) {
    LOG(WARNING) << "this process " << trouble;
  } else if (absl::StartsWith(trouble_, kUnreached)) {
    LOG(INFO) << "this process reaches its own address " << options_.name << " again";
  }
  trouble_ = std::move(trouble);
  if (options_.on_trouble) {
    options_.on_trouble(trouble_);
  }
}

bool AcceptLoop::Refuse(int listener) {
  reserve_.reset();
  const bool closed = Accept(listener).valid();
  reserve_ = Reserve();
  if (closed) {
    NoteRefusal();
  }
  return closed;
}

bool AcceptLoop::MayConnect(const UniqueFd& connection) {
  const absl::StatusOr<PeerUser> peer = PeerUserOf(connection.get());
  if (peer.ok() && IsUserOrRoot(*peer, geteuid())) {
    return true;
  }
  if (const auto left_out = strangers_.Take(Clock::Real()->Now())) {
    LOG(WARNING) << options_.name << " closed a connection of "
                 << (peer.ok() ? absl::StrCat("the user with the number ", peer->uid, " (pid ",
                                              peer->pid, ")")
                               : std::string(peer.status().message()))
                 << ": only user " << geteuid() << " and root may connect" << LeftOut(*left_out);
  }
  return false;
}

void AcceptLoop::NoteRefusal() {
  last_refusal_ = Clock::Real()->Now();
  refuses_ = true;
  ++refused_;
  if (refusals_.Take(last_refusal_)) {
    told_ = true;
    LOG(WARNING) << options_.name << " " << NoFilesText();
  }
}

void AcceptLoop::NoteTaken() {
  refuses_ = false;
  // One that ends lets one more in; that is not the end of it yet.
  if (told_ && Clock::Real()->Now() - last_refusal_ > kCalm) {
    LOG(INFO) << options_.name << " takes new connections again; refused meanwhile: " << refused_;
    told_ = false;
    refused_ = 0;
  }
}

}  // namespace monsoon
