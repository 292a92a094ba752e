// Adagrad against the memory: parameters per second of the kernel the shards
// run, and of the best of three loops in place with the same 20 bytes of
// traffic a parameter and next to no arithmetic (memory_loops.h). And Adam
// against the one of them that has its 28 bytes.
//
//   optimizer_benchmark [--sizes=49152,10000000,100000000] [--threads=1,2]
//                       [--rounds=31] [--stripe=262144] [--simd=avx2]
//
// Rivals run at one SIMD level over the same memory, laid out as in a shard:
// stripes of 1 MiB from a FloatArena, each thread with its own half of them.
// Every round times all of them, in an order that rotates. The best rival
// is the one with the smallest median time; a ratio pairs it with ours in
// one round, 1 being as fast. After each timing, three parameters of every
// stripe must have the bits of the same steps done one by one.
//
// The size 49152 is one stripe of 576 KiB a thread and stays in the second-level
// cache: there root and quotient set the time, and no target is stated.
// Exit code 1: a result was wrong.
#include <sys/resource.h>

#include <algorithm>
#include <barrier>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "common/base/check.h"
#include "common/memory/float_arena.h"
#include "common/optimizer/memory_loops.h"
#include "common/optimizer/optimizer.h"
#include "common/simd/simd_level.h"
#include "proto/job.pb.h"
#include "proto/optimizer.pb.h"

namespace monsoon {
namespace {

constexpr float kRate = 1e-3f;
constexpr float kEpsilon = 1e-8f;
constexpr double kTarget = 0.95;
constexpr size_t kCacheFloats = 49'152;
// So many parameters a timing at least: 30 to 110 ms, long against the time
// slices of other processes.
constexpr size_t kTimedFloats = 100'000'000;

struct Settings {
  std::vector<size_t> sizes = {kCacheFloats, 10'000'000, 100'000'000};
  std::vector<size_t> threads = {1, 2};
  size_t rounds = 31;
  size_t stripe_floats = 1 << 18;
};

struct Stripe {
  std::span<float> w, g;
  std::span<float> state;  // of two slots
  std::span<float> h, v;   // the slots
};

struct Kernel {
  std::string name;
  std::function<void(const Stripe&)> run;
  // The same for one parameter.
  std::function<void(float g, float* w, float* h, float* v)> step;
};

const MemoryLoops& Loops() {
  return ActiveLoops(simd_baseline::kMemoryLoops, simd_avx2::kMemoryLoops,
                     simd_avx512::kMemoryLoops);
}

// The first is ours.
std::vector<Kernel> AdamKernels(const OptimizerKernel& adam) {
  const MemoryLoops& loops = Loops();
  return {
      {"Adam", [&adam](const Stripe& s) { adam.Apply(0, s.w, s.state, s.g); },
       [](float g, float* w, float* h, float* v) {
         *h = 0.9f * *h + static_cast<float>(1 - 0.9) * g;
         *v = 0.999f * *v + static_cast<float>(1 - 0.999) * (g * g);
         const auto rate = static_cast<float>(double{kRate} / (1 - 0.9));
         const auto scale = static_cast<float>(1 / std::sqrt(1 - 0.999));
         *w -= 0.0f * *w + rate * *h / (std::sqrt(*v) * scale + kEpsilon);
       }},
      {"averages",
       [&loops](const Stripe& s) {
         loops.averages(s.w.size(), kRate, s.w.data(), s.h.data(), s.v.data(), s.g.data());
       },
       [](float g, float* w, float* h, float* v) {
         *h = 0.5f * *h + g;
         *v = 0.5f * *v + g;
         *w -= kRate * *h;
       }},
  };
}

std::vector<Kernel> AdagradKernels(const OptimizerKernel& adagrad) {
  const MemoryLoops& loops = Loops();
  return {
      {"Adagrad", [&adagrad](const Stripe& s) { adagrad.Apply(0, s.w, s.h, s.g); },
       [](float g, float* w, float* h, float*) {
         *h += g * g;
         *w -= kRate * g / (std::sqrt(*h) + kEpsilon);
       }},
      {"sums",
       [&loops](const Stripe& s) { loops.sums(s.w.size(), s.w.data(), s.h.data(), s.g.data()); },
       [](float g, float* w, float* h, float*) {
         *h += g;
         *w -= g;
       }},
      {"squares",
       [&loops](const Stripe& s) {
         loops.squares(s.w.size(), kRate, s.w.data(), s.h.data(), s.g.data());
       },
       [](float g, float* w, float* h, float*) {
         *h += g * g;
         *w -= kRate * g;
       }},
      {"average",
       [&loops](const Stripe& s) {
         loops.average(s.w.size(), kRate, s.w.data(), s.h.data(), s.g.data());
       },
       [](float g, float* w, float* h, float*) {
         *h = 0.5f * *h + g;
         *w -= kRate * *h;
       }},
  };
}

// Threads that do one thing together, the caller among them.
class Team {
 public:
  explicit Team(size_t threads) : size_(threads), barrier_(static_cast<ptrdiff_t>(threads)) {
    for (size_t rank = 1; rank < threads; ++rank) {
      threads_.emplace_back([this, rank] { Serve(rank); });
    }
  }
  ~Team() {
    work_ = nullptr;
    barrier_.arrive_and_wait();
  }

