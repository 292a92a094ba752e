// A cluster for the tests of commands: a job client that plays given answers,
// a parameter store in memory, and an environment around them.
#pragma once

#include <signal.h>

#include <algorithm>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/clock.h"
#include "common/storage/simulated_storage.h"
#include "coordinator/chaos/cluster_watch.h"
#include "coordinator/chaos/task_process.h"
#include "coordinator/cli/cli.h"
#include "coordinator/cli/environment.h"
#include "proto/job.pb.h"

namespace monsoon {

// What the fake coordinator holds; outlives the clients.
struct FakeCoordinator {
  absl::Status down;  // if not OK, every call answers this
  std::vector<SubmitRequest> submitted;
  std::deque<absl::Status> submit_errors;  // of the next calls
  SubmitReply data_found;                  // what workers have found, of all of them
  std::vector<std::string> calls;          // "Cancel lenet-1"
  ListReply list;
  JobLocation location;
  absl::Status locate_error;
  JobState cancel_state = CANCELLED;
  absl::StatusOr<CheckpointOrder> checkpoint = CheckpointOrder();
  absl::Status drain_error;
  absl::StatusOr<SetReply> set = SetReply();
  // Answers of GiveUp in order; the last one repeats.
  std::deque<absl::StatusOr<GiveUpReply>> given_up;
  // What Info says of worker/1 in order; the last one repeats.
  std::deque<std::string> worker_states;
  // Answers of Describe in order; the last one repeats.
  std::deque<absl::StatusOr<JobDescription>> descriptions;
  // If set, what Info and Describe answer.
  std::function<InfoReply()> info;
  std::function<absl::StatusOr<JobDescription>()> describe;
};

class FakeJobClient : public JobClient {
 public:
  explicit FakeJobClient(FakeCoordinator* coordinator) : coordinator_(*coordinator) {}

  absl::StatusOr<SubmitReply> Submit(const SubmitRequest& request) override {
    coordinator_.submitted.push_back(request);
    if (!coordinator_.submit_errors.empty()) {
      const absl::Status error = coordinator_.submit_errors.front();
      coordinator_.submit_errors.pop_front();
      return error;
    }
    SubmitReply reply = coordinator_.data_found;
    if (reply.data_error().empty()) {
      reply.set_job(absl::StrCat(request.job().name(), "-1"));
      reply.set_state(PENDING);
    }
    return Answer(absl::StrCat("Submit ", request.job().name()), reply);
  }
  absl::StatusOr<JobSummary> Start(const std::string& job) override {
    return Answer(absl::StrCat("Start ", job), Summary(job, PENDING));
  }
  absl::StatusOr<ListReply> List() override { return Answer("List", coordinator_.list); }
  absl::StatusOr<JobDescription> Describe(const std::string& job) override {
    if (coordinator_.describe) {
      const absl::StatusOr<JobDescription> description = coordinator_.describe();
      return description.ok() ? Answer(absl::StrCat("Describe ", job), *description) : description;
    }
    if (coordinator_.descriptions.empty()) {
      return absl::NotFoundError(absl::StrCat("no job \"", job, "\""));
    }
    absl::StatusOr<JobDescription> description = coordinator_.descriptions.front();
    if (coordinator_.descriptions.size() > 1) {
      coordinator_.descriptions.pop_front();
    }
    return description.ok() ? Answer(absl::StrCat("Describe ", job), *description) : description;
  }
  absl::StatusOr<JobSummary> Cancel(const std::string& job) override {
    return Answer(absl::StrCat("Cancel ", job), Summary(job, coordinator_.cancel_state));
  }
  absl::StatusOr<JobSummary> Delete(const std::string& job) override {
    return Answer(absl::StrCat("Delete ", job), Summary(job, SUCCEEDED));
  }
  absl::StatusOr<CheckpointOrder> Checkpoint(const std::string& job) override {
    if (!coordinator_.checkpoint.ok()) {
      return coordinator_.checkpoint;
    }
    return Answer(absl::StrCat("Checkpoint ", job), *coordinator_.checkpoint);
  }
  absl::StatusOr<JobLocation> Locate(const std::string& job) override {
    if (!coordinator_.locate_error.ok()) {
      return coordinator_.locate_error;
    }
    return Answer(absl::StrCat("Locate ", job), coordinator_.location);
  }
  absl::StatusOr<TaskStatus> Drain(uint32_t worker) override {
    if (!coordinator_.drain_error.ok()) {
      return coordinator_.drain_error;
    }
    TaskStatus task;
    task.set_task(absl::StrCat("worker/", worker));
    task.set_state("DRAINING");
    return Answer(absl::StrCat("Drain ", worker), task);
  }
  absl::StatusOr<GiveUpReply> GiveUp(const std::string& task, const std::string& by) override {
    if (coordinator_.given_up.empty()) {
      return absl::FailedPreconditionError(absl::StrCat("nothing waits for ", task));
    }
    const absl::StatusOr<GiveUpReply> reply = coordinator_.given_up.front();
    if (coordinator_.given_up.size() > 1) {
      coordinator_.given_up.pop_front();
    }
    return reply.ok() ? Answer(absl::StrCat("GiveUp ", task, " by ", by), *reply) : reply;
  }
  absl::StatusOr<SetReply> Set(const std::string& job,
                               const std::vector<std::string>& settings) override {
    return coordinator_.set.ok()
               ? Answer(absl::StrCat("Set ", job, " ", absl::StrJoin(settings, " ")),
                        *coordinator_.set)
               : coordinator_.set;
  }
  absl::StatusOr<InfoReply> Info() override {
    if (coordinator_.info) {
      return Answer("Info", coordinator_.info());
    }
    InfoReply reply;
    if (!coordinator_.worker_states.empty()) {
      TaskStatus* const task = reply.add_task();
      task->set_task("worker/1");
      task->set_state(coordinator_.worker_states.front());
      if (coordinator_.worker_states.size() > 1) {
        coordinator_.worker_states.pop_front();
      }
    }
    return Answer("Info", reply);
  }

