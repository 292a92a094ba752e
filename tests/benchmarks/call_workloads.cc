#include <unistd.h>

#include <array>
#include <atomic>
#include <latch>
#include <memory>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/mutex.h"
#include "common/base/status.h"
#include "tests/benchmarks/expected_model.h"
#include "tests/benchmarks/meters.h"
#include "tests/benchmarks/workloads.h"

namespace monsoon {
namespace {

// One cache line.
constexpr uint32_t kSmallBytes = 64;
constexpr uint64_t kSmallFloats = kSmallBytes / sizeof(float);
// So many calls a look at the clock.
constexpr uint32_t kCallsPerLook = 100;

constexpr uint64_t kPushFloats = 1024;

Contender FetchContender(const char* name, BenchmarkShard* shard, ParameterClient* client,
                         std::array<float, kSmallFloats>* parameters) {
  Contender contender;
  contender.name = name;
  contender.server = shard->pid();
  contender.prepare = [parameters] {
    ExpectedModel::Spoil(*parameters);
    return absl::OkStatus();
  };
  contender.operate = [client, parameters]() -> absl::Status {
    for (uint32_t i = 0; i < kCallsPerLook; ++i) {
      RETURN_IF_ERROR(client->Fetch(*parameters, nullptr, nullptr));
    }
    return absl::OkStatus();
  };
  contender.check = [parameters] { return ExpectedModel().CheckAll(*parameters); };
  return contender;
}

Contender BareContender(BareCallPeer* peer) {
  Contender contender;
  contender.name = "bare_call";
  contender.server = peer->pid();
  contender.operate = [peer]() -> absl::Status {
    for (uint32_t i = 0; i < kCallsPerLook; ++i) {
      RETURN_IF_ERROR(peer->Call(kSmallBytes));
    }
    return absl::OkStatus();
  };
  return contender;
}

// A number of clients that push at once, each on a thread of its own, as so
// many workers would.
class Crowd {
 public:
  Crowd(BenchmarkShard* shard, const TestJob& job, uint32_t clients, uint32_t pushes_each)
      : shard_(shard), job_(job), size_(clients), pushes_each_(pushes_each) {}

  // Connects all and pushes once each; then threads wait for Run.
  absl::Status Gather() {
    gradient_.resize(kPushFloats);
    ExpectedModel::Fill(ExpectedModel().gradient(), gradient_);
    clients_.clear();
    for (uint32_t i = 0; i < size_; ++i) {
      ASSIGN_OR_RETURN(std::unique_ptr<ParameterClient> client,
                       shard_->Join(job_, i, Transport::GRPC));
      RETURN_IF_ERROR(client->Push(gradient_, {}).status());
      clients_.push_back(std::move(client));
    }
    ASSIGN_OR_RETURN(before_, shard_->JobStatus(job_));
    start_ = std::make_unique<std::latch>(1);
    for (const auto& client : clients_) {
      threads_.emplace_back([this, &client] { PushAll(client.get()); });
    }
    return absl::OkStatus();
  }

  absl::Status Run() {
    start_->count_down();
    threads_.clear();  // joins
    MutexLock lock(&mutex_);
    return error_;
  }

  // Every push was applied, and once. Disconnects.
  absl::Status Dismiss() {
    clients_.clear();
    ASSIGN_OR_RETURN(const ShardJobStatus after, shard_->JobStatus(job_));
    const uint64_t applied = after.applied() - before_.applied();
    if (applied != uint64_t{size_} * pushes_each_ || after.refused() != before_.refused()) {
      return absl::DataLossError(
          absl::StrCat(applied, " pushes applied of ", size_, " x ", pushes_each_));
    }
    return absl::OkStatus();
  }

 private:
  void PushAll(ParameterClient* client) {
    start_->wait();
    for (uint32_t i = 0; i < pushes_each_; ++i) {
      const absl::Status status = client->Push(gradient_, {}).status();
      if (!status.ok()) {
        MutexLock lock(&mutex_);
        error_ = status;
        return;
      }
    }
  }

  BenchmarkShard* const shard_;
  const TestJob job_;
  const uint32_t size_;
  const uint32_t pushes_each_;
  std::vector<float> gradient_;
  std::vector<std::unique_ptr<ParameterClient>> clients_;
  ShardJobStatus before_;
  std::unique_ptr<std::latch> start_;
  Mutex mutex_;
  absl::Status error_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::jthread> threads_;
};

}  // namespace

absl::Status RunCalls(const BenchmarkOptions& options, BenchmarkShard* shard, BareCallPeer* peer,
                      std::vector<Workload>* out) {
  Workload workload = {.name = "call_64B", .bytes = kSmallBytes};
  std::array<float, kSmallFloats> parameters;
  ASSIGN_OR_RETURN(const TestJob job, shard->CreateJob("call", kSmallFloats));
  ASSIGN_OR_RETURN(const auto grpc, shard->Join(job, /*worker=*/0, Transport::GRPC));
  ASSIGN_OR_RETURN(const auto chosen, shard->Join(job, /*worker=*/1, Transport::AUTO));
  RETURN_IF_ERROR(chosen->Fetch(parameters, nullptr, nullptr));
  std::vector<Contender> contenders = {BareContender(peer),
                                       FetchContender("grpc", shard, grpc.get(), &parameters)};
  if (ShareMemoryFile(getpid(), shard->pid())) {
    contenders.push_back(FetchContender(kSharedMemory, shard, chosen.get(), &parameters));
  } else {
    workload.absent[kSharedMemory] = kNoSharedMemory;
  }
  const Turn turn = {
      .operations = 5, .seconds = options.quick ? 0 : 0.5, .operations_per_call = kCallsPerLook};
  RETURN_IF_ERROR(RunRounds(options.rounds, turn, contenders, &workload));
  out->push_back(std::move(workload));
  return shard->DeleteJob(job);
}

absl::Status RunConnections(const BenchmarkOptions& options, BenchmarkShard* shard,
                            uint64_t budget_bytes, std::vector<Workload>* out) {
  Workload workload = {.name = "connections", .bytes = kPushFloats * sizeof(float)};
  ASSIGN_OR_RETURN(const TestJob job, shard->CreateJob("connections", kPushFloats));
  const uint64_t before = ProcessMemory(shard->pid(), "VmRSS");
  const uint32_t pushes = options.quick ? 2048 : 16384;
  std::vector<std::unique_ptr<Crowd>> crowds;
  std::vector<Contender> contenders;
  for (const uint32_t clients : {8u, 256u}) {
    crowds.push_back(std::make_unique<Crowd>(shard, job, clients, pushes / clients));
    Crowd* const crowd = crowds.back().get();
    Contender contender;
    contender.name = absl::StrCat(clients);
    contender.server = shard->pid();
    contender.prepare = [crowd] { return crowd->Gather(); };
    contender.operate = [crowd] { return crowd->Run(); };
    contender.check = [crowd] { return crowd->Dismiss(); };
    contenders.push_back(std::move(contender));
  }
  const Turn turn = {.operations = 1, .seconds = 0, .operations_per_call = pushes};
  RETURN_IF_ERROR(RunRounds(options.rounds, turn, contenders, &workload));
  workload.facts["budget_bytes"] = static_cast<double>(budget_bytes);
  workload.facts["peak_bytes"] =
      static_cast<double>(ProcessMemory(shard->pid(), "VmHWM")) - static_cast<double>(before);
  out->push_back(std::move(workload));
  return shard->DeleteJob(job);
}

}  // namespace monsoon
