// Environment: all that a command touches outside of itself, so that tests can
// stand in for the cluster, the terminal and the time.
#pragma once

#include <functional>
#include <istream>
#include <memory>
#include <optional>
#include <ostream>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/checkpoint/stored_rows.h"
#include "common/config/cluster.h"
#include "common/config/state_dir.h"
#include "common/model/parameter_layout.h"
#include "common/model/shard_map.h"
#include "common/model/stripe_versions.h"
#include "common/process/subprocess.h"
#include "common/storage/storage.h"
#include "coordinator/chaos/cluster_watch.h"
#include "coordinator/chaos/task_process.h"
#include "coordinator/client/job_client.h"
#include "coordinator/client/join_client.h"
#include "coordinator/client/member_client.h"

namespace monsoon {

// What a job begins with where its client writes it. Vectors have layout.size() floats.
struct InitialValues {
  std::vector<float> parameters;
  // Of a job that is resumed: the optimizer's state, slot after slot, empty where it begins
  // anew; and the versions of the stripes, with the map that they are of.
  std::vector<float> state;
  std::optional<ShardMap> map;
  StripeVersions versions;
  // Gives the rows of tables that are not as they begin, each with its sum; null: there are none.
  std::function<absl::Status(TakeRowRun take)> rows;
};

// Moves whole parameter vectors between this process and a job's shards. The
// vectors have layout.size() floats.
class ModelTransfer {
 public:
  virtual ~ModelTransfer() = default;
  // Works on a running job. UNAVAILABLE when a shard has been started anew
  // since `location` was told. `still_there` is asked now and then, from another
  // thread: its error ends the fetch.
  virtual absl::StatusOr<std::vector<float>> Fetch(
      const JobLocation& location, const ParameterLayout& layout,
      const std::function<absl::Status()>& still_there) = 0;
  // The same of all rows of one of the layout's tables, which `take` gets in their order, run
  // after run and without sums. UNAVAILABLE once a shard's life is not that of `location`.
  virtual absl::Status FetchTable(const JobLocation& location, const ParameterLayout& layout,
                                  uint32_t table, TakeRowRun take,
                                  const std::function<absl::Status()>& still_there) = 0;
  // Only before the job's first session. Versions become those of the shards' own
  // stripes.
  virtual absl::Status Write(const JobLocation& location, const ParameterLayout& layout,
                             const InitialValues& values) = 0;
};

struct TerminalSize {
  int columns = 80;
  int rows = 24;

  bool operator==(const TerminalSize&) const = default;
};

struct Environment {
  std::ostream* out = nullptr;  // data
  std::ostream* err = nullptr;  // messages and progress
  std::istream* in = nullptr;
  bool terminal = false;  // `out` is one that moves its cursor as told
  bool color = false;     // a terminal, and NO_COLOR is unset
  // Of the terminal, as it is now: people resize windows.
  std::function<TerminalSize()> terminal_size;

  std::string self_path;  // this executable, links resolved
  std::string argv0;      // as it was called
  // The last part of that, by which its messages name it: the wheel's is `monsoon`.
  std::string program = "coordinator";
  std::string default_cluster;  // MONSOON_CLUSTER; may be empty
  // What says where state is kept, if the cluster file does not.
  EnvironmentLookup variable;
  Storage* storage = nullptr;  // where checkpoints are
  // FileLock::IsShared.
  std::function<bool(const std::string& path)> is_shared_lock_held;

  // As JobClient::Create, with this user's credential (OwnTls) unless `insecure`.
  std::function<absl::StatusOr<std::unique_ptr<JobClient>>(
      const std::string& address, absl::Duration deadline, const std::string& cluster,
      bool insecure)>
      connect;
  // Likewise, as MemberClient::Create.
  std::function<absl::StatusOr<std::unique_ptr<MemberClient>>(
      const std::string& address, absl::Duration deadline, const std::string& cluster,
      bool insecure)>
      connect_members;
  // For `join`.
  JoinClient* join_client = nullptr;
  // Whether a host's name is known; for `validate`.
  HostCheck host_check;
  ModelTransfer* transfer = nullptr;
  std::function<absl::StatusOr<CapturedRun>(const std::vector<std::string>& argv)> run_and_capture;
  // For `chaos`: the tasks' processes on this machine, which `host` names, and who asks the
  // coordinator meanwhile.
  std::function<absl::StatusOr<std::unique_ptr<TaskProcesses>>()> task_processes;
  std::function<std::unique_ptr<ClusterWatch>(ClusterQuestion question)> watch_cluster;
  std::string host;
  // Waits for the time, or until SIGINT or SIGTERM arrives and is returned. Ends
  // early, with nothing, when the terminal changes its size. Before the first call
  // the signals have their default action.
  std::function<std::optional<int>(absl::Duration)> wait;
  // Another one with each call, and in each process.
  std::function<std::string()> draw_id;
  const Clock* clock = nullptr;
};

}  // namespace monsoon
