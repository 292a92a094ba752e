// What a GPU worker's steps reach: samples/s of whole steps, the share of
// cuBLAS's own rate that their matrix products get, the share of the transfer
// time that is hidden behind compute; and beside each an ESTIMATE by the roofline
// model (roofline.h), from the GPU's published figures or its own properties.
//
//   gpu_benchmark [--device=N] [--seconds=S] [--quick]
//
// --quick  only one model, each step a few times: shows that it runs, not how fast.
// First table, one line per model and precision: n_push = 1, steps that take parameters up
// and the gradient down. `step_ms` is the wall time of SetParameters
// and Train, with both page-locked as a
// worker has them; `paged_ms` the same with ordinary memory; `gemm_ms` the
// time of the step's products alone, by cuBLAS back to back on data that lies on
// the device; `gemm_share` = gemm_ms / step_ms, so 1 would be cuBLAS's own rate
// for the whole step. `copy_ms` is the time of the step's copies alone;
// `compute_ms` that of a step whose parameters are already there, without the
// download; `hidden` = 1 - (step_ms - compute_ms) / copy_ms, within 0 and 1.
// Second table: steps between a fetch and a push as a Downpour worker runs them
// (training_steps.h), without and with the local optimizer.
// `est_ms` is the estimate of step_ms where copies hide behind compute, `est_max_ms`
// where they do not, `est/step` = est_ms / step_ms.
// Medians over the rounds. Exit 0, or 3 where there is no GPU.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tests/gpu/roofline.h"
#include "tests/gpu/training_steps.h"
#include "worker/backend/cuda/host/test_device.h"
#include "worker/backend/cuda/kernels/gemm.h"
#include "worker/backend/cuda/layers/engine.h"
#include "worker/backend/cuda/layers/test_network.h"
#include "worker/backend/cuda/runtime/device_rates.h"

