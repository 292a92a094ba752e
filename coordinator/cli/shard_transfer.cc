#include "coordinator/cli/shard_transfer.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "common/base/mutex.h"
#include "common/base/status.h"
#include "common/model/shard_map.h"
#include "common/model/stripe_versions.h"
#include "coordinator/client/job_location.h"
#include "ps_server/client/parameter_client.h"

namespace monsoon {
namespace {

// Of a job that is submitted with its initial parameters: nobody else writes it.
constexpr uint64_t kOnlyWriter = 1;

// Of a table, in one exchange with the shards: 4 MiB, some frames.
constexpr uint64_t kFloatsAtOnce = 1 << 20;

constexpr absl::Duration kGuardInterval = absl::Milliseconds(500);

// Cancels a fetch in progress once its shards are known to be gone.
class FetchGuard {
 public:
  // Both outlive this.
  FetchGuard(const std::function<absl::Status()>& still_there, ParameterClient* client)
      : still_there_(still_there), client_(client), thread_([this] { Run(); }) {}
  ~FetchGuard() { (void)End(); }

  // The fetch is over. What ended it, or OK.
  absl::Status End() {
    {
      MutexLock lock(&mutex_);
      ended_ = true;
    }
    changed_.NotifyAll();
    if (thread_.joinable()) {
      thread_.join();
    }
    MutexLock lock(&mutex_);
    return gone_;
  }

 private:
  void Run() {
    while (true) {
      {
        MutexLock lock(&mutex_);
        const bool ended = changed_.WaitFor(&mutex_, kGuardInterval, [this] {
          mutex_.AssertHeld();
          return ended_;
        });
        if (ended) {
          return;
        }
      }
      const absl::Status status = still_there_();
      MutexLock lock(&mutex_);
      if (!status.ok() && !ended_) {
        gone_ = status;
        client_->Cancel();
        return;
      }
    }
  }

  const std::function<absl::Status()>& still_there_;
  ParameterClient* const client_;
  Mutex mutex_;
  CondVar changed_;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status gone_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;  // last: it uses the others
};

class ShardTransfer : public ModelTransfer {
 public:
  ShardTransfer(absl::Duration deadline, std::function<std::shared_ptr<Tls>()> tls)
      : deadline_(deadline), tls_(std::move(tls)) {}

  absl::StatusOr<std::vector<float>> Fetch(
      const JobLocation& location, const ParameterLayout& layout,
      const std::function<absl::Status()>& still_there) override {
    ASSIGN_OR_RETURN(const std::unique_ptr<ParameterClient> client, Connect(location, layout));
    std::vector<float> parameters(layout.size());
    FetchMarks marks;
    FetchGuard guard(still_there, client.get());
    const absl::Status fetched = client->Fetch(parameters, &marks, nullptr);
    RETURN_IF_ERROR(guard.End());
    RETURN_IF_ERROR(fetched);
    RETURN_IF_ERROR(CheckEpochs(location, marks));
    return parameters;
  }

  absl::Status FetchTable(const JobLocation& location, const ParameterLayout& layout,
                          uint32_t table, TakeRowRun take,
                          const std::function<absl::Status()>& still_there) override {
    ASSIGN_OR_RETURN(ParameterClientOptions options, ReadOnlyOptions(location, layout));
    options.deadline = deadline_;
    options.tls = tls_ == nullptr ? nullptr : tls_();
    options.shard_epochs = {location.shard_epoch().begin(), location.shard_epoch().end()};
    ASSIGN_OR_RETURN(const std::unique_ptr<ParameterClient> client,
                     ParameterClient::Create(std::move(options)));
    FetchGuard guard(still_there, client.get());
    const absl::Status fetched = FetchRuns(client.get(), layout.tables()[table], table, take);
    RETURN_IF_ERROR(guard.End());
    return fetched;
  }

  absl::Status Write(const JobLocation& location, const ParameterLayout& layout,
                     const InitialValues& values) override {
    ASSIGN_OR_RETURN(const ShardMap map, ShardMapOf(location, layout));
    ASSIGN_OR_RETURN(const std::unique_ptr<ParameterClient> client, Connect(location, layout));
    ParameterClient::WriteOptions options;
    if (values.map.has_value()) {
      options.versions = VersionsOn(map, *values.map, values.versions);
    }
    options.writer = kOnlyWriter;
    RETURN_IF_ERROR(client->Write(values.parameters, options));
    for (size_t at = 0; at < values.state.size(); at += layout.size()) {
      ++options.slot;
      RETURN_IF_ERROR(client->Write(std::span(values.state).subspan(at, layout.size()), options));
    }
    if (values.rows != nullptr) {
      RETURN_IF_ERROR(values.rows([&](const RowRun& run) {
        return client->WriteRows({run.table, run.first_row, run.values, run.sums},
                                 {.writer = kOnlyWriter});
      }));
    }
    return client->Seal(values.parameters, kOnlyWriter);
  }

 private:
  static absl::Status FetchRuns(ParameterClient* client, const TableInfo& table, uint32_t index,
                                TakeRowRun take) {
    const uint64_t most = std::max<uint64_t>(1, kFloatsAtOnce / table.columns);
    std::vector<uint64_t> rows;
    std::vector<float> values;
    for (uint64_t first = 0; first < table.rows; first += rows.size()) {
      rows.resize(std::min(most, table.rows - first));
      std::iota(rows.begin(), rows.end(), first);
      values.resize(rows.size() * table.columns);
      const RowRequest wanted[] = {{index, rows, values}};
      RETURN_IF_ERROR(client->FetchRows(wanted, nullptr));
      RETURN_IF_ERROR(take({.table = index, .first_row = first, .values = values, .sums = {}}));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<std::unique_ptr<ParameterClient>> Connect(const JobLocation& location,
                                                           const ParameterLayout& layout) const {
    ASSIGN_OR_RETURN(ParameterClientOptions options, ReadOnlyOptions(location, layout));
    options.deadline = deadline_;
    options.tls = tls_ == nullptr ? nullptr : tls_();
    return ParameterClient::Create(std::move(options));
  }

  // A shard that was started anew in between holds other parameters.
  static absl::Status CheckEpochs(const JobLocation& location, const FetchMarks& marks) {
    for (size_t shard = 0; shard < marks.shard.size(); ++shard) {
      for (const StripeMark& mark : marks.shard[shard]) {
        if (static_cast<int>(shard) >= location.shard_epoch_size() ||
            mark.shard_epoch != location.shard_epoch(static_cast<int>(shard))) {
          return absl::UnavailableError(absl::StrCat(
              location.job(), ": ps/", shard, " at ", location.address(static_cast<int>(shard)),
              " has been started anew and no longer holds the job's parameters"));
        }
      }
    }
    return absl::OkStatus();
  }

  const absl::Duration deadline_;
  const std::function<std::shared_ptr<Tls>()> tls_;  // may be null
};

}  // namespace

std::unique_ptr<ModelTransfer> MakeShardTransfer(absl::Duration deadline,
                                                 std::function<std::shared_ptr<Tls>()> tls) {
  return std::make_unique<ShardTransfer>(deadline, std::move(tls));
}

}  // namespace monsoon
