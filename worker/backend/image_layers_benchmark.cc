// Training samples per second of networks with layers of images, as network_benchmark.cc: the
// arguments are (batch, threads). image_layers_torch.py computes the same in PyTorch.
#include "benchmark/benchmark.h"
#include "common/model/parameter_layout.h"
#include "worker/backend/backend.h"
#include "worker/nn/test_models.h"

namespace monsoon {
namespace {

void Run(benchmark::State& state, const char* text) {
  const Model model = testing::ParseModel(text);
  const ParameterLayout layout = testing::MakeLayout(model);
  auto network = CreateNetwork(BackendKind::kCpu, model, layout,
                               NetworkOptions{static_cast<int>(state.range(1))});
  if (!network.ok()) {
    state.SkipWithError(network.status().ToString().c_str());
    return;
  }
  const std::vector<float> parameters = testing::InitialParameters(layout, 1);
  const Batch batch = testing::RandomBatch(layout, static_cast<size_t>(state.range(0)), 2);
  AlignedFloats gradient = AlignedFloats::NanFilled(layout.size());
  uint64_t step = 0;
  for (auto unused : state) {
    (*network)->SetParameters(parameters);
    if (!(*network)->LossAndGradient(batch, StepKey{1, 0, step++, {}}, gradient.span()).ok()) {
      state.SkipWithError("the step failed");
      return;
    }
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
}

void Residual(benchmark::State& state) {
  Run(state, R"pb(
    input_shape: [ 3, 32, 32 ]
    layer { conv2d { filters: 32 kernel: 3 padding: 1 no_bias: true } }
    layer { batch_norm {} }
    layer { name: "in" relu {} }
    layer { conv2d { filters: 32 kernel: 3 padding: 1 no_bias: true } }
    layer { batch_norm {} }
    layer { relu {} }
    layer { conv2d { filters: 32 kernel: 3 padding: 1 no_bias: true } }
    layer { name: "branch" batch_norm {} }
    layer { input: "in" input: "branch" add {} }
    layer { relu {} }
    layer { conv2d { filters: 64 kernel: 3 stride: 2 padding: 1 no_bias: true } }
    layer { batch_norm {} }
    layer { relu {} }
    layer { global_average_pool {} }
    layer { dense { units: 10 } }
  )pb");
}

void BatchNormAlone(benchmark::State& state) {
  Run(state, R"pb(
    input_shape: [ 32, 32, 32 ]
    layer { batch_norm {} }
    layer { relu {} }
    layer { batch_norm {} }
    layer { relu {} }
    layer { global_average_pool {} }
    layer { dense { units: 10 } }
  )pb");
}

void LocallyConnected(benchmark::State& state) {
  Run(state, R"pb(
    input_shape: [ 3, 32, 32 ]
    layer { locally_connected2d { filters: 8 kernel: 9 } }
    layer { relu {} }
    layer { max_pool2d { window: 2 } }
    layer { locally_connected2d { filters: 16 kernel: 5 } }
    layer { relu {} }
    layer { flatten {} }
    layer { dense { units: 10 } }
  )pb");
}

void Contrast(benchmark::State& state) {
  Run(state, R"pb(
    input_shape: [ 3, 32, 32 ]
    layer { conv2d { filters: 16 kernel: 3 } }
    layer { local_contrast_norm {} }
    layer { conv2d { filters: 16 kernel: 3 } }
    layer { local_contrast_norm {} }
    layer { flatten {} }
    layer { dense { units: 10 } }
  )pb");
}

BENCHMARK(Residual)->ArgsProduct({{64}, {1, 2}})->UseRealTime();
BENCHMARK(BatchNormAlone)->ArgsProduct({{64}, {1, 2}})->UseRealTime();
BENCHMARK(LocallyConnected)->ArgsProduct({{64}, {1, 2}})->UseRealTime();
BENCHMARK(Contrast)->ArgsProduct({{64}, {1, 2}})->UseRealTime();

}  // namespace
}  // namespace monsoon

BENCHMARK_MAIN();
