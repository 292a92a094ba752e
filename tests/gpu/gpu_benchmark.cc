// What a GPU worker's steps reach: samples/s of whole steps, the share of
// cuBLAS's own rate that their matrix products get, and the share of the
// transfer time that is hidden behind compute.
//
//   gpu_benchmark [--device=N] [--seconds=S]
//
// One line per model and precision. `step_ms` is the wall time of SetParameters
// and Train, parameters up and gradient down included, with both page-locked as a
// worker has them; `paged_ms` the same with ordinary memory; `gemm_ms` the
// time of the step's products alone, by cuBLAS back to back on data that lies on
// the device; `gemm_share` = gemm_ms / step_ms, so 1 would be cuBLAS's own rate
// for the whole step. `copy_ms` is the time of the step's copies alone;
// `compute_ms` that of a step whose parameters are already there, without the
// download; `hidden` = 1 - (step_ms - compute_ms) / copy_ms, within 0 and 1.
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

#include "worker/backend/cuda/host/test_device.h"
#include "worker/backend/cuda/kernels/gemm.h"
#include "worker/backend/cuda/layers/engine.h"
#include "worker/backend/cuda/layers/test_network.h"

namespace monsoon::cuda {
namespace {

using Clock = std::chrono::steady_clock;
using testing::TestData;
using testing::TestNetwork;

constexpr int kWarmUp = 3;
constexpr int kMinRounds = 5;

double MedianMilliseconds(double seconds, const std::function<void()>& run) {
  for (int i = 0; i < kWarmUp; ++i) {
    run();
  }
  std::vector<double> times;
  const Clock::time_point end =
      Clock::now() + std::chrono::microseconds(static_cast<int64_t>(seconds * 1e6));
  while (times.size() < kMinRounds || Clock::now() < end) {
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
                           double seconds) {
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
  const double time = MedianMilliseconds(seconds, [&] {
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
double CopyMilliseconds(const TestNetwork& network, const TestData& data, double seconds) {
  ErrorLog errors;
  Stream stream(errors);
  const uint64_t model = network.parameter_floats() * sizeof(float);
  const uint64_t bytes = std::max(model, data.inputs.size() * sizeof(float));
  const Buffer device(Buffer::Place::kDevice, bytes, errors);
  const Buffer pinned(Buffer::Place::kPinned, bytes, errors);
  return MedianMilliseconds(seconds, [&] {
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

void Report(const char* name, const TestNetwork& network, uint64_t examples, Precision precision,
            const char* precision_name, uint32_t device, double seconds) {
  Engine engine(network.layers(), network.parameter_floats(),
                EngineOptions{.device_index = device, .precision = precision});
  Check(engine, true);
  const std::vector<float> parameters = network.Parameters(1);
  const TestData data(network, examples, 2);
  std::vector<float> gradient(parameters.size());
  testing::LockedFloats locked_parameters(parameters.size());
  testing::LockedFloats locked_gradient(parameters.size());
  std::copy(parameters.begin(), parameters.end(), locked_parameters.span().begin());
  uint64_t step = 0;
  const auto time_step = [&](std::span<const float> from, std::span<float> to) {
    return MedianMilliseconds(seconds, [&] {
      EngineResult result;
      engine.SetParameters(from);
      Check(engine, engine.Train(data.All(), StepKey{1, 0, step++}, to, &result));
    });
  };
  const double paged_ms = time_step(parameters, gradient);
  const double step_ms = time_step(locked_parameters.span(), locked_gradient.span());
  const double compute_ms =
      MedianMilliseconds(seconds, [&] { Check(engine, engine.TrainOnDevice(data.All(), {})); });
  const double gemm_ms = ProductMilliseconds(network, examples, precision, seconds);
  const double copy_ms = CopyMilliseconds(network, data, seconds);
  const double hidden = std::clamp(1.0 - (step_ms - compute_ms) / copy_ms, 0.0, 1.0);
  std::printf("%-8s %-8s %6llu %10.3f %10.3f %12.0f %10.3f %10.3f %8.3f %10.3f %8.3f\n", name,
              precision_name, static_cast<unsigned long long>(examples), paged_ms, step_ms,
              1e3 * static_cast<double>(examples) / step_ms, compute_ms, gemm_ms, gemm_ms / step_ms,
              copy_ms, hidden);
}

// The acoustic model of Dean et al. 2012, figure 4: four hidden layers of 2560
// units; 11 frames of 40 values in, 8192 states out.
TestNetwork Speech() {
  return TestNetwork(Extent{440})
      .Dense(2560)
      .Sigmoid()
      .Dense(2560)
      .Sigmoid()
      .Dense(2560)
      .Sigmoid()
      .Dense(2560)
      .Sigmoid()
      .Dense(8192);
}

int Run(uint32_t device, double seconds) {
  ErrorLog errors;
  if (!SelectDevice(device, errors)) {
    std::fprintf(stderr, "gpu_benchmark: needs a GPU: %s\n", errors.message().c_str());
    return 3;
  }
  std::printf("%s\n%-8s %-8s %6s %10s %10s %12s %10s %10s %8s %10s %8s\n",
              DeviceFingerprint(device).c_str(), "model", "products", "batch", "paged_ms",
              "step_ms", "samples/s", "compute_ms", "gemm_ms", "gemm_share", "copy_ms", "hidden");
  const std::pair<Precision, const char*> precisions[] = {{Precision::kFloat32, "FLOAT32"},
                                                          {Precision::kTf32, "TF32"},
                                                          {Precision::kBfloat16, "BFLOAT16"},
                                                          {Precision::kFloat16, "FLOAT16"}};
  for (const auto& [precision, name] : precisions) {
    for (const uint64_t examples : {64, 256}) {
      Report("lenet", testing::LeNet(), examples, precision, name, device, seconds);
      Report("mlp", testing::Mlp(), examples, precision, name, device, seconds);
    }
    for (const uint64_t examples : {256, 1024}) {
      Report("speech", Speech(), examples, precision, name, device, seconds);
    }
  }
  return 0;
}

}  // namespace
}  // namespace monsoon::cuda

int main(int argc, char** argv) {
  // A run that is cut short keeps its lines.
  std::setvbuf(stdout, nullptr, _IOLBF, BUFSIZ);
  uint32_t device = 0;
  double seconds = 0.5;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument.rfind("--device=", 0) == 0) {
      device = static_cast<uint32_t>(std::atoi(argument.c_str() + 9));
    } else if (argument.rfind("--seconds=", 0) == 0) {
      seconds = std::atof(argument.c_str() + 10);
    } else {
      std::fprintf(stderr, "gpu_benchmark: unknown argument '%s'\n", argument.c_str());
      return 2;
    }
  }
  return monsoon::cuda::Run(device, seconds);
}
