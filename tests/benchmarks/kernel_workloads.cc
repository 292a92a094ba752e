#include <sys/mman.h>

#include <cstring>
#include <memory>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status.h"
#include "tests/benchmarks/expected_model.h"
#include "tests/benchmarks/in_place.h"
#include "tests/benchmarks/workloads.h"

namespace monsoon {
namespace {

constexpr double kBytesPerParameter = 20;  // w, state and g read, w and state written

// w, state and g for all contenders: huge pages, and starts that differ modulo
// 4 KiB, because equal ones cost every kernel.
class Vectors {
 public:
  explicit Vectors(uint64_t floats) : size_(floats) {
    bytes_ = 3 * (floats * sizeof(float) + kStagger) + kHugePage;
    memory_ = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(memory_ != MAP_FAILED);
    madvise(memory_, bytes_, MADV_HUGEPAGE);  // best effort
    ExpectedModel::Fill(expected.parameters(), w());
    ExpectedModel::Fill(expected.state(), state());
    ExpectedModel::Fill(expected.gradient(), g());
  }
  ~Vectors() { munmap(memory_, bytes_); }
  Vectors(const Vectors&) = delete;
  Vectors& operator=(const Vectors&) = delete;

  std::span<float> w() { return Vector(0); }
  std::span<float> state() { return Vector(1); }
  std::span<float> g() { return Vector(2); }

  ExpectedModel expected;

 private:
  static constexpr size_t kStagger = 1024 + 64;
  static constexpr size_t kHugePage = 2 << 20;

  std::span<float> Vector(size_t index) {
    // Lengths that are multiples of 4 KiB put the next start kStagger further.
    const size_t rounded = (size_ * sizeof(float) + 4095) / 4096 * 4096;
    char* const begin = static_cast<char*>(memory_) + index * (rounded + kStagger);
    return {reinterpret_cast<float*>(begin), size_};
  }

  const size_t size_;
  size_t bytes_ = 0;
  void* memory_ = nullptr;
};

// Each thread takes an equal part.
void ApplyOnThreads(const ApplyFunction& apply, uint32_t threads, uint64_t k, Vectors* vectors) {
  const size_t part = vectors->w().size() / threads;
  const auto apply_part = [&, k](uint32_t index) {
    const size_t begin = index * part;
    apply(k, vectors->w().subspan(begin, part), vectors->state().subspan(begin, part),
          vectors->g().subspan(begin, part));
  };
  std::vector<std::jthread> others;
  for (uint32_t i = 1; i < threads; ++i) {
    others.emplace_back([&apply_part, i] { apply_part(i); });
  }
  apply_part(0);
}

Contender KernelContender(const std::string& name, ApplyFunction apply, uint32_t threads,
                          Vectors* vectors, uint64_t* pushes) {
  Contender contender;
  contender.name = name;
  contender.operate = [=] {
    ApplyOnThreads(apply, threads, (*pushes)++, vectors);
    return absl::OkStatus();
  };
  contender.check = [=] {
    vectors->expected.Push(apply);
    return vectors->expected.CheckSamples(vectors->w());
  };
  contender.finish = [=] { return vectors->expected.CheckAll(vectors->w()); };
  return contender;
}

absl::Status RunSize(const BenchmarkOptions& options, uint64_t millions, uint32_t threads,
                     std::vector<Workload>* out) {
  // Whole periods for each thread.
  const uint64_t unit = threads * ExpectedModel::kPeriod;
  const uint64_t floats = millions * 1'000'000 / unit * unit;
  Workload workload = {.name = absl::StrCat("adagrad_", millions, "M_", threads, "T"),
                       .bytes = kBytesPerParameter * static_cast<double>(floats)};
  Vectors vectors(floats);
  uint64_t pushes = 0;
  const std::shared_ptr<OptimizerKernel> kernel = BenchmarkKernel();
  std::vector<Contender> contenders = {KernelContender(
      "product",
      [kernel](uint64_t k, std::span<float> w, std::span<float> state, std::span<const float> g) {
        kernel->Apply(k, w, state, g);
      },
      threads, &vectors, &pushes)};
  for (const InPlaceKernel& reference : InPlaceKernels()) {
    contenders.push_back(KernelContender(
        absl::StrCat("in_place_", reference.name),
        [apply = reference.apply](uint64_t, std::span<float> w, std::span<float> state,
                                  std::span<const float> g) { apply(w, state, g); },
        threads, &vectors, &pushes));
  }
  const Turn turn = {.operations = options.quick ? 2u : 3u, .seconds = options.quick ? 0 : 0.2};
  RETURN_IF_ERROR(RunRounds(options.rounds, turn, contenders, &workload));
  out->push_back(std::move(workload));
  return absl::OkStatus();
}

}  // namespace

absl::Status RunKernels(const BenchmarkOptions& options, std::vector<Workload>* out) {
  for (const uint64_t millions : {10, 100}) {
    for (const uint32_t threads : {1u, 2u}) {
      RETURN_IF_ERROR(RunSize(options, millions, threads, out));
    }
  }
  return absl::OkStatus();
}

}  // namespace monsoon
