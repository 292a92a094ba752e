// A replica of a Downpour job that computes nothing: it pushes -1 at one place of every
// stripe, again and again, and keeps in a mapped file what it has sent and what all shards
// have acknowledged. With SGD of rate 1 the place then holds how many of its pushes the
// stripe has applied, whoever died meanwhile: tests/process/ledger.py compares.
//
//   ledger_pusher --cluster=FILE --place=N --ledger=FILE [--pause_us=N] [--every_us=N]
//                 [--burst=N] [--window_mib=N] [--common=N] [--waits] [--light=N]
//                 [--settings=FILE]
//   ledger_pusher --cluster=FILE --read=PLACES --job=NAME
//
// With settings it enters the job with a table that these are of, and pushes rows of its place
// too (ledger_rows.h); the second form tells what all rows have come to.
//
// In a job with rounds { } one pusher waits, so that it is in each round once, with weight 1,
// and the others are light: then the weights of a round come to 1 to the bit of a float, and
// a place is the same count as without rounds.
//
// Joins an open cluster as a guest. SIGTERM: waits until all is durable, says goodbye, 0.
// 3: the session was taken away or a call failed; the reason stands on the standard error.
//
// The ledger: five 64-bit numbers, little-endian: worker, incarnation, sent (begun),
// acknowledged, 1 once there was a session.
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/base/flags.h"
#include "common/base/random_id.h"
#include "common/base/status.h"
#include "common/config/cluster.h"
#include "common/model/table_info.h"
#include "common/process/unique_fd.h"
#include "coordinator/client/join_job.h"
#include "coordinator/client/replica_client.h"
#include "coordinator/client/replica_membership.h"
#include "ps_server/client/parameter_client.h"
#include "tests/cluster/ledger_rows.h"

