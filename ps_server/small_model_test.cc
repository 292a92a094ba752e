// What a small model's steps use: fetches from mapped memory, a push whose
// acknowledgement brings the parameters, and no allocation in either.
#include <cstdlib>
#include <memory>
#include <new>
#include <vector>

#include "common/testing/status_matchers.h"
#include "gtest/gtest.h"
#include "ps_server/testing/test_shards.h"

// AddressSanitizer has operators of its own, which must not be mixed with others.
#if defined(__SANITIZE_ADDRESS__)
#define MONSOON_COUNTS_ALLOCATIONS 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define MONSOON_COUNTS_ALLOCATIONS 0
#endif
#endif
#ifndef MONSOON_COUNTS_ALLOCATIONS
#define MONSOON_COUNTS_ALLOCATIONS 1
#endif

namespace {

// Of this thread: the servers run in threads of their own.
thread_local uint64_t allocations = 0;

}  // namespace

#if MONSOON_COUNTS_ALLOCATIONS
namespace {

void* Allocate(size_t size, size_t alignment) {
  ++allocations;
  void* memory = std::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
  if (memory == nullptr) {
    std::abort();
  }
  return memory;
}

}  // namespace

void* operator new(size_t size) { return Allocate(size, alignof(std::max_align_t)); }
void* operator new(size_t size, std::align_val_t alignment) {
  return Allocate(size, static_cast<size_t>(alignment));
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, size_t, std::align_val_t) noexcept { std::free(memory); }
#endif

namespace monsoon {
namespace {

using Vector = std::vector<float>;

constexpr uint32_t kShards = 2;

class SmallModelTest : public ::testing::Test {
 protected:
  void Start(Transport transport) {
    ASSERT_OK_AND_ASSIGN(shards_, TestShards::Start({.shards = kShards}));
    ASSERT_OK_AND_ASSIGN(job_, shards_->CreateJob(SmallJob()));
    ASSERT_OK_AND_ASSIGN(ParameterClientOptions options, shards_->OpenSession(job_, 0));
    options.transport = transport;
    ASSERT_OK_AND_ASSIGN(client_, ParameterClient::Create(options));
    parameters_.resize(job_.map.size());
    gradient_.assign(job_.map.size(), 1.0f);
    ASSERT_OK(client_->Fetch(parameters_, &marks_, &stats_));
  }

  std::unique_ptr<TestShards> shards_;
  TestJob job_;
  std::unique_ptr<ParameterClient> client_;
  Vector parameters_, gradient_;
  FetchMarks marks_;
  FetchStats stats_;
};

TEST_F(SmallModelTest, StepsOverSharedMemoryAllocateNothing) {
  if (!MONSOON_COUNTS_ALLOCATIONS) {
    GTEST_SKIP() << "a sanitizer counts allocations itself";
  }
  ASSERT_NO_FATAL_FAILURE(Start(Transport::SHARED_MEMORY));
  uint64_t steps = 0;
  const auto step = [&](bool mapped) {
    ++steps;
    const auto pushed = client_->Push(gradient_, marks_);
    return pushed.ok() && pushed->sequence == steps && pushed->staleness == 0 &&
           (mapped ? client_->FetchMapped(parameters_, &marks_, &stats_)
                   : client_->Fetch(parameters_, &marks_, &stats_).ok()) &&
           marks_.shard[1][3].applied_sequence == steps;
  };
  for (int warm_up = 0; warm_up < 3; ++warm_up) {
    ASSERT_TRUE(step(true));
  }
  const uint64_t before = allocations;
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(step(true));
  }
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(step(false));
  }
  EXPECT_EQ(allocations - before, 0u);
  EXPECT_EQ(stats_.rpcs, 0u);
  delete new int;
  EXPECT_GT(allocations, before);  // it counts
}

