#include "tests/gpu/emulator/step_counts.h"

#include <cxxabi.h>

#include <cstdlib>
#include <memory>
#include <mutex>

#include "tests/gpu/emulator/memory.h"
#include "tests/gpu/emulator/report.h"
#include "tests/gpu/emulator/stats.h"
#include "tests/gpu/training_steps.h"

namespace monsoon::cuda::testing {
namespace {

using emulator::Stats;

// The third step of a batch size is the first that launches a graph and captures none.
constexpr uint64_t kWarmUpSteps = 3;

Stats Now() {
  const std::lock_guard lock(emulator::TheMutex());
  return emulator::TheStats();
}

void Erase(std::string& text, const std::string& part) {
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part)) {
    text.erase(at, part.size());
  }
}

// What the kernel runs: its operation, of which each kernel is a template.
std::string ShortName(const std::string& mangled) {
  const std::unique_ptr<char, decltype(&std::free)> demangled(
      abi::__cxa_demangle(mangled.c_str(), nullptr, nullptr, nullptr), std::free);
  std::string name = demangled == nullptr ? mangled : demangled.get();
  for (const char* part : {"monsoon::cuda::", "(anonymous namespace)::"}) {
    Erase(name, part);
  }
  const size_t begin = name.find('<');
  const size_t end = name.rfind(">(");
  if (begin == std::string::npos || end == std::string::npos || end < begin) {
    return name;
  }
  name = name.substr(begin + 1, end - begin - 1);
  return name.substr(0, name.find_last_not_of(' ') + 1);
}

}  // namespace

const std::vector<CountedWay>& CountedWays() {
  static const std::vector<CountedWay>* const ways = new std::vector<CountedWay>{
      {"n_push = 1, pageable memory", {.n_push = 1, .on_device = false}, false},
      {"n_push = 1", {.n_push = 1, .on_device = false}},
      {"n_push = 10", {.n_push = 10}},
      {"n_push = 10, local update", {.n_push = 10, .local_update = true}}};
  return *ways;
}

StepCounts CountSteps(const TestNetwork& network, const CountedWay& way, uint64_t examples,
                      std::string* problem, const EngineOptions& options) {
  const uint64_t reports = emulator::ReportCount();
  TrainingSteps steps(network, options, way.way, way.locked, examples);
  for (uint64_t step = 0; step < kWarmUpSteps; step += way.way.n_push) {
    steps.RunWindow();
  }
  steps.Finish();
  const Engine& engine = steps.engine();
  const uint64_t crossed = engine.crossed_bytes();
  const uint64_t copied = engine.host_copied_bytes();
  const Stats before = Now();
  steps.RunWindow();
  steps.Finish();
  const Stats after = Now();
  *problem = steps.problem();
  if (problem->empty() && emulator::ReportCount() != reports) {
    *problem = "the CUDA emulator reported something";
  }

  const double n = way.way.n_push;
  const auto mean = [n](uint64_t now, uint64_t then) {
    return static_cast<double>(now - then) / n;
  };
  const auto of = [&](uint64_t Stats::*field) { return mean(after.*field, before.*field); };
  StepCounts counts;
  counts.vector_bytes = mean(engine.crossed_bytes(), crossed);
  counts.sample_bytes =
      of(&Stats::bytes_to_device) + of(&Stats::bytes_to_host) - counts.vector_bytes;
  counts.host_copied_vectors = mean(engine.host_copied_bytes(), copied) /
                               static_cast<double>(network.parameter_floats() * sizeof(float));
  counts.products = of(&Stats::products);
  counts.graph_launches = of(&Stats::graph_launches);
  counts.host_calls = of(&Stats::host_calls);
  counts.allocations = of(&Stats::allocations) + of(&Stats::pinned_allocations);
  counts.product_flops = of(&Stats::product_flops);
  for (const auto& [name, now] : after.kernels) {
    const auto then = before.kernels.find(name);
    const emulator::KernelStats none;
    const emulator::KernelStats& old = then == before.kernels.end() ? none : then->second;
    if (now.launches > old.launches) {
      StepCounts::Kernel& kernel = counts.by_kernel[ShortName(name)];
      kernel.launches += mean(now.launches, old.launches);
      kernel.instructions += mean(now.instructions, old.instructions);
    }
  }
  for (const auto& [name, kernel] : counts.by_kernel) {
    counts.kernels += kernel.launches;
    counts.instructions += kernel.instructions;
  }
  return counts;
}

double InstructionsOfColumn(const TestNetwork& network, uint64_t examples,
                            const StepCounts& counts) {
  double floats = 0;
  for (const LayerPlan& layer : network.layers()) {
    if (layer.kind == LayerKind::kConv2d) {
      // Unfolded on the way forward and again on the way back.
      floats += 2.0 * static_cast<double>(examples * layer.weight.size / layer.output.channels *
                                          layer.output.height * layer.output.width);
    }
  }
  double instructions = 0;
  for (const auto& [name, kernel] : counts.by_kernel) {
    instructions += name.find("Im2col") == std::string::npos ? 0 : kernel.instructions;
  }
  return floats == 0 ? 0 : instructions / floats;
}

}  // namespace monsoon::cuda::testing
