// Training samples per second of one step's forward and backward pass, the
// data already gathered: the arguments are (batch, threads).
#include "benchmark/benchmark.h"
#include "common/model/parameter_layout.h"
#include "worker/backend/backend.h"
#include "worker/nn/test_models.h"

namespace monsoon {
namespace {

// `ids`: below what the samples' are; 0: they are none.
void Run(benchmark::State& state, const Model& model, bool training, uint32_t ids = 0) {
  const ParameterLayout layout = testing::MakeLayout(model);
  auto network = CreateNetwork(BackendKind::kCpu, model, layout,
                               NetworkOptions{static_cast<int>(state.range(1))});
  if (!network.ok()) {
    state.SkipWithError(network.status().ToString().c_str());
    return;
  }
  const std::vector<float> parameters = testing::InitialParameters(layout, 1);
  const Batch batch = testing::RandomBatch(layout, static_cast<size_t>(state.range(0)), 2, ids);
  AlignedFloats gradient = AlignedFloats::NanFilled(layout.size());
  uint64_t step = 0;
  for (auto unused : state) {
    // As after a fetch: packing belongs to the step.
    (*network)->SetParameters(parameters);
    const bool ok =
        training ? (*network)->LossAndGradient(batch, StepKey{1, 0, step++}, gradient.span()).ok()
                 : (*network)->Evaluate(batch).ok();
    if (!ok) {
      state.SkipWithError("the step failed");
      return;
    }
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
}

void LeNetTraining(benchmark::State& state) { Run(state, testing::LeNet(), true); }
void MlpTraining(benchmark::State& state) { Run(state, testing::Mlp(), true); }
void GptBlockTraining(benchmark::State& state) {
  Run(state, testing::GptBlock(), true, testing::kGptIds);
}
void TextClassifierTraining(benchmark::State& state) {
  Run(state, testing::TextClassifier(), true, testing::kTextIds);
}
void LeNetEvaluation(benchmark::State& state) { Run(state, testing::LeNet(), false); }
void MlpEvaluation(benchmark::State& state) { Run(state, testing::Mlp(), false); }

BENCHMARK(LeNetTraining)->ArgsProduct({{64, 128, 256}, {1, 2}})->UseRealTime();
BENCHMARK(MlpTraining)->ArgsProduct({{64, 128, 256}, {1, 2}})->UseRealTime();
BENCHMARK(GptBlockTraining)->ArgsProduct({{12}, {1, 2}})->UseRealTime();
BENCHMARK(TextClassifierTraining)->ArgsProduct({{32}, {1, 2}})->UseRealTime();
BENCHMARK(LeNetEvaluation)->ArgsProduct({{500}, {1}})->UseRealTime();
BENCHMARK(MlpEvaluation)->ArgsProduct({{500}, {1}})->UseRealTime();

}  // namespace
}  // namespace monsoon

BENCHMARK_MAIN();