 private:
  static JobSummary Summary(const std::string& job, JobState state) {
    JobSummary summary;
    summary.set_job(job);
    summary.set_state(state);
    return summary;
  }

  template <typename Reply>
  absl::StatusOr<Reply> Answer(const std::string& call, const Reply& reply) {
    coordinator_.calls.push_back(call);
    if (!coordinator_.down.ok()) {
      return coordinator_.down;
    }
    return reply;
  }

  FakeCoordinator& coordinator_;
};

class FakeTransfer : public ModelTransfer {
 public:
  absl::StatusOr<std::vector<float>> Fetch(
      const JobLocation& location, const ParameterLayout& layout,
      const std::function<absl::Status()>& still_there) override {
    if (during_fetch) {
      during_fetch();
    }
    if (const absl::Status there = still_there(); !there.ok()) {
      return there;
    }
    return status.ok() ? absl::StatusOr<std::vector<float>>(parameters) : status;
  }
  // Of `rows`, in runs of two.
  absl::Status FetchTable(const JobLocation&, const ParameterLayout& layout, uint32_t table,
                          TakeRowRun take, const std::function<absl::Status()>&) override {
    if (during_fetch) {
      during_fetch();
    }
    const uint32_t columns = layout.tables()[table].columns;
    const std::span<const float> values(rows.at(table));
    for (uint64_t row = 0; row * columns < values.size() && status.ok(); row += 2) {
      const auto rest = values.subspan(row * columns);
      const auto run = rest.first(std::min<size_t>(rest.size(), 2 * columns));
      if (const absl::Status taken = take({table, row, run, {}}); !taken.ok()) {
        return taken;
      }
    }
    return status;
  }
  absl::Status Write(const JobLocation& location, const ParameterLayout& layout,
                     const InitialValues& values) override {
    parameters = values.parameters;
    written = values;
    written_rows.clear();
    if (values.rows != nullptr) {
      const absl::Status read = values.rows([&](const RowRun& run) {
        written_rows.push_back({run.table,
                                run.first_row,
                                {run.values.begin(), run.values.end()},
                                {run.sums.begin(), run.sums.end()}});
        return absl::OkStatus();
      });
      if (!read.ok()) {
        return read;
      }
    }
    return status;
  }