TEST_F(SmallModelTest, OnlyMappedMemoryIsFetchedAtOnce) {
  ASSERT_NO_FATAL_FAILURE(Start(Transport::GRPC));
  EXPECT_FALSE(client_->FetchMapped(parameters_, &marks_, &stats_));
  ASSERT_NO_FATAL_FAILURE(Start(Transport::SHARED_MEMORY));
  Vector mapped(job_.map.size());
  ASSERT_TRUE(client_->FetchMapped(mapped, &marks_, &stats_));
  EXPECT_EQ(mapped, parameters_);
  EXPECT_EQ(stats_.bytes, job_.map.size() * sizeof(float));
  // A session that is over must not go on with what it has mapped.
  ASSERT_OK_AND_ASSIGN(auto newer, shards_->Join(job_, 0, 2));
  EXPECT_FALSE(client_->FetchMapped(mapped, &marks_, &stats_));
  EXPECT_TRUE(IsSessionLost(client_->Fetch(mapped, &marks_, &stats_)));
}

TEST_F(SmallModelTest, AnAcknowledgementBringsTheParameters) {
  Vector expected;
  ASSERT_NO_FATAL_FAILURE(Start(Transport::SHARED_MEMORY));
  EXPECT_FALSE(client_->combines());  // mapped fetches cost no round trip
  for (int step = 0; step < 5; ++step) {
    ASSERT_OK(client_->Push(gradient_, marks_));
    ASSERT_OK(client_->Fetch(parameters_, &marks_, &stats_));
  }
  expected = parameters_;
  ASSERT_NO_FATAL_FAILURE(Start(Transport::GRPC));
  ASSERT_TRUE(client_->combines());
  for (uint64_t step = 1; step <= 5; ++step) {
    bool fetched = false;
    ASSERT_OK_AND_ASSIGN(const auto pushed, client_->PushAndFetch(gradient_, marks_, parameters_,
                                                                  &marks_, &stats_, &fetched));
    ASSERT_TRUE(fetched);
    EXPECT_EQ(pushed.sequence, step);
    EXPECT_EQ(pushed.staleness, 0);
    EXPECT_EQ(pushed.rpcs, kShards);
    EXPECT_EQ(stats_.bytes, job_.map.size() * sizeof(float));
    for (const auto& shard : marks_.shard) {
      for (const StripeMark& mark : shard) {
        EXPECT_EQ(mark.version, step);
        EXPECT_EQ(mark.applied_sequence, step);
      }
    }
  }
  EXPECT_EQ(parameters_, expected);
}

TEST_F(SmallModelTest, LostAnswersAreBroughtAgainAndCountOnce) {
  TestShardsOptions options{.shards = kShards, .transport = Transport::GRPC};
  options.fault.drop = 0.2;
  options.fault.seed = 3;
  ASSERT_OK_AND_ASSIGN(shards_, TestShards::Start(options));
  ASSERT_OK_AND_ASSIGN(job_, shards_->CreateJob(SmallJob()));
  ASSERT_OK_AND_ASSIGN(client_, shards_->Join(job_, 0));
  parameters_.resize(job_.map.size());
  gradient_.assign(job_.map.size(), 1.0f);
  ASSERT_OK(client_->Fetch(parameters_, &marks_, &stats_));
  const float first = parameters_[0];
  uint64_t repeated = 0;
  constexpr int kSteps = 30;
  for (int step = 0; step < kSteps; ++step) {
    bool fetched = false;
    ASSERT_OK_AND_ASSIGN(const auto pushed, client_->PushAndFetch(gradient_, marks_, parameters_,
                                                                  &marks_, &stats_, &fetched));
    ASSERT_TRUE(fetched);
    repeated += pushed.duplicates;
  }
  EXPECT_GT(repeated, 0u);
  EXPECT_NEAR(parameters_[0], first - 0.5f * kSteps, 1e-3);
  EXPECT_EQ(marks_.shard[0][0].version, static_cast<uint64_t>(kSteps));
}

// A model of more than one frame a shard is pushed and fetched apart.
TEST_F(SmallModelTest, LargeModelsAreNotCombined) {
  ASSERT_OK_AND_ASSIGN(shards_, TestShards::Start({.shards = 1, .transport = Transport::GRPC}));
  TestJobOptions options = SmallJob();
  options.model = TestModel(1024, 512);
  options.max_stripe_bytes = kMaxStripeBytes;
  ASSERT_OK_AND_ASSIGN(job_, shards_->CreateJob(options));
  ASSERT_OK_AND_ASSIGN(client_, shards_->Join(job_, 0));
  EXPECT_FALSE(client_->combines());
}

}  // namespace
}  // namespace monsoon
