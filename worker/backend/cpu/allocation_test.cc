// A step allocates nothing once its batch size has been seen: every call of the
// process's allocator is counted, oneDNN's own too.
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "common/base/check.h"
#include "common/testing/status_matchers.h"
#include "gtest/gtest.h"
#include "worker/backend/cpu/network.h"
#include "worker/backend/test_models.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define MONSOON_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define MONSOON_SANITIZER 1
#endif
#endif

namespace {
std::atomic<uint64_t> allocations{0};
}  // namespace

#if defined(MONSOON_SANITIZER)

// Sanitizers have an allocator of their own, and tell of its calls.
extern "C" int __sanitizer_install_malloc_and_free_hooks(void (*malloc_hook)(const volatile void*,
                                                                             size_t),
                                                         void (*free_hook)(const volatile void*));

namespace {
[[maybe_unused]] const int installed = __sanitizer_install_malloc_and_free_hooks(
    [](const volatile void*, size_t) { ++allocations; }, [](const volatile void*) {});
}  // namespace

#else

// In front of glibc's, which operator new calls too.
extern "C" {
void* __libc_malloc(size_t size);
void* __libc_calloc(size_t count, size_t size);
void* __libc_realloc(void* old, size_t size);
void* __libc_memalign(size_t alignment, size_t size);

void* malloc(size_t size) {
  ++allocations;
  return __libc_malloc(size);
}
void* calloc(size_t count, size_t size) {
  ++allocations;
  return __libc_calloc(count, size);
}
void* realloc(void* old, size_t size) {
  ++allocations;
  return __libc_realloc(old, size);
}
void* aligned_alloc(size_t alignment, size_t size) {
  ++allocations;
  return __libc_memalign(alignment, size);
}
int posix_memalign(void** result, size_t alignment, size_t size) {
  ++allocations;
  *result = __libc_memalign(alignment, size);
  return *result == nullptr ? ENOMEM : 0;
}
}

#endif

namespace monsoon::cpu {
namespace {

using ::monsoon::testing::InitialParameters;
using ::monsoon::testing::MakeLayout;
using ::monsoon::testing::RandomBatch;

TEST(AllocationTest, TheCounterCounts) {
  const uint64_t before = allocations;
  std::vector<float>* values = new std::vector<float>(100);
  EXPECT_EQ(allocations - before, 2u);
  delete values;
}

class StepAllocationTest : public ::testing::TestWithParam<int> {};

TEST_P(StepAllocationTest, StepsAllocateNothingOnceTheBatchSizeWasSeen) {
  const int threads = GetParam();
  for (const Model& model : {testing::Mlp(), testing::LeNet()}) {
    const ParameterLayout layout = MakeLayout(model);
    absl::StatusOr<NetworkPlan> plan = NetworkPlan::Create(model, layout);
    ASSERT_OK(plan.status());
    ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Network> network,
                         CpuNetwork::Create(*std::move(plan), threads));
    const std::vector<float> parameters = InitialParameters(layout, 1);
    std::vector<float> gradient(layout.size());
    // One that fills blocks of samples, and a tail.
    std::vector<Batch> batches;
    batches.push_back(RandomBatch(layout, 32, 1));
    batches.push_back(RandomBatch(layout, 5, 2));
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
