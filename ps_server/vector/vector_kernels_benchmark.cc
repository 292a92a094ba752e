// The vector operations and fixed-point sums of one stripe that lies in the
// second-level cache, at each SIMD level of this machine: elements per second.
#include <string>
#include <vector>

#include "benchmark/benchmark.h"
#include "common/simd/simd_level.h"
#include "ps_server/vector/fixed_point.h"
#include "ps_server/vector/vector_kernels.h"

namespace monsoon {
namespace {

constexpr size_t kFloats = 1 << 14;
constexpr int kValueBits = 48;

struct Data {
  std::vector<float> x = std::vector<float>(kFloats, 0.75f);
  std::vector<float> y = std::vector<float>(kFloats, -0.5f);
  std::vector<float> out = std::vector<float>(kFloats);
  std::vector<int64_t> sum = std::vector<int64_t>(kFloats);
  std::vector<int16_t> exponents = std::vector<int16_t>(kFloats / kLineFloats, -40);
  std::vector<float> maxima = std::vector<float>(kFloats / kLineFloats);
};

void Axpy(Data* data) { AxpyVector(0.3, data->x, data->y, data->out); }
void Dot(Data* data) { benchmark::DoNotOptimize(DotVectors(data->x, data->y)); }
void Combine(Data* data) {
  const double factors[] = {0.3, 0.2, 0.1, 0.4};
  const float* const in[] = {data->x.data(), data->y.data(), data->x.data(), data->y.data()};
  double dots[2];
  CombineVectors(factors, in, std::span(in).first(2), data->out, dots);
}
void Add(Data* data) {
  benchmark::DoNotOptimize(
      AddFixedPoint(data->x, data->exponents, kValueBits, data->maxima, data->sum));
}
void Round(Data* data) {
  RoundFixedPoint(data->sum, data->exponents, 0.1, 0.01, data->y, data->out);
}

void Run(benchmark::State& state, void (*kernel)(Data*), SimdLevel level) {
  const ScopedSimdLevel scope(level);
  Data data;
  for (auto unused : state) {
    kernel(&data);
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(state.iterations() * static_cast<int64_t>(kFloats));
}

}  // namespace
}  // namespace monsoon

int main(int argc, char** argv) {
  using monsoon::SimdLevel;
  const struct {
    const char* name;
    void (*kernel)(monsoon::Data*);
  } kKernels[] = {{"Axpy", monsoon::Axpy},
                  {"Dot", monsoon::Dot},
                  {"CombineFour", monsoon::Combine},
                  {"AddFixedPoint", monsoon::Add},
                  {"RoundFixedPoint", monsoon::Round}};
  for (const auto& [name, kernel] : kKernels) {
    for (const SimdLevel level : monsoon::SupportedSimdLevels()) {
      const std::string title = std::string(name) + "/" + monsoon::SimdLevelName(level);
      benchmark::RegisterBenchmark(title.c_str(), monsoon::Run, kernel, level);
    }
  }
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) {
    return 2;
  }
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