  absl::Status status;
  std::function<void()> during_fetch;
  std::vector<float> parameters;
  InitialValues written;
  struct Rows {
    uint32_t table = 0;
    uint64_t first_row = 0;
    std::vector<float> values;
    std::vector<float> sums;
    bool operator==(const Rows&) const = default;
  };
  std::vector<Rows> written_rows;
  std::vector<std::vector<float>> rows;  // [table] of the shards
};

// What `chaos` does to the tasks' processes; outlives them.
struct FakeSignals {
  std::vector<std::string> sent;             // "KILL ps/0 11"
  std::map<std::string, absl::Status> open;  // of these tasks' processes, in place of them
  std::function<void(const std::string& signal, const TaskView& task)> on_signal;
};

class FakeTaskProcess : public TaskProcess {
 public:
  FakeTaskProcess(TaskView task, FakeSignals* signals)
      : task_(std::move(task)), signals_(*signals) {}
  ~FakeTaskProcess() override { Continue().IgnoreError(); }

  absl::Status Kill() override { return Send("KILL"); }
  absl::Status Terminate() override { return Send("TERM"); }
  absl::Status Stop() override {
    stopped_ = true;
    return Send("STOP");
  }
  absl::Status Continue() override {
    return std::exchange(stopped_, false) ? Send("CONT") : absl::OkStatus();
  }

 private:
  absl::Status Send(const std::string& signal) {
    signals_.sent.push_back(absl::StrCat(signal, " ", task_.name, " ", task_.pid));
    if (signals_.on_signal) {
      signals_.on_signal(signal, task_);
    }
    return absl::OkStatus();
  }

  const TaskView task_;
  FakeSignals& signals_;
  bool stopped_ = false;
};

class FakeTaskProcesses : public TaskProcesses {
 public:
  explicit FakeTaskProcesses(FakeSignals* signals) : signals_(*signals) {}

  absl::StatusOr<std::unique_ptr<TaskProcess>> Open(const TaskView& task) override {
    if (const auto error = signals_.open.find(task.name); error != signals_.open.end()) {
      return error->second;
    }
    return std::make_unique<FakeTaskProcess>(task, &signals_);
  }

 private:
  FakeSignals& signals_;
};

// One call of the command line; waits take no time.
class CliRunner {
 public:
  CliRunner() {
    environment_.out = &out_;
    environment_.err = &err_;
    environment_.self_path = "/nowhere/bin/coordinator/coordinator";
    environment_.connect = [this](const std::string& address, absl::Duration,
                                  const std::string& cluster, bool) {
      connected_to = address;
      connected_cluster = cluster;
      return std::make_unique<FakeJobClient>(&coordinator);
    };
    environment_.variable = [this](const std::string& name) -> std::optional<std::string> {
      const auto found = variables.find(name);
      return found == variables.end() ? std::nullopt : std::optional(found->second);
    };
    environment_.storage = &storage;
    environment_.is_shared_lock_held = [this](const std::string& path) {
      return locked.contains(path);
    };
    environment_.in = &in;
    environment_.draw_id = [] { return "drawn"; };
    environment_.terminal_size = [this] { return terminal_size; };
    environment_.transfer = &transfer;
    environment_.run_and_capture = [this](const std::vector<std::string>& argv) {
      ran = argv;
      return run_result;
    };
    environment_.task_processes = [this] { return std::make_unique<FakeTaskProcesses>(&signals); };
    environment_.watch_cluster = &WatchOnDemand;
    environment_.host = "here";
    environment_.wait = [this](absl::Duration timeout) -> std::optional<int> {
      clock.Advance(timeout);
      waited += timeout;
      return waited >= signal_after ? std::optional<int>(signal) : std::nullopt;
    };
    environment_.clock = &clock;
  }

  int Run(const std::vector<const char*>& args) {
    out_.str("");
    err_.str("");
    return RunCli(ClientCommands(), args, &environment_);
  }
  std::string out() const { return out_.str(); }
  std::string err() const { return err_.str(); }
  Environment& environment() { return environment_; }

  FakeCoordinator coordinator;
  FakeTransfer transfer;
  FakeSignals signals;
  SimulatedStorage storage;
  std::map<std::string, std::string> variables;
  std::set<std::string> locked;  // files that somebody holds
  ManualClock clock;
  std::istringstream in;
  TerminalSize terminal_size;
  std::string connected_to;
  std::string connected_cluster;
  std::vector<std::string> ran;
  absl::StatusOr<CapturedRun> run_result = CapturedRun{};
  absl::Duration waited;
  absl::Duration signal_after = absl::InfiniteDuration();
  int signal = SIGINT;

 private:
  std::ostringstream out_;
  std::ostringstream err_;
  Environment environment_;
};

}  // namespace monsoon