  void Run(const std::function<void(size_t rank)>& work) {
    work_ = work;
    barrier_.arrive_and_wait();
    work_(0);
    barrier_.arrive_and_wait();
  }
  size_t size() const { return size_; }

 private:
  void Serve(size_t rank) {
    for (;;) {
      barrier_.arrive_and_wait();
      if (!work_) {
        return;
      }
      work_(rank);
      barrier_.arrive_and_wait();
    }
  }

  const size_t size_;
  std::barrier<> barrier_;
  std::function<void(size_t)> work_;  // written while the others wait
  std::vector<std::jthread> threads_;
};

// All values stay positive, so that one kernel's result suits the next.
std::vector<Stripe> MakeStripes(size_t floats, size_t stripe_floats, FloatArena* arena) {
  std::vector<Stripe> stripes;
  uint32_t random = 1;
  for (size_t begin = 0; begin < floats; begin += stripe_floats) {
    const size_t size = std::min(stripe_floats, floats - begin);
    Stripe stripe = {arena->Take(size), arena->Take(size), arena->Take(2 * size), {}, {}};
    stripe.h = stripe.state.first(size);
    stripe.v = stripe.state.subspan(size);
    std::ranges::fill(stripe.w, 1.0f);
    std::ranges::fill(stripe.state, 0.1f);
    for (float& g : stripe.g) {
      random = random * 1664525u + 1013904223u;
      g = 0x1p-10f + static_cast<float>(random >> 16) * 0x1p-24f;
    }
    stripes.push_back(stripe);
  }
  return stripes;
}

// Remembers some parameters and tells whether `passes` steps made of them what
// they should have.
class Samples {
 public:
  explicit Samples(const std::vector<Stripe>& stripes) {
    for (const Stripe& stripe : stripes) {
      for (const size_t at : {size_t{0}, stripe.w.size() * 5 / 7, stripe.w.size() - 1}) {
        samples_.push_back({&stripe.w[at], &stripe.h[at], &stripe.v[at], stripe.g[at], stripe.w[at],
                            stripe.h[at], stripe.v[at]});
      }
    }
  }
  bool Moved(const Kernel& kernel, size_t passes) {
    const auto same = [](float a, float b) {
      return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b);
    };
    return std::ranges::all_of(samples_, [&](Sample& sample) {
      for (size_t pass = 0; pass < passes; ++pass) {
        kernel.step(sample.g, &sample.w, &sample.h, &sample.v);
      }
      return same(sample.w, *sample.w_now) && same(sample.h, *sample.h_now) &&
             same(sample.v, *sample.v_now);
    });
  }

