// Muon's steps of one matrix in one thread: milliseconds, and the rate of their multiplications and
// additions.
//
//   muon_benchmark [--sizes=400x120,768x3072] [--rounds=11]
//
// Every round times each SIMD level of the machine, in turn, by steps of 0.1 s or more in all; the
// figures are medians. A step of n x m with n <= m counts 5 (4 n n m + 2 n n n) operations, as if
// nothing was known of the symmetry of two of its three products; so the rate may be above the
// core's own. Verified: the bits are those of the lowest level. Exit code 1: they are not.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "common/base/check.h"
#include "common/optimizer/optimizer.h"
#include "common/optimizer/range_kernel.h"
#include "common/simd/simd_level.h"
#include "proto/optimizer.pb.h"

namespace monsoon {
namespace {

constexpr double kLeastSeconds = 0.1;
constexpr uint32_t kIterations = 5;

struct Settings {
  std::vector<std::pair<size_t, size_t>> sizes = {{400, 120}, {768, 3072}};
  size_t rounds = 11;
};

struct Matrix {
  explicit Matrix(size_t size) : w(size, 1.0f), m(size, 0.0f), g(size) {
    uint32_t random = 1;
    for (float& value : g) {
      random = random * 1664525u + 1013904223u;
      value = static_cast<float>(random >> 8) * 0x1p-24f - 0.5f;
    }
  }
  std::vector<float> w, m, g;
};

std::unique_ptr<OptimizerKernel> MakeKernel(size_t rows, size_t columns) {
  Optimizer optimizer;
  optimizer.mutable_sgd()->set_rate(1);
  optimizer.mutable_muon()->set_rate(0.01);
  optimizer.mutable_muon()->set_steps(kIterations);
  auto kernel =
      CreateRangeKernel(optimizer, {.matrices = {{"w", 0, rows, columns}}}, {0, rows * columns});
  CHECK_OK(kernel.status());
  return *std::move(kernel);
}

// Of one step, in seconds.
double Time(const OptimizerKernel& kernel, Matrix* matrix) {
  using Clock = std::chrono::steady_clock;
  const auto begin = Clock::now();
  std::chrono::duration<double> elapsed(0);
  uint64_t steps = 0;
  while (elapsed.count() < kLeastSeconds) {
    kernel.Apply(steps++, matrix->w, matrix->m, matrix->g);
    elapsed = Clock::now() - begin;
  }
  return elapsed.count() / static_cast<double>(steps);
}

// Prints a row for each level; false if a result was wrong.
bool Measure(size_t rows, size_t columns, size_t rounds) {
  const std::unique_ptr<OptimizerKernel> kernel = MakeKernel(rows, columns);
  std::map<SimdLevel, std::vector<double>> seconds;
  std::map<SimdLevel, std::vector<float>> results;
  for (size_t round = 0; round < rounds; ++round) {
    for (const SimdLevel level : SupportedSimdLevels()) {
      const ScopedSimdLevel scoped(level);
      Matrix matrix(rows * columns);
      kernel->Apply(0, matrix.w, matrix.m, matrix.g);
      results[level] = matrix.w;
      seconds[level].push_back(Time(*kernel, &matrix));
    }
  }
  const auto n = static_cast<double>(std::min(rows, columns));
  const auto m = static_cast<double>(std::max(rows, columns));
  const double operations = kIterations * (4 * n * n * m + 2 * n * n * n);
  bool verified = true;
  for (auto& [level, times] : seconds) {
    std::ranges::sort(times);
    const double median = times[times.size() / 2];
    const bool same = results[level] == results[SimdLevel::kBaseline];
    verified &= same;
    std::printf("| Muon | %zu x %zu | %s | %.2f | %.2f | %.2f | %.0f | %zu | %s |\n", rows, columns,
                SimdLevelName(level), 1e3 * median, 1e3 * times.front(), 1e3 * times.back(),
                1e-9 * operations / median, rounds, same ? "yes" : "NO");
  }
  std::fflush(stdout);
  return verified;
}

bool ParseArgument(absl::string_view argument, Settings* settings) {
  if (absl::ConsumePrefix(&argument, "--rounds=")) {
    return absl::SimpleAtoi(argument, &settings->rounds) && settings->rounds > 0;
  }
  if (!absl::ConsumePrefix(&argument, "--sizes=")) {
    return false;
  }
  settings->sizes.clear();
  for (const absl::string_view size : absl::StrSplit(argument, ',')) {
    const std::pair<absl::string_view, absl::string_view> sides = absl::StrSplit(size, 'x');
    auto& [rows, columns] = settings->sizes.emplace_back();
    if (!absl::SimpleAtoi(sides.first, &rows) || !absl::SimpleAtoi(sides.second, &columns) ||
        rows == 0 || columns == 0) {
      return false;
    }
  }
  return true;
}

int Main(int argc, char** argv) {
  Settings settings;
  for (int i = 1; i < argc; ++i) {
    if (!ParseArgument(argv[i], &settings)) {
      std::fprintf(stderr,
                   "muon_benchmark: bad argument '%s'; known are --sizes=ROWSxCOLUMNS,... "
                   "--rounds=N\n",
                   argv[i]);
      return 2;
    }
  }
  std::printf(
      "| workload | size | SIMD | ms | min | max | GFLOP/s | rounds | verified |\n"
      "|---|---|---|---|---|---|---|---|---|\n");
  bool verified = true;
  for (const auto& [rows, columns] : settings.sizes) {
    verified &= Measure(rows, columns, settings.rounds);
  }
  return verified ? 0 : 1;
}

}  // namespace
}  // namespace monsoon

int main(int argc, char** argv) { return monsoon::Main(argc, argv); }
