// Fetch and push over gRPC, client and shards in one process on unix sockets:
// bytes/s of parameters or gradients.
#include <memory>
#include <vector>

#include "benchmark/benchmark.h"
#include "common/base/check.h"
#include "ps_server/testing/test_shards.h"

namespace monsoon {
namespace {

struct Setup {
  std::unique_ptr<TestShards> shards;
  TestJob job;
  std::unique_ptr<ParameterClient> client;
};

// A model of range(0) KiB on range(1) shards, with Adagrad.
Setup Prepare(const benchmark::State& state) {
  Setup setup;
  setup.shards = *TestShards::Start({.shards = static_cast<uint32_t>(state.range(1))});
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
  for (auto _ : state) {
    CHECK_OK(setup.client->Fetch(parameters, nullptr, nullptr));
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

BENCHMARK(BM_Fetch)
    ->Args({504, 1})
    ->Args({504, 2})
    ->Args({16384, 1})
    ->Args({65536, 1})
    ->UseRealTime();
BENCHMARK(BM_Push)
    ->Args({504, 1})
    ->Args({504, 2})
    ->Args({16384, 1})
    ->Args({65536, 1})
    ->UseRealTime();

}  // namespace
}  // namespace monsoon

BENCHMARK_MAIN();