 private:
  struct Sample {
    const float* w_now;
    const float* h_now;
    const float* v_now;
    float g, w, h, v;
  };
  std::vector<Sample> samples_;
};

double CpuSeconds() {
  rusage usage = {};
  CHECK_EQ(getrusage(RUSAGE_SELF, &usage), 0);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

double Median(std::vector<double> values) {
  std::ranges::sort(values);
  const size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : 0.5 * (values[half - 1] + values[half]);
}

struct Times {
  std::vector<double> seconds;  // per round
  double cpu_seconds = 0.0;
};

// One timing; false if a result is wrong.
bool TimeOnce(const Kernel& kernel, const std::vector<Stripe>& stripes, size_t passes, Team* team,
              Times* times) {
  Samples samples(stripes);
  const double cpu = CpuSeconds();
  const auto begin = std::chrono::steady_clock::now();
  team->Run([&](size_t rank) {
    const size_t first = stripes.size() * rank / team->size();
    const size_t last = stripes.size() * (rank + 1) / team->size();
    for (size_t pass = 0; pass < passes; ++pass) {
      for (size_t i = first; i < last; ++i) {
        kernel.run(stripes[i]);
      }
    }
  });
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
  times->seconds.push_back(elapsed.count());
  times->cpu_seconds += CpuSeconds() - cpu;
  return samples.Moved(kernel, passes);
}

// Prints a row of the table; false if a result was wrong.
bool Compare(const std::vector<Kernel>& kernels, size_t size, size_t threads, double target,
             const Settings& settings) {
  const bool in_cache = size <= kCacheFloats;
  const size_t floats = in_cache ? size * threads : size;
  const size_t stripe_floats = in_cache ? size : settings.stripe_floats;
  const size_t count = (floats + stripe_floats - 1) / stripe_floats;
  auto arena = FloatArena::Create(FloatArena::BytesFor(4 * count, stripe_floats));
  CHECK_OK(arena.status());
  const std::vector<Stripe> stripes = MakeStripes(floats, stripe_floats, arena->get());
  const size_t passes = std::max<size_t>(1, kTimedFloats / floats);
  std::vector<Times> times(kernels.size());
  Team team(threads);
  bool verified = true;
  for (size_t round = 0; round <= settings.rounds; ++round) {
    if (round == 1) {
      times.assign(kernels.size(), {});  // round 0 warmed up
    }
    for (size_t i = 0; i < kernels.size(); ++i) {
      const size_t k = (round + i) % kernels.size();
      verified &= TimeOnce(kernels[k], stripes, passes, &team, &times[k]);
    }
  }
  size_t best = 1;
  std::vector<double> ns;
  for (size_t k = 0; k < kernels.size(); ++k) {
    ns.push_back(Median(times[k].seconds) * 1e9 / static_cast<double>(floats * passes));
    best = k > 0 && ns[k] < ns[best] ? k : best;
  }
  std::vector<double> ratios;
  for (size_t round = 0; round < settings.rounds; ++round) {
    ratios.push_back(times[best].seconds[round] / times[0].seconds[round]);
  }
  const double ratio = Median(ratios);
  std::printf("| %s / best in place (%s) | %zu | %zu | %.3f | %.3f | ns/parameter | %.2f | ",
              kernels[0].name.c_str(), kernels[best].name.c_str(), floats, threads, ns[0], ns[best],
              ratio);
  std::printf("%.2f | %.2f | %zu | %.2f/%.2f | %s | ", std::ranges::min(ratios),
              std::ranges::max(ratios), settings.rounds, times[0].cpu_seconds,
              times[best].cpu_seconds, verified ? "yes" : "NO");
  if (in_cache || target == 0.0) {
    std::printf("- | - |\n");
  } else {
    std::printf("%.2f | %s |\n", target, ratio >= target ? "yes" : "NO");
  }
  std::fflush(stdout);
  return verified;
}

bool ParseNumbers(absl::string_view text, size_t least, std::vector<size_t>* numbers) {
  numbers->clear();
  for (const absl::string_view part : absl::StrSplit(text, ',')) {
    uint64_t number = 0;
    if (!absl::SimpleAtoi(part, &number) || number < least) {
      return false;
    }
    numbers->push_back(number);
  }
  return true;
}

bool ParseArgument(absl::string_view argument, Settings* settings,
                   std::unique_ptr<ScopedSimdLevel>* simd) {
  std::vector<size_t> one;
  if (absl::ConsumePrefix(&argument, "--sizes=")) {
    return ParseNumbers(argument, 1, &settings->sizes);
  }
  if (absl::ConsumePrefix(&argument, "--threads=")) {
    return ParseNumbers(argument, 1, &settings->threads);
  }
  if (absl::ConsumePrefix(&argument, "--rounds=") && ParseNumbers(argument, 7, &one)) {
    settings->rounds = one[0];
    return one.size() == 1;
  }
  if (absl::ConsumePrefix(&argument, "--stripe=") && ParseNumbers(argument, 1, &one)) {
    settings->stripe_floats = one[0];
    return one.size() == 1;
  }
  if (absl::ConsumePrefix(&argument, "--simd=")) {
    for (const SimdLevel level : SupportedSimdLevels()) {
      if (argument == SimdLevelName(level)) {
        *simd = std::make_unique<ScopedSimdLevel>(level);
        return true;
      }
    }
  }
  return false;
}

int Main(int argc, char** argv) {
  Settings settings;
  std::unique_ptr<ScopedSimdLevel> simd;
  for (int i = 1; i < argc; ++i) {
    if (!ParseArgument(argv[i], &settings, &simd)) {
      std::fprintf(
          stderr,
          "optimizer_benchmark: bad argument '%s'; known are --sizes=N,... --threads=N,... "
          "--rounds=N (7 or more) --stripe=N --simd=LEVEL (of this machine)\n",
          argv[i]);
      return 2;
    }
  }
  Optimizer optimizer;
  optimizer.mutable_adagrad()->set_rate(kRate);
  optimizer.mutable_adagrad()->set_epsilon(kEpsilon);
  auto adagrad = OptimizerKernel::Create(optimizer);
  CHECK_OK(adagrad.status());
  optimizer.mutable_adam()->set_rate(kRate);
  optimizer.mutable_adam()->set_epsilon(kEpsilon);
  auto adam = OptimizerKernel::Create(optimizer);
  CHECK_OK(adam.status());
  std::printf("SIMD level: %s\n\n", SimdLevelName());
  std::printf(
      "| workload | size | threads | ours | reference | unit | ratio | min | max | rounds | "
      "CPU s ours/ref | verified | target | met |\n"
      "|---|---|---|---|---|---|---|---|---|---|---|---|---|---|\n");
  bool verified = true;
  for (const size_t size : settings.sizes) {
    for (const size_t threads : settings.threads) {
      verified &= Compare(AdagradKernels(**adagrad), size, threads, kTarget, settings);
      verified &= Compare(AdamKernels(**adam), size, threads, /*target=*/0.0, settings);
    }
  }
  return verified ? 0 : 1;
}

}  // namespace
}  // namespace monsoon

int main(int argc, char** argv) { return monsoon::Main(argc, argv); }
