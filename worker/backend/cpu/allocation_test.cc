// A step of ours allocates nothing once its batch size has been seen. oneDNN
// makes a small map at each dnnl_primitive_execute, which is not counted.
#include <dlfcn.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "common/memory/aligned_floats.h"
#include "common/model/parameter_layout.h"
#include "common/testing/status_matchers.h"
#include "gtest/gtest.h"
#include "proto/model.pb.h"
#include "worker/backend/cpu/network.h"
#include "worker/nn/batch.h"
#include "worker/nn/network.h"
#include "worker/nn/network_plan.h"
#include "worker/nn/step_key.h"
#include "worker/nn/test_models.h"

namespace {

std::atomic<uint64_t> allocations{0};

void Count(const void* caller) {
  Dl_info info = {};
  const bool known = dladdr(caller, &info) != 0 && info.dli_fname != nullptr;
  allocations += known && std::strstr(info.dli_fname, "libdnnl") != nullptr ? 0 : 1;
}

}  // namespace

namespace {

void* Allocate(const void* caller, size_t size) {
  Count(caller);
  void* const result = std::malloc(size);
  CHECK(result != nullptr);
  return result;
}

void* Allocate(const void* caller, size_t size, std::align_val_t alignment) {
  Count(caller);
  const auto step = static_cast<size_t>(alignment);
  void* const result = std::aligned_alloc(step, (size + step - 1) / step * step);
  CHECK(result != nullptr);
  return result;
}

}  // namespace

// In place of the library's, for the whole process. Not inlined: the compiler
// would take new and free for a mismatch, and the caller is what counts. A sanitizer's
// arrays would not come here by themselves.
[[gnu::noinline]] void* operator new(size_t size) {
  return Allocate(__builtin_return_address(0), size);
}
[[gnu::noinline]] void* operator new(size_t size, std::align_val_t alignment) {
  return Allocate(__builtin_return_address(0), size, alignment);
}
[[gnu::noinline]] void* operator new[](size_t size) {
  return Allocate(__builtin_return_address(0), size);
}
[[gnu::noinline]] void* operator new[](size_t size, std::align_val_t alignment) {
  return Allocate(__builtin_return_address(0), size, alignment);
}
[[gnu::noinline]] void* operator new(size_t size, const std::nothrow_t&) noexcept {
  return Allocate(__builtin_return_address(0), size);
}
[[gnu::noinline]] void* operator new[](size_t size, const std::nothrow_t&) noexcept {
  return Allocate(__builtin_return_address(0), size);
}

[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, size_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::align_val_t) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, size_t, std::align_val_t) noexcept {
  std::free(memory);
}

[[gnu::noinline]] void operator delete[](void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete[](void* memory, size_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete[](void* memory, std::align_val_t) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete[](void* memory, size_t, std::align_val_t) noexcept {
  std::free(memory);
}

namespace monsoon::cpu {
namespace {

using ::monsoon::testing::InitialParameters;
using ::monsoon::testing::MakeLayout;
using ::monsoon::testing::RandomBatch;

TEST(AllocationTest, TheCounterCounts) {
  const uint64_t before = allocations;
  AlignedFloats buffer = AlignedFloats::NanFilled(100);
  std::vector<float> values(100);
  // A compiler may leave out a pair of new and delete that nobody sees.
  asm volatile("" : : "r"(buffer.data()), "r"(values.data()) : "memory");
  EXPECT_EQ(allocations - before, 2u);
}

// Each layer of images, behind parameters.
Model ImageLayers() {
  return testing::ParseModel(R"pb(
    input_shape: [ 3, 12, 12 ]
    layer {
      name: "rescaled"
      rescale { scale: 0.5 }
    }
    layer { conv2d { filters: 5 kernel: 3 padding: 1 no_bias: true } }
    layer { augment { shift: 1 flip: true crop: 11 } }
    layer { batch_norm {} }
    layer {
      name: "a"
      relu {}
    }
    layer { locally_connected2d { filters: 5 kernel: 3 padding: 1 } }
    layer {
      name: "b"
      local_contrast_norm { window: 5 }
    }
    layer {
      input: "a"
      input: "b"
      add {}
    }
    layer { global_average_pool {} }
    layer { dense { units: 10 } }
  )pb");
}

class StepAllocationTest : public ::testing::TestWithParam<int> {};

TEST_P(StepAllocationTest, StepsAllocateNothingOnceTheBatchSizeWasSeen) {
  const int threads = GetParam();
  using Entry = std::pair<Model, uint32_t>;  // and below what its ids are; 0: it has none
  for (const auto& [model, ids] :
       {Entry(testing::Mlp(), 0), Entry(testing::LeNet(), 0), Entry(ImageLayers(), 0),
        Entry(testing::GptBlock(), testing::kGptIds),
        Entry(testing::TextClassifier(), testing::kTextIds)}) {
    const ParameterLayout layout = MakeLayout(model);
    absl::StatusOr<NetworkPlan> plan = NetworkPlan::Create(model, layout);
    ASSERT_OK(plan.status());
    ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Network> network,
                         CpuNetwork::Create(*std::move(plan), threads));
    const std::vector<float> parameters = InitialParameters(layout, 1);
    std::vector<float> gradient(layout.size());
    // One that fills blocks of samples, and a tail.
    std::vector<Batch> batches;
    batches.push_back(RandomBatch(layout, 32, 1, ids));
    batches.push_back(RandomBatch(layout, 5, 2, ids));
    uint64_t before = 0;
    for (uint64_t step = 0; step < 6; ++step) {
      if (step == 2) {
        before = allocations;
      }
      for (const Batch& batch : batches) {
        network->SetParameters(parameters);
        CHECK(network->LossAndGradient(batch, StepKey{1, 0, step}, gradient).ok());
        CHECK(network->Evaluate(batch).ok());
      }
    }
    EXPECT_EQ(allocations - before, 0u);
  }
}

INSTANTIATE_TEST_SUITE_P(Threads, StepAllocationTest, ::testing::Values(1, 2));

}  // namespace
}  // namespace monsoon::cpu
