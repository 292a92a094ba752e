// Prints the roofline ESTIMATES of docs/gpu.md: milliseconds of a step on the GPUs of
// roofline.h, where copies hide behind compute and where they do not.
#include <cstdio>
#include <utility>
#include <vector>

#include "tests/gpu/roofline.h"
#include "worker/backend/cuda/layers/test_network.h"

namespace monsoon::roofline {
namespace {

constexpr uint64_t kExamples = 256;

void Print() {
  const std::pair<const char*, cuda::testing::TestNetwork> models[] = {
      {"LeNet", cuda::testing::LeNet()},
      {"MLP", cuda::testing::Mlp()},
      {"CIFAR", cuda::testing::Cifar()},
      {"speech", cuda::testing::Speech()}};
  const std::pair<const char*, Way> ways[] = {
      {"n_push = 1", {.n_push = 1, .on_device = false}},
      {"n_push = 10, local update", {.n_push = 10, .local_update = true}}};
  const std::pair<const char*, cuda::Precision> precisions[] = {
      {"FLOAT32", cuda::Precision::kFloat32},
      {"TF32", cuda::Precision::kTf32},
      {"FLOAT16", cuda::Precision::kFloat16}};
  std::printf("| network | way | products |");
  for (const Gpu& gpu : PublishedGpus()) {
    std::printf(" %s |", gpu.name.c_str());
  }
  std::printf("\n|---|---|---|---|---|---|\n");
  for (const auto& [model, network] : models) {
    for (const auto& [way_name, way] : ways) {
      for (const auto& [precision_name, precision] : precisions) {
        std::printf("| %s | %s | %s |", model, way_name, precision_name);
        for (const Gpu& gpu : PublishedGpus()) {
          const Estimate e = EstimateStep(gpu, network.layers(), network.parameter_floats(),
                                          kExamples, precision, way);
          std::printf(" %.2f to %.2f |", 1e3 * e.Overlapped(), 1e3 * e.Serial());
        }
        std::printf("\n");
      }
    }
  }
}

}  // namespace
}  // namespace monsoon::roofline

int main() { monsoon::roofline::Print(); }
