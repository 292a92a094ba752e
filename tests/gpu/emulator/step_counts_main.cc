// Prints what a training step asks of a GPU, counted on the emulator, as the tables of
// docs/gpu.md ("What crosses, and what is launched").
//
//   step_counts [--models=lenet,mlp,cifar,speech] [--ways=TEXT] [--kernels]
//
// --ways     those with TEXT in their names; default all.
// --kernels  the kernels of a step at n_push = 10 with local update as well.
// No time is told: it would be the emulator's. `speech` takes minutes.
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "tests/gpu/emulator/step_counts.h"

namespace monsoon::cuda::testing {
namespace {

struct Model {
  const char* name;
  TestNetwork network;
  uint64_t examples;
};

std::vector<Model> Models() {
  return {
      {"lenet", LeNet(), 64}, {"mlp", Mlp(), 64}, {"cifar", Cifar(), 64}, {"speech", Speech(), 4}};
}

void PrintKernels(const Model& model, const StepCounts& counts) {
  std::printf("\n| %s: kernel | launches | PTX instructions |\n|---|---|---|\n", model.name);
  for (const auto& [name, kernel] : counts.by_kernel) {
    std::printf("| `%s` | %.1f | %.0f |\n", name.c_str(), kernel.launches, kernel.instructions);
  }
}

bool Print(const Model& model, const std::string& ways, bool kernels) {
  const double samples = static_cast<double>(model.examples);
  for (const CountedWay& way : CountedWays()) {
    if (way.name.find(ways) == std::string::npos) {
      continue;
    }
    std::string problem;
    const StepCounts counts = CountSteps(model.network, way, model.examples, &problem);
    if (!problem.empty()) {
      std::fprintf(stderr, "step_counts: %s, %s: %s\n", model.name, way.name.c_str(),
                   problem.c_str());
      return false;
    }
    std::printf(
        "| %s, %llu | %s | %.0f | %.0f | %.0f | %.1f | %.1f + %.1f | %.1f + %.1f | %.1f |"
        " %.1f |\n",
        model.name, static_cast<unsigned long long>(model.examples), way.name.c_str(),
        counts.vector_bytes, counts.sample_bytes,
        (counts.vector_bytes + counts.sample_bytes) / samples, counts.host_copied_vectors,
        counts.kernels, counts.products, counts.host_calls, counts.graph_launches,
        counts.instructions * 1e-6, counts.product_flops * 1e-6);
    std::fflush(stdout);
    if (const double column = InstructionsOfColumn(model.network, model.examples, counts);
        column > 0 && way.way.local_update) {
      std::fprintf(stderr, "%s: im2col takes %.1f PTX instructions for a float\n", model.name,
                   column);
    }
    if (kernels && way.way.local_update) {
      PrintKernels(model, counts);
    }
  }
  return true;
}

int Run(const std::string& names, const std::string& ways, bool kernels) {
  std::printf(
      "| network, batch | way | bytes of vectors | other bytes | bytes a sample |"
      " host copies of the vector | kernels + products | calls + graphs of the host |"
      " PTX, millions | Mflop of products |\n|---|---|---|---|---|---|---|---|---|---|\n");
  for (const Model& model : Models()) {
    if (("," + names + ",").find("," + std::string(model.name) + ",") != std::string::npos &&
        !Print(model, ways, kernels)) {
      return 1;
    }
  }
  return 0;
}

}  // namespace
}  // namespace monsoon::cuda::testing

int main(int argc, char** argv) {
  std::string models = "lenet,mlp,cifar,speech";
  std::string ways;
  bool kernels = false;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument.rfind("--models=", 0) == 0) {
      models = argument.substr(9);
    } else if (argument.rfind("--ways=", 0) == 0) {
      ways = argument.substr(7);
    } else if (argument == "--kernels") {
      kernels = true;
    } else {
      std::fprintf(stderr, "step_counts: unknown argument '%s'\n", argument.c_str());
      return 2;
    }
  }
  // Counts are the same with and without the emulator's checks, which its tests run.
  setenv("MONSOON_EMULATOR_CHECK", "off", 0);
  return monsoon::cuda::testing::Run(models, ways, kernels);
}
