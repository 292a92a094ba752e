// Fetch and push over each transport, client and shards in one process: bytes/s
// of parameters or gradients, and the round trip of a 64-byte fetch. `way`: 0 gRPC on unix sockets,
// 1 shared memory, 2 gRPC on loopback, 3 the same with TLS; `connections`: to each shard. CPU is of
// both ends. What is fetched and pushed is looked at. Rows beside each other are to be repeated
// with
// --benchmark_enable_random_interleaving.
#include <algorithm>
#include <memory>
#include <span>
#include <vector>

#include "benchmark/benchmark.h"
#include "common/base/check.h"
#include "common/base/xxh3.h"
#include "ps_server/testing/test_shards.h"

namespace monsoon {
namespace {

struct Setup {
  std::unique_ptr<TestShards> shards;
  TestJob job;
  std::unique_ptr<ParameterClient> client;
};

TestShardsOptions OverWay(int64_t way, uint32_t shards, int64_t connections = 1) {
  TestShardsOptions options;
  options.connections = static_cast<uint32_t>(connections);
  options.shards = shards;
  options.link = way < 2 ? TestLink::kUnix : way == 2 ? TestLink::kTcp : TestLink::kTls;
  options.transport = way == 1 ? Transport::SHARED_MEMORY : Transport::GRPC;
  return options;
}

// A model of range(0) KiB on range(1) shards, with Adagrad, over range(2) by range(3) connections.
Setup Prepare(const benchmark::State& state) {
  Setup setup;
  setup.shards = *TestShards::Start(
      OverWay(state.range(2), static_cast<uint32_t>(state.range(1)), state.range(3)));
  TestJobOptions options;
  options.model = TestModel(256, static_cast<uint32_t>(state.range(0)));  // 256 floats: 1 KiB
  options.optimizer.mutable_adagrad()->set_rate(0.01);
  setup.job = *setup.shards->CreateJob(options);
  setup.client = *setup.shards->Join(setup.job, 0);
  return setup;
}

void BM_Fetch(benchmark::State& state) {
  Setup setup = Prepare(state);
  std::vector<float> parameters(setup.job.map.size());
  CHECK_OK(setup.client->Fetch(parameters, nullptr, nullptr));
  const uint64_t sum = Xxh3::Of(std::as_bytes(std::span(parameters)));
  for (auto _ : state) {
    CHECK_OK(setup.client->Fetch(parameters, nullptr, nullptr));
    state.PauseTiming();
    CHECK_EQ(Xxh3::Of(std::as_bytes(std::span(parameters))), sum);
    std::ranges::fill(parameters, 0.0f);
    state.ResumeTiming();
  }
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(parameters.size() * 4));
}

void BM_Push(benchmark::State& state) {
  Setup setup = Prepare(state);
  const std::vector<float> gradient(setup.job.map.size(), 1e-3f);
  uint64_t pushes = 0;
  for (auto _ : state) {
    const auto result = setup.client->Push(gradient, {});
    CHECK_OK(result.status());
    CHECK_EQ(result->sequence, ++pushes);
    CHECK_EQ(result->duplicates + result->refused_invalid, 0u);
  }
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(gradient.size() * 4));
}

// 16 floats, over range(0). Of the parameters, or of a vector, which always
// takes a request and an answer.
void RoundTrip(benchmark::State& state, bool of_vector) {
  const auto shards = *TestShards::Start(OverWay(state.range(0), 1));
  TestJobOptions options;
  options.model = TestModel(16, 1);
  options.optimizer = TestSgd(0.1);
  const TestJob job = *shards->CreateJob(options);
  const auto client = *shards->Join(job, 0);
  VectorRequest request;
  request.set_job(job.name);
  request.set_op_id(1);
  request.set_shard_epoch(shards->server(0)->shard_epoch());
  request.mutable_fill()->set_out("v");
  CHECK_OK(shards->control(0)->Vector(request).status());
  std::vector<float> values(job.map.size());
  for (auto _ : state) {
    CHECK_OK(of_vector ? client->FetchVector("v", values, nullptr)
                       : client->Fetch(values, nullptr, nullptr));
  }
}
void BM_RoundTripFetch(benchmark::State& state) { RoundTrip(state, /*of_vector=*/false); }
void BM_RoundTripFrame(benchmark::State& state) { RoundTrip(state, /*of_vector=*/true); }

#define MONSOON_SIZES                                        \
  ArgsProduct({{504, 16384, 65536}, {1}, {0, 1, 2, 3}, {1}}) \
      ->ArgsProduct({{16384, 65536}, {1}, {2, 3}, {2, 4}})   \
      ->Args({504, 2, 0, 1})                                 \
      ->Args({504, 2, 1, 1})                                 \
      ->ArgNames({"KiB", "shards", "way", "connections"})    \
      ->MeasureProcessCPUTime()                              \
      ->UseRealTime()
BENCHMARK(BM_Fetch)->MONSOON_SIZES;
BENCHMARK(BM_Push)->MONSOON_SIZES;
BENCHMARK(BM_RoundTripFetch)->DenseRange(0, 3)->ArgName("way")->UseRealTime();
BENCHMARK(BM_RoundTripFrame)->DenseRange(0, 3)->ArgName("way")->UseRealTime();

}  // namespace
}  // namespace monsoon

BENCHMARK_MAIN();