namespace monsoon::cuda {
namespace {

using Clock = std::chrono::steady_clock;
using testing::TestData;
using testing::TestNetwork;

constexpr int kWarmUp = 3;
constexpr size_t kMinRounds = 5;

// How long, and on what, is measured.
struct Effort {
  uint32_t device = 0;
  double seconds = 0.5;
  bool quick = false;
};

double MedianMilliseconds(const Effort& effort, const std::function<void()>& run) {
  for (int i = 0; i < kWarmUp; ++i) {
    run();
  }
  const double seconds = effort.quick ? 0 : effort.seconds;
  const size_t rounds = effort.quick ? 1 : kMinRounds;
  std::vector<double> times;
  const Clock::time_point end =
      Clock::now() + std::chrono::microseconds(static_cast<int64_t>(seconds * 1e6));
  while (times.size() < rounds || Clock::now() < end) {
    const Clock::time_point begin = Clock::now();
    run();
    times.push_back(std::chrono::duration<double, std::milli>(Clock::now() - begin).count());
  }
  std::nth_element(times.begin(), times.begin() + times.size() / 2, times.end());
  return times[times.size() / 2];
}

// The products of one training step, as the layers ask for them.
std::vector<RowMajorProduct> ProductsOf(const TestNetwork& network, uint64_t examples) {
  std::vector<RowMajorProduct> products;
  for (const LayerPlan& plan : network.layers()) {
    if (plan.weight.size == 0) {
      continue;
    }
    const uint64_t outputs = plan.output.channels;
    const uint64_t inputs = plan.weight.size / outputs;
    const uint64_t positions = examples * plan.output.height * plan.output.width;
    const bool dense = plan.kind == LayerKind::kDense;  // positions are rows, else columns
    RowMajorProduct forward, weights, backward;
    forward.m = outputs, forward.n = positions, forward.k = inputs;
    backward.m = inputs, backward.n = positions, backward.k = outputs;
    if (dense) {
      std::swap(forward.m, forward.n);
      std::swap(backward.m, backward.n);
    }
    forward.transpose_b = dense;
    weights.m = outputs, weights.n = inputs, weights.k = positions;
    weights.transpose_a = dense;
    weights.transpose_b = !dense;
    backward.transpose_a = !dense;
    products.push_back(forward);
    products.push_back(weights);
    if (plan.index > 0) {
      products.push_back(backward);
    }
  }
  return products;
}

double ProductMilliseconds(const TestNetwork& network, uint64_t examples, Precision precision,
                           const Effort& effort) {
  ErrorLog errors;
  Stream stream(errors);
  Gemm gemm(stream, precision);
  std::vector<RowMajorProduct> products = ProductsOf(network, examples);
  uint64_t a = 0, b = 0, c = 0;
  for (const RowMajorProduct& p : products) {
    a = std::max(a, p.m * p.k);
    b = std::max(b, p.k * p.n);
    c = std::max(c, p.m * p.n);
  }
  const Buffer left(Buffer::Place::kDevice, a * sizeof(float), errors);
  const Buffer right(Buffer::Place::kDevice, b * sizeof(float), errors);
  const Buffer result(Buffer::Place::kDevice, c * sizeof(float), errors);
  // Not zeros: products of those take less power and time. Any bits of small
  // values will do, also as pairs of halves.
  const Buffer values(Buffer::Place::kPinned, std::max(a, b) * sizeof(float), errors);
  if (errors.ok()) {
    std::minstd_rand random(1);
    for (uint64_t i = 0; i < std::max(a, b); ++i) {
      values.as<uint32_t>()[i] = 0x3c003c00u | (static_cast<uint32_t>(random()) & 0x83ff83ffu);
    }
  }
  stream.CopyToDevice(left.as<void>(), values.as<void>(), left.bytes());
  stream.CopyToDevice(right.as<void>(), values.as<void>(), right.bytes());
  const double time = MedianMilliseconds(effort, [&] {
    for (RowMajorProduct product : products) {
      product.a = left.as<void>();
      product.b = right.as<void>();
      product.c = result.as<float>();
      gemm.Multiply(product);
    }
    stream.Synchronize();
  });
  if (!errors.ok()) {
    std::fprintf(stderr, "gpu_benchmark: %s\n", errors.message().c_str());
    std::exit(1);
  }
  return time;
}

// Parameters up, gradient down, and the samples up.
double CopyMilliseconds(const TestNetwork& network, const TestData& data, const Effort& effort) {
  ErrorLog errors;
  Stream stream(errors);
  const uint64_t model = network.parameter_floats() * sizeof(float);
  const uint64_t bytes = std::max(model, data.inputs.size() * sizeof(float));
  const Buffer device(Buffer::Place::kDevice, bytes, errors);
  const Buffer pinned(Buffer::Place::kPinned, bytes, errors);
  return MedianMilliseconds(effort, [&] {
    stream.CopyToDevice(device.as<void>(), pinned.as<void>(), model);
    stream.CopyToDevice(device.as<void>(), pinned.as<void>(), data.inputs.size() * sizeof(float));
    stream.CopyToHost(pinned.as<void>(), device.as<void>(), model);
    stream.Synchronize();
  });
}

void Check(const Engine& engine, bool ok) {
  if (!ok || !engine.errors().ok()) {
    std::fprintf(stderr, "gpu_benchmark: %s\n", engine.errors().message().c_str());
    std::exit(1);
  }
}

// A line's model, precision and batch.
struct Case {
  const char* model;
  const TestNetwork& network;
  Precision precision;
  const char* precision_name;
  uint64_t examples;
};

roofline::Estimate EstimateOf(const roofline::Gpu& gpu, const Case& c, const roofline::Way& way) {
  return roofline::EstimateStep(gpu, c.network.layers(), c.network.parameter_floats(), c.examples,
                                c.precision, way);
}

// The step and its estimates, as both tables end.
void PrintEstimate(double step_ms, const roofline::Estimate& estimate) {
  const double overlapped_ms = 1e3 * estimate.Overlapped();
  std::printf(" %10.3f %10.3f %8.2f\n", overlapped_ms, 1e3 * estimate.Serial(),
              overlapped_ms / step_ms);
}

void ReportTransfers(const Case& c, const roofline::Gpu& gpu, const Effort& effort) {
  Engine engine(c.network.model(),
                EngineOptions{.device_index = effort.device, .precision = c.precision});
  Check(engine, true);
  const std::vector<float> parameters = c.network.Parameters(1);
  const TestData data(c.network, c.examples, 2);
  std::vector<float> gradient(parameters.size());
  testing::LockedFloats locked_parameters(parameters.size());
  testing::LockedFloats locked_gradient(parameters.size());
  std::copy(parameters.begin(), parameters.end(), locked_parameters.span().begin());
  uint64_t step = 0;
  EngineResult result;
  const auto time_step = [&](std::span<const float> from, std::span<float> to) {
    return MedianMilliseconds(effort, [&] {
      engine.SetParameters(from);
      Check(engine, engine.Train(data.All(), StepKey{1, 0, step++, {}}, to, &result));
    });
  };
  const double paged_ms = time_step(parameters, gradient);
  const double step_ms = time_step(locked_parameters.span(), locked_gradient.span());
  const double compute_ms = MedianMilliseconds(
      effort, [&] { Check(engine, engine.TrainOnDevice(data.All(), {}, &result)); });
  const double gemm_ms = ProductMilliseconds(c.network, c.examples, c.precision, effort);
  const double copy_ms = CopyMilliseconds(c.network, data, effort);
  const double hidden = std::clamp(1.0 - (step_ms - compute_ms) / copy_ms, 0.0, 1.0);
  std::printf("%-8s %-8s %6llu %10.3f %10.3f %12.0f %10.3f %10.3f %10.3f %10.3f %8.3f", c.model,
              c.precision_name, static_cast<unsigned long long>(c.examples), paged_ms, step_ms,
              1e3 * static_cast<double>(c.examples) / step_ms, compute_ms, gemm_ms,
              gemm_ms / step_ms, copy_ms, hidden);
  PrintEstimate(step_ms, EstimateOf(gpu, c, {.n_push = 1, .on_device = false}));
}

void ReportWays(const Case& c, const roofline::Gpu& gpu, const Effort& effort) {
  for (const bool local_update : {false, true}) {
    const roofline::Way way{.n_push = 10, .local_update = local_update};
    testing::TrainingSteps steps(
        c.network, EngineOptions{.device_index = effort.device, .precision = c.precision}, way,
        /*locked=*/true, c.examples);
    const double step_ms =
        MedianMilliseconds(effort, [&] { steps.RunWindow(); }) / static_cast<double>(way.n_push);
    steps.Finish();
    if (!steps.problem().empty()) {
      std::fprintf(stderr, "gpu_benchmark: %s\n", steps.problem().c_str());
      std::exit(1);
    }
    std::printf("%-8s %-8s %6llu %6u %6s %10.3f %12.0f", c.model, c.precision_name,
                static_cast<unsigned long long>(c.examples), way.n_push,
                way.local_update ? "yes" : "no", step_ms,
                1e3 * static_cast<double>(c.examples) / step_ms);
    PrintEstimate(step_ms, EstimateOf(gpu, c, way));
  }
}

struct Model {
  const char* name;
  TestNetwork network;
  std::vector<uint64_t> batches;
};

void ForEachCase(const Effort& effort, const std::function<void(const Case&)>& report) {
  std::vector<Model> models = {{"lenet", testing::LeNet(), {64, 256}},
                               {"mlp", testing::Mlp(), {64, 256}},
                               {"cifar", testing::Cifar(), {64, 256}},
                               {"speech", testing::Speech(), {256, 1024}}};
  std::vector<std::pair<Precision, const char*>> precisions = {{Precision::kFloat32, "FLOAT32"},
                                                               {Precision::kTf32, "TF32"},
                                                               {Precision::kBfloat16, "BFLOAT16"},
                                                               {Precision::kFloat16, "FLOAT16"}};
  if (effort.quick) {
    models = {{"mlp", testing::Mlp(), {8}}};
    precisions.resize(1);
  }
  for (const auto& [precision, name] : precisions) {
    for (const Model& model : models) {
      for (const uint64_t examples : model.batches) {
        report(Case{model.name, model.network, precision, name, examples});
      }
    }
  }
}

int Run(const Effort& effort) {
  ErrorLog errors;
  if (!SelectDevice(effort.device, errors)) {
    std::fprintf(stderr, "gpu_benchmark: needs a GPU: %s\n", errors.message().c_str());
    return 3;
  }
  const DeviceRates rates = QueryRates(effort.device);
  const roofline::Gpu* const published = roofline::FindGpu(rates.name);
  const roofline::Gpu gpu = published == nullptr ? roofline::FromRates(rates) : *published;
  std::printf(
      "%s\nestimates for %s: %.1f TFLOPS float32, %.1f TF32, %.1f bfloat16, %.1f float16, "
      "%.0f GB/s, %.0f MiB L2, PCIe %s\n  (%s)\n",
      DeviceFingerprint(effort.device).c_str(), gpu.name.c_str(), gpu.float32 * 1e-12,
      gpu.tf32 * 1e-12, gpu.bfloat16 * 1e-12, gpu.float16 * 1e-12, gpu.memory * 1e-9,
      gpu.cache / (1 << 20), gpu.pcie_name.c_str(), gpu.source.c_str());
  std::printf("%-8s %-8s %6s %10s %10s %12s %10s %10s %10s %10s %8s %10s %10s %8s\n", "model",
              "products", "batch", "paged_ms", "step_ms", "samples/s", "compute_ms", "gemm_ms",
              "gemm_share", "copy_ms", "hidden", "est_ms", "est_max_ms", "est/step");
  ForEachCase(effort, [&](const Case& c) { ReportTransfers(c, gpu, effort); });
  std::printf("%-8s %-8s %6s %6s %6s %10s %12s %10s %10s %8s\n", "model", "products", "batch",
              "n_push", "local", "step_ms", "samples/s", "est_ms", "est_max_ms", "est/step");
  ForEachCase(effort, [&](const Case& c) { ReportWays(c, gpu, effort); });
  return 0;
}

}  // namespace
}  // namespace monsoon::cuda

int main(int argc, char** argv) {
  // A run that is cut short keeps its lines.
  std::setvbuf(stdout, nullptr, _IOLBF, BUFSIZ);
  monsoon::cuda::Effort effort;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument.rfind("--device=", 0) == 0) {
      effort.device = static_cast<uint32_t>(std::atoi(argument.c_str() + 9));
    } else if (argument.rfind("--seconds=", 0) == 0) {
      effort.seconds = std::atof(argument.c_str() + 10);
    } else if (argument == "--quick") {
      effort.quick = true;
    } else {
      std::fprintf(stderr, "gpu_benchmark: unknown argument '%s'\n", argument.c_str());
      return 2;
    }
  }
  return monsoon::cuda::Run(effort);
}
