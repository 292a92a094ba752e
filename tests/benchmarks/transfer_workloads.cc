#include <unistd.h>

#include <cstring>
#include <functional>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "tests/benchmarks/expected_model.h"
#include "tests/benchmarks/meters.h"
#include "tests/benchmarks/workloads.h"

namespace monsoon {
namespace {

constexpr uint64_t kSpeechParameters = 41'777'152;
// To one shard, each for itself.
constexpr uint32_t kConnections[] = {1, 2, 4};

// One way to a model, and what the model must hold.
struct Path {
  std::string name;
  pid_t server = 0;
  std::function<absl::Status(std::span<float>)> fetch;
  std::function<absl::StatusOr<uint64_t>(std::span<const float>)> push;  // its number, from 1
  ExpectedModel expected;
  uint64_t pushes = 0;
  std::unique_ptr<ParameterClient> client;
  TestJob job;
};

// The worker's memory.
struct Buffers {
  explicit Buffers(uint64_t floats) : parameters(floats), gradient(floats) {
    ExpectedModel::Fill(ExpectedModel().gradient(), gradient);
  }
  std::vector<float> parameters;
  std::vector<float> gradient;
};

absl::Status PushOnce(Path* path, const Buffers& buffers) {
  ASSIGN_OR_RETURN(const uint64_t number, path->push(buffers.gradient));
  if (number != ++path->pushes) {
    return absl::DataLossError(absl::StrCat("push ", path->pushes, " counts as ", number));
  }
  return absl::OkStatus();
}

Contender FetchContender(Path* path, Buffers* buffers) {
  Contender contender;
  contender.name = path->name;
  contender.server = path->server;
  contender.prepare = [buffers] {
    ExpectedModel::Spoil(buffers->parameters);
    return absl::OkStatus();
  };
  contender.operate = [path, buffers] { return path->fetch(buffers->parameters); };
  contender.check = [path, buffers] { return path->expected.CheckSamples(buffers->parameters); };
  contender.finish = [path, buffers] { return path->expected.CheckAll(buffers->parameters); };
  return contender;
}

void AdvanceExpected(Path* path) {
  const std::unique_ptr<OptimizerKernel> kernel = BenchmarkKernel();
  path->expected.Push([&](uint64_t k, std::span<float> w, std::span<float> state,
                          std::span<const float> g) { kernel->Apply(k, w, state, g); });
}

Contender PushContender(Path* path, Buffers* buffers) {
  Contender contender;
  contender.name = path->name;
  contender.server = path->server;
  contender.operate = [path, buffers] { return PushOnce(path, *buffers); };
  contender.check = [path] {
    AdvanceExpected(path);
    return absl::OkStatus();
  };
  // All pushes of the turn, in all parameters.
  contender.finish = [path, buffers]() -> absl::Status {
    ExpectedModel::Spoil(buffers->parameters);
    RETURN_IF_ERROR(path->fetch(buffers->parameters));
    return path->expected.CheckAll(buffers->parameters);
  };
  return contender;
}

Contender StepContender(Path* path, Buffers* buffers) {
  Contender contender = FetchContender(path, buffers);
  contender.operate = [path, buffers]() -> absl::Status {
    RETURN_IF_ERROR(path->fetch(buffers->parameters));
    return PushOnce(path, *buffers);
  };
  // What was fetched is of before the push.
  contender.check = [path, buffers]() -> absl::Status {
    RETURN_IF_ERROR(path->expected.CheckSamples(buffers->parameters));
    AdvanceExpected(path);
    return absl::OkStatus();
  };
  contender.finish = PushContender(path, buffers).finish;
  return contender;
}

absl::StatusOr<std::unique_ptr<Path>> TcpPath(RawTcpPeer* tcp, uint64_t floats) {
  auto path = std::make_unique<Path>();
  path->name = "tcp";
  path->server = tcp->pid();
  RETURN_IF_ERROR(tcp->Create(floats));
  path->fetch = [tcp](std::span<float> parameters) { return tcp->Pull(parameters); };
  path->push = [tcp](std::span<const float> gradient) { return tcp->Push(gradient); };
  return path;
}

std::unique_ptr<Path> MemcpyPath(uint64_t floats) {
  auto path = std::make_unique<Path>();
  path->name = "memcpy";
  auto source = std::make_shared<std::vector<float>>(floats);
  ExpectedModel::Fill(path->expected.parameters(), *source);
  path->fetch = [source](std::span<float> parameters) {
    std::memcpy(parameters.data(), source->data(), parameters.size_bytes());
    return absl::OkStatus();
  };
  return path;
}

absl::StatusOr<std::unique_ptr<Path>> ProductPath(BenchmarkShard* shard, uint64_t floats,
                                                  std::string name, Transport transport,
                                                  uint32_t connections = 1) {
  auto path = std::make_unique<Path>();
  path->name = std::move(name);
  path->server = shard->pid();
  ASSIGN_OR_RETURN(path->job, shard->CreateJob(absl::StrCat(path->name, "-", floats), floats));
  ASSIGN_OR_RETURN(path->client, shard->Join(path->job, /*worker=*/0, transport, connections));
  ParameterClient* const client = path->client.get();
  path->fetch = [client](std::span<float> parameters) {
    return client->Fetch(parameters, nullptr, nullptr);
  };
  path->push = [client](std::span<const float> gradient) -> absl::StatusOr<uint64_t> {
    ASSIGN_OR_RETURN(const ParameterClient::PushResult result, client->Push(gradient, {}));
    if (result.duplicates != 0 || result.refused_invalid != 0) {
      return absl::DataLossError(
          absl::StrCat("a push was not applied once: ", result.first_refusal));
    }
    return result.sequence;
  };
  return path;
}

// All ways to a model of `floats`; those that are not there are noted in
// `absent`.
absl::StatusOr<std::vector<std::unique_ptr<Path>>> MakePaths(
    BenchmarkShard* shard, RawTcpPeer* tcp, uint64_t floats,
    std::map<std::string, std::string>* absent) {
  std::vector<std::unique_ptr<Path>> paths(2);
  ASSIGN_OR_RETURN(paths[0], TcpPath(tcp, floats));
  ASSIGN_OR_RETURN(paths[1], ProductPath(shard, floats, "grpc", Transport::GRPC));
  ASSIGN_OR_RETURN(std::unique_ptr<Path> chosen,
                   ProductPath(shard, floats, kSharedMemory, Transport::AUTO));
  std::vector<float> parameters(floats);
  RETURN_IF_ERROR(chosen->fetch(parameters));
  if (ShareMemoryFile(getpid(), shard->pid())) {
    paths.push_back(std::move(chosen));
  } else {
    (*absent)[kSharedMemory] = kNoSharedMemory;
    chosen->client.reset();
    RETURN_IF_ERROR(shard->DeleteJob(chosen->job));
  }
  return paths;
}

absl::Status DeleteJobs(BenchmarkShard* shard, const std::vector<std::unique_ptr<Path>>& paths) {
  for (const auto& path : paths) {
    if (path->client != nullptr) {
      path->client.reset();
      RETURN_IF_ERROR(shard->DeleteJob(path->job));
    }
  }
  return absl::OkStatus();
}

absl::Status RunSize(const BenchmarkOptions& options, uint64_t mib, BenchmarkShard* shard,
                     RawTcpPeer* tcp, std::vector<Workload>* out) {
  const uint64_t floats = (mib << 20) / sizeof(float);
  Workload fetch = {.name = absl::StrCat("fetch_", mib, "MiB"),
                    .bytes = static_cast<double>(mib << 20)};
  Workload push = {.name = absl::StrCat("push_", mib, "MiB"), .bytes = fetch.bytes};
  ASSIGN_OR_RETURN(const auto paths, MakePaths(shard, tcp, floats, &fetch.absent));
  push.absent = fetch.absent;
  const std::unique_ptr<Path> memcpy_path = MemcpyPath(floats);
  Buffers buffers(floats);
  std::vector<Contender> fetchers, pushers;
  for (const auto& path : paths) {
    fetchers.push_back(FetchContender(path.get(), &buffers));
    pushers.push_back(PushContender(path.get(), &buffers));
  }
  fetchers.push_back(FetchContender(memcpy_path.get(), &buffers));
  const Turn turn = {.operations = 5, .seconds = options.quick ? 0 : 0.4};
  RETURN_IF_ERROR(RunRounds(options.rounds, turn, fetchers, &fetch));
  RETURN_IF_ERROR(RunRounds(options.rounds, turn, pushers, &push));
  out->push_back(std::move(fetch));
  out->push_back(std::move(push));
  return DeleteJobs(shard, paths);
}

absl::Status RunSpeech(const BenchmarkOptions& options, BenchmarkShard* shard, RawTcpPeer* tcp,
                       std::vector<Workload>* out) {
  Workload step = {.name = "step_speech",
                   .bytes = 2.0 * sizeof(float) * static_cast<double>(kSpeechParameters)};
  ASSIGN_OR_RETURN(const auto paths, MakePaths(shard, tcp, kSpeechParameters, &step.absent));
  Buffers buffers(kSpeechParameters);
  std::vector<Contender> contenders;
  for (const auto& path : paths) {
    contenders.push_back(StepContender(path.get(), &buffers));
  }
  const Turn turn = {.operations = options.quick ? 1u : 3u, .seconds = 0};
  RETURN_IF_ERROR(RunRounds(options.rounds, turn, contenders, &step));
  out->push_back(std::move(step));
  return DeleteJobs(shard, paths);
}

// Plain and over TLS beside each other, by one connection and by several.
absl::Status RunSecuredSize(const BenchmarkOptions& options, uint64_t mib, BenchmarkShard* plain,
                            BenchmarkShard* secured, std::vector<Workload>* out) {
  const uint64_t floats = (mib << 20) / sizeof(float);
  Workload fetch = {.name = absl::StrCat("secured_fetch_", mib, "MiB"),
                    .bytes = static_cast<double>(mib << 20)};
  Workload push = {.name = absl::StrCat("secured_push_", mib, "MiB"), .bytes = fetch.bytes};
  Buffers buffers(floats);
  std::vector<std::unique_ptr<Path>> paths[2];
  std::vector<Contender> fetchers, pushers;
  for (const uint32_t connections : kConnections) {
    for (const bool tls : {false, true}) {
      ASSIGN_OR_RETURN(auto path, ProductPath(tls ? secured : plain, floats,
                                              absl::StrCat(tls ? "tls_" : "plain_", connections),
                                              Transport::GRPC, connections));
      fetchers.push_back(FetchContender(path.get(), &buffers));
      pushers.push_back(PushContender(path.get(), &buffers));
      paths[tls ? 1 : 0].push_back(std::move(path));
    }
  }
  const Turn turn = {.operations = 5, .seconds = options.quick ? 0 : 0.4};
  RETURN_IF_ERROR(RunRounds(options.rounds, turn, fetchers, &fetch));
  RETURN_IF_ERROR(RunRounds(options.rounds, turn, pushers, &push));
  out->push_back(std::move(fetch));
  out->push_back(std::move(push));
  RETURN_IF_ERROR(DeleteJobs(plain, paths[0]));
  return DeleteJobs(secured, paths[1]);
}

}  // namespace

absl::Status RunSecured(const BenchmarkOptions& options, BenchmarkShard* plain,
                        BenchmarkShard* secured, std::vector<Workload>* out) {
  for (const uint64_t mib : {16, 64}) {
    RETURN_IF_ERROR(RunSecuredSize(options, mib, plain, secured, out));
  }
  return absl::OkStatus();
}

absl::Status RunTransfers(const BenchmarkOptions& options, BenchmarkShard* shard, RawTcpPeer* tcp,
                          std::vector<Workload>* out) {
  for (const uint64_t mib : {16, 64}) {
    RETURN_IF_ERROR(RunSize(options, mib, shard, tcp, out));
  }
  return RunSpeech(options, shard, tcp, out);
}

}  // namespace monsoon