namespace monsoon {
namespace {

constexpr absl::Duration kDurableIn = absl::Seconds(30);

std::atomic<bool> told_to_leave{false};

struct Ledger {
  std::atomic<uint64_t> worker, incarnation, sent, acknowledged, began;
};

absl::StatusOr<Ledger*> MapLedger(const std::string& path) {
  const UniqueFd file(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!file.valid() || ftruncate(file.get(), sizeof(Ledger)) != 0) {
    return absl::ErrnoToStatus(errno, path);
  }
  void* const memory =
      mmap(nullptr, sizeof(Ledger), PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  return memory == MAP_FAILED ? absl::StatusOr<Ledger*>(absl::ErrnoToStatus(errno, path))
                              : static_cast<Ledger*>(memory);
}

// Beats for one session until it is taken away or Stop.
class Heart {
 public:
  Heart(ReplicaClient* coordinator, ReplicaMembership* membership, const SessionKey& session,
        ParameterClient* shards)
      : coordinator_(coordinator), membership_(membership), session_(session), shards_(shards) {
    thread_ = std::thread([this] { Run(); });
  }
  ~Heart() {
    stopping_ = true;
    thread_.join();
  }
  bool taken_away() const { return taken_away_; }

 private:
  void Run() {
    while (!stopping_ && !taken_away_) {
      HeartbeatRequest request = membership_->MakeRequest();
      *request.mutable_session() = session_;
      request.set_wants_checkpoint(shards_->kept().wants_checkpoint);
      const absl::StatusOr<HeartbeatReply> reply = coordinator_->Heartbeat(request);
      if (reply.ok()) {
        membership_->Apply(request, *reply);
        if (!membership_->Assigned(session_)) {
          taken_away_ = true;
          shards_->Cancel();
          return;
        }
        for (int i = 0; i < reply->assignment().shard_epoch_size(); ++i) {
          shards_->NameEpoch(static_cast<uint32_t>(i), reply->assignment().shard_epoch(i));
        }
      }
      absl::SleepFor(membership_->heartbeat());
    }
  }

  ReplicaClient* const coordinator_;
  ReplicaMembership* const membership_;  // the thread's, while it runs
  const SessionKey session_;
  ParameterClient* const shards_;
  std::atomic<bool> stopping_{false};
  std::atomic<bool> taken_away_{false};
  std::thread thread_;
};

struct Pace {
  absl::Duration pause;  // between two pushes
  absl::Duration every;  // from the beginning of one to that of the next, at least
  uint64_t burst = 0;    // after so many all is to be durable; 0: never
  bool waits = false;    // after each for its round
};

struct Kind {
  uint32_t place = 0;
  uint32_t common = 0;  // another place, of all pushers; 0: none
  float weight = 1;
};

// Returns when what was pushed is in no open round.
absl::Status AwaitRound(ParameterClient* shards, std::span<float> parameters, FetchMarks* marks) {
  while (!told_to_leave) {
    const absl::Status status = shards->Fetch(parameters, marks, nullptr);
    if (!absl::IsUnavailable(status) && !absl::IsDeadlineExceeded(status)) {
      return status;
    }
    absl::SleepFor(absl::Milliseconds(10));  // a shard is away, or a round takes long
  }
  return absl::OkStatus();
}

// Until nothing is kept any more.
absl::Status AwaitAllDurable(ParameterClient* shards) {
  const absl::Time end = absl::Now() + 3 * kDurableIn;
  do {
    RETURN_IF_ERROR(shards->AwaitDurable(kDurableIn).status());
    absl::SleepFor(absl::Milliseconds(20));
  } while (shards->kept().bytes > 0 && absl::Now() < end && !told_to_leave);
  return absl::OkStatus();
}

absl::Status PushOn(ParameterClient* shards, const JoinedJob& joined, const Kind& kind,
                    const Pace& pace, const Heart& heart, Ledger* ledger) {
  const ShardMap& map = joined.client_options.map;
  std::vector<float> gradient(map.size(), 0.0f);
  for (uint32_t shard = 0; shard < map.shards(); ++shard) {
    for (uint32_t stripe = 0; stripe < map.stripes(shard); ++stripe) {
      const size_t begin = map.stripe(shard, stripe).begin;
      gradient[begin + kind.place] = -1.0f / kind.weight;
      if (kind.common > 0) {
        gradient[begin + kind.common] = -1.0f / kind.weight;
      }
    }
  }
  GradientView push(gradient);
  push.weight = kind.weight;
  std::vector<RowGradient> rows;
  std::optional<LedgerRows> own;
  if (!joined.client_options.tables.empty()) {
    rows = own.emplace(joined.client_options.tables, kind.place).gradient();
    push.rows = rows;
  }
  std::vector<float> parameters(map.size());
  FetchMarks base;  // unknown, of those that do not wait
  uint64_t pushes = 0;
  absl::Time due = absl::Now();
  while (!told_to_leave) {
    absl::SleepFor(due - absl::Now());
    due = std::max(due + pace.every, absl::Now() - pace.every);
    ledger->sent = pushes + 1;
    const absl::StatusOr<ParameterClient::PushResult> pushed = shards->Push(push, base);
    if (absl::IsDeadlineExceeded(pushed.status()) && !heart.taken_away()) {
      continue;  // no room: nothing was sent
    }
    RETURN_IF_ERROR(pushed.status());
    pushes = pushed->sequence;
    // In memory only all that was pushed is acknowledged.
    ledger->acknowledged = std::min(shards->acknowledged(), pushes);
    if (pace.waits) {
      RETURN_IF_ERROR(AwaitRound(shards, parameters, &base));
    }
    absl::SleepFor(pace.pause);
    if (pace.burst > 0 && pushes % pace.burst == 0) {
      RETURN_IF_ERROR(AwaitAllDurable(shards));
    }
  }
  ledger->sent = pushes;
  RETURN_IF_ERROR(shards->AwaitDurable(kDurableIn).status());
  ledger->acknowledged = std::min(shards->acknowledged(), pushes);
  return absl::OkStatus();
}

absl::Status SetOptions(const Cluster& cluster, uint64_t window_bytes, bool waits,
                        JoinedJob* joined) {
  ParameterClientOptions& options = joined->client_options;
  options.deadline = absl::Milliseconds(cluster.rpc_deadline_ms());
  options.keep_bytes = joined->keep_pushes ? window_bytes : 0;
  if (waits) {
    options.round_patience = absl::InfiniteDuration();  // no round ends without it
  }
  ASSIGN_OR_RETURN(options.tables, TableMaps(joined->layout.tables(), options.map.shards()));
  return absl::OkStatus();
}

absl::Status Run(std::span<const char* const> args) {
  std::string cluster_file, ledger_file;
  uint32_t pause_us = 0, every_us = 0, burst = 0, window_mib = 64, light = 0;
  bool waits = false;
  std::string settings_file, job;
  uint32_t read = 0;
  Kind kind;
  FlagSet flags("ledger_pusher --cluster=FILE --place=N --ledger=FILE [flags]");
  flags.Add("cluster", &cluster_file, "the cluster file; the cluster is open");
  flags.Add("place", &kind.place, "of each stripe, which nobody else has");
  flags.Add("ledger", &ledger_file, "where it keeps its books");
  flags.Add("pause_us", &pause_us, "between two pushes");
  flags.Add("every_us", &every_us, "a push, and no more");
  flags.Add("burst", &burst, "pushes, after which it waits until all are durable; 0: none");
  flags.Add("window_mib", &window_mib, "for pushes that are not durable");
  flags.Add("common", &kind.common, "the place of all pushers, where it pushes too; 0: none");
  flags.Add("waits", &waits, "after each push until its round is over");
  flags.Add("light", &light, "N: each push is 2^N, with the weight 2^-N");
  flags.Add("settings", &settings_file, "of the job with a table that it enters");
  flags.Add("read", &read, "places, whose rows are told; nothing is pushed");
  flags.Add("job", &job, "whose rows these are");
  RETURN_IF_ERROR(flags.Parse(args).status());
  kind.weight = std::ldexp(1.0f, -static_cast<int>(light));
  ASSIGN_OR_RETURN(const LoadedCluster loaded, LoadCluster(cluster_file));
  const Cluster& cluster = loaded.cluster;
  if (read > 0) {
    return PrintRows(cluster.coordinator().address(), job, read);
  }
  ASSIGN_OR_RETURN(Ledger* const ledger, MapLedger(ledger_file));
  const std::unique_ptr<ReplicaClient> coordinator = ReplicaClient::Create(
      cluster.coordinator().address(), absl::Milliseconds(cluster.lost_after_ms()));
  ReplicaMembership::Options member{.cluster = cluster.name(),
                                    .guest = RandomId(),
                                    .host = "ledger",
                                    .pid = static_cast<uint32_t>(getpid())};
  if (!settings_file.empty()) {
    std::ifstream file(settings_file);
    const std::string settings{std::istreambuf_iterator<char>(file), {}};
    ASSIGN_OR_RETURN(const EnterReply entered,
                     EnterTables(coordinator.get(), settings, member.guest));
    member.enters_job = entered.job();
    member.enters_job_term = entered.job_term();
  }
  ReplicaMembership membership(member);
  ASSIGN_OR_RETURN(JoinedJob joined, JoinJob(coordinator.get(), &membership, {}));
  RETURN_IF_ERROR(SetOptions(cluster, uint64_t{window_mib} << 20, waits, &joined));
  ASSIGN_OR_RETURN(const std::unique_ptr<ParameterClient> shards,
                   ParameterClient::Create(joined.client_options));
  ledger->worker = joined.session.worker();
  ledger->incarnation = joined.session.incarnation();
  ledger->began = 1;
  absl::Status status;
  {
    const Heart heart(coordinator.get(), &membership, joined.session, shards.get());
    const Pace pace{absl::Microseconds(pause_us), absl::Microseconds(every_us), burst, waits};
    status = PushOn(shards.get(), joined, kind, pace, heart, ledger);
    if (heart.taken_away()) {
      return absl::AbortedError(absl::StrCat("the session was taken away; ", status.message()));
    }
  }
  HeartbeatRequest goodbye = membership.MakeRequest();
  goodbye.set_leaving(true);
  RETURN_IF_ERROR(status);
  return coordinator->Heartbeat(goodbye).status();
}

}  // namespace
}  // namespace monsoon

int main(int argc, char** argv) {
  signal(SIGTERM, [](int) { monsoon::told_to_leave = true; });
  const absl::Status status = monsoon::Run(std::span<const char* const>(argv + 1, argv + argc));
  if (!status.ok()) {
    std::fprintf(stderr, "ledger_pusher: %s\n", std::string(status.message()).c_str());
  }
  return status.ok() ? 0 : 3;
}
