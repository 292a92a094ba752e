// What peers send takes no memory that the budget does not count, and no lock for
// longer than its own job.
#include <malloc.h>
#include <sys/stat.h>

#include <atomic>
#include <cstdlib>
#include <limits>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/model/parameter_layout.h"
#include "common/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/optimizer.pb.h"
#include "ps_server/shard/shard.h"

namespace {

// Bytes that operator new has given and not got back, and the most since Peak was
// set.
std::atomic<int64_t> allocated{0};
std::atomic<int64_t> peak{0};

void* Count(void* data) {
  if (data == nullptr) {
    std::abort();
  }
  const int64_t now = allocated += static_cast<int64_t>(malloc_usable_size(data));
  int64_t most = peak;
  while (now > most && !peak.compare_exchange_weak(most, now)) {
  }
  return data;
}

void Discount(void* data) {
  if (data != nullptr) {
    allocated -= static_cast<int64_t>(malloc_usable_size(data));
    std::free(data);
  }
}

}  // namespace

void* operator new(size_t size) { return Count(std::malloc(size)); }
void* operator new[](size_t size) { return Count(std::malloc(size)); }
void* operator new(size_t size, std::align_val_t alignment) {
  const auto unit = static_cast<size_t>(alignment);
  return Count(std::aligned_alloc(unit, (size + unit - 1) / unit * unit));
}
void* operator new[](size_t size, std::align_val_t alignment) {
  return operator new(size, alignment);
}
// The library's own would not go with the operators below.
void* operator new(size_t size, const std::nothrow_t&) noexcept { return operator new(size); }
void* operator new[](size_t size, const std::nothrow_t&) noexcept { return operator new(size); }
void operator delete(void* data) noexcept { Discount(data); }
void operator delete[](void* data) noexcept { Discount(data); }
void operator delete(void* data, size_t) noexcept { Discount(data); }
void operator delete[](void* data, size_t) noexcept { Discount(data); }
void operator delete(void* data, std::align_val_t) noexcept { Discount(data); }
void operator delete[](void* data, std::align_val_t) noexcept { Discount(data); }
void operator delete(void* data, size_t, std::align_val_t) noexcept { Discount(data); }
void operator delete[](void* data, size_t, std::align_val_t) noexcept { Discount(data); }

namespace monsoon {
namespace {

using ::monsoon::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr uint64_t kEpoch = 77;
constexpr int64_t kMib = 1 << 20;

CreateShardJobRequest Request(const std::string& job, uint32_t inputs, uint32_t units,
                              uint64_t stripe_bytes) {
  CreateShardJobRequest request;
  request.set_job(job);
  request.mutable_model()->add_input_shape(inputs);
  Dense* dense = request.mutable_model()->add_layer()->mutable_dense();
  dense->set_units(units);
  dense->set_no_bias(true);
  request.mutable_optimizer()->mutable_momentum()->set_rate(0.1);
  request.mutable_optimizer()->mutable_momentum()->set_momentum(0.9);
  request.set_shards(1);
  request.set_max_stripe_bytes(stripe_bytes);
  request.set_layout_hash(ParameterLayout::Create(request.model())->Hash());
  return request;
}

SessionKey Session(const std::string& job, uint32_t worker, uint64_t incarnation) {
  SessionKey session;
  session.set_job(job);
  session.set_worker(worker);
  session.set_incarnation(incarnation);
  return session;
}

class ShardLimitsTest : public ::testing::Test {
 protected:
  ShardLimitsTest() {
    // What is made once in the process is nobody's.
    Shard first({"test", 0, kEpoch, kLimit});
    EXPECT_OK(first.CreateJob(Request("job", 16, 16, 64)));
  }

  uint64_t Used() { return shard_.GetStatus({})->memory_used_bytes(); }

  static constexpr uint64_t kLimit = uint64_t{4096} << 20;
  Shard shard_{{"test", 0, kEpoch, kLimit}};
};

TEST_F(ShardLimitsTest, ManyShardsTakeNoMemory) {
  // 59 bytes that named 2^26 shards took 512 MiB.
  CreateShardJobRequest request = Request("many", 64, 1 << 24, 64);
  request.set_shards(1 << 26);
  EXPECT_LT(request.ByteSizeLong(), 80u);
  const int64_t before = peak = allocated.load();
  ASSERT_OK(shard_.CreateJob(request));
  EXPECT_LT(peak - before, kMib);
  EXPECT_GE(Used(), static_cast<uint64_t>(allocated - before));
}

TEST_F(ShardLimitsTest, ANumberOfStripesTakesNoTime) {
  // Almost 2^32 stripes of 64 bytes: planned in no more time than one.
  const CreateShardJobRequest request = Request("stripes", 4096, (1 << 24) - 1, 64);
  const int64_t before = peak = allocated.load();
  EXPECT_THAT(shard_.CreateJob(request),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("over the limit")));
  EXPECT_LT(peak - before, kMib);
  // One more would not fit its count.
  EXPECT_THAT(shard_.CreateJob(Request("stripes", 4097, 1 << 24, 64)),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("too many")));
}

TEST_F(ShardLimitsTest, SmallStripesAreCountedWhole) {
  // 4 MiB of parameters in 65,536 stripes.
  constexpr uint64_t kStripes = 65536;
  const int64_t before = allocated;
  ASSERT_OK(shard_.CreateJob(Request("small", 1024, 1024, 64)));
  const SliceFetches::Shared shared = *shard_.FindJob("small")->fetches()->Share(std::nullopt);
  struct stat file {};
  ASSERT_EQ(fstat(shared.fd, &file), 0);
  const auto taken = static_cast<uint64_t>(allocated - before) +
                     static_cast<uint64_t>(file.st_size) + /*momentum=*/(uint64_t{4} << 20);
  EXPECT_GT(taken, uint64_t{64} << 20);
  EXPECT_GE(Used(), taken);
  EXPECT_LE(Used(), 2 * taken);

  // And so are the session's windows.
  const uint64_t used = Used();
  const int64_t opened = allocated;
  ASSERT_OK(shard_.OpenSession(Session("small", 0, 1)));
  EXPECT_GE(Used() - used, static_cast<uint64_t>(allocated - opened));
  EXPECT_GE(static_cast<uint64_t>(allocated - opened), kStripes * 64);
  ASSERT_OK(shard_.CloseSession(Session("small", 0, 1)));
  EXPECT_LT(Used() - used, 1024u);
}

TEST_F(ShardLimitsTest, SessionsThatAreOverAreCounted) {
  ASSERT_OK(shard_.CreateJob(Request("job", 16, 16, 64)));
  const uint64_t used = Used();
  const int64_t before = allocated;
  for (uint64_t incarnation = 1; incarnation <= 1000; ++incarnation) {
    ASSERT_OK(shard_.CloseSession(Session("job", 7, incarnation)));
  }
  EXPECT_GE(Used() - used, static_cast<uint64_t>(allocated - before));
  Shard full({"test", 0, kEpoch, PlanJob(Request("job", 16, 16, 64))->memory_bytes});
  ASSERT_OK(full.CreateJob(Request("job", 16, 16, 64)));
  EXPECT_EQ(full.OpenSession(Session("job", 0, 1)).status().code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(full.CloseSession(Session("job", 0, 1)).status().code(),
            absl::StatusCode::kResourceExhausted);
}

TEST_F(ShardLimitsTest, RememberedRefusalsAreCountedAndNeedRoom) {
  const CreateShardJobRequest job = Request("job", 1024, 16, 64);
  constexpr uint32_t kStripes = 256;  // fill a frame
  const auto push = [&](Shard* shard, uint64_t sequence) {
    PushRequest request;
    *request.mutable_session() = Session("job", 0, 1);
    request.set_layout_hash(job.layout_hash());
    for (uint32_t stripe = 0; stripe < kStripes; ++stripe) {
      PushRecord* record = request.add_record();
      record->set_stripe(stripe);
      record->set_sequence(sequence);
      record->set_shard_epoch(kEpoch);
      record->set_length(64);
    }
    const std::vector<float> bad(kStripes * 16, std::numeric_limits<float>::quiet_NaN());
    const ByteChunk chunk = std::as_bytes(std::span(bad));
    ChunkCursor cursor({&chunk, 1});
    AlignedFloats scratch(kMaxFramePayloadBytes / sizeof(float));
    return shard->Push(request, &cursor, &scratch);
  };
  ASSERT_OK(shard_.CreateJob(job));
  ASSERT_OK(shard_.OpenSession(Session("job", 0, 1)));
  const uint64_t used = Used();
  const int64_t before = allocated;
  for (uint64_t sequence = 1; sequence <= 100; ++sequence) {
    ASSERT_OK_AND_ASSIGN(const PushReply reply, push(&shard_, sequence));
    ASSERT_EQ(reply.verdict(255).verdict(), REFUSED_INVALID);
  }
  EXPECT_GT(allocated - before, kMib);
  EXPECT_GE(Used() - used, static_cast<uint64_t>(allocated - before));

  // Without room the sequence is not used up: the sender may come again.
  Shard full({"test", 0, kEpoch, used});
  ASSERT_OK(full.CreateJob(job));
  ASSERT_OK(full.OpenSession(Session("job", 0, 1)));
  ASSERT_OK_AND_ASSIGN(const PushReply reply, push(&full, 1));
  EXPECT_EQ(reply.verdict(255).verdict(), REFUSED_BUSY);
  EXPECT_THAT(reply.verdict(255).message(), HasSubstr("memory_limit_mib"));
}

TEST_F(ShardLimitsTest, ScalarsOfManyStripesTakeLittle) {
  ASSERT_OK(shard_.CreateJob(Request("batch", 1024, 1024, 64)));  // 65,536 stripes
  uint64_t id = 0;
  const auto execute = [&](auto fill) {
    VectorRequest request;
    request.set_job("batch");
    request.set_shard_epoch(kEpoch);
    request.set_op_id(++id);
    fill(&request);
    return shard_.Vector(request);
  };
  ASSERT_OK(execute([](VectorRequest* request) {
    request->mutable_fill()->set_out("a");
    request->mutable_fill()->set_value(1.0);
  }));
  const auto combine = [](int dots) {
    return [dots](VectorRequest* request) {
      VectorCombine* op = request->mutable_combine();
      op->set_out("b");
      op->add_in("a");
      op->add_factor(2.0);
      for (int i = 0; i < dots; ++i) {
        op->add_dot_with("a");
      }
    };
  };
  const int64_t before = peak = allocated.load();
  const uint64_t used = Used();
  // 15 KB that wanted 8 bytes a name and stripe, 2.6 GB here.
  EXPECT_THAT(execute(combine(5000)),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("the limit is 4096")));
  --id;
  ASSERT_OK_AND_ASSIGN(const VectorReply reply, execute(combine(64)));
  ASSERT_EQ(reply.scalar_size(), 64);
  EXPECT_EQ(reply.scalar(63), 2.0 * 1024 * 1024);
  EXPECT_LT(peak - before, 12 * kMib);  // the new vector of 4 MiB among it
  EXPECT_GE(Used() - used, static_cast<uint64_t>(allocated - before));
}

TEST_F(ShardLimitsTest, NamesAndRequestsAreBounded) {
  const auto create = [&](const std::string& name) {
    CreateShardJobRequest request = Request("job", 16, 16, 64);
    request.set_job(name);
    return shard_.CreateJob(request).status();
  };
  EXPECT_OK(create(std::string(128, 'n')));
  const absl::Status status = create(std::string(700'000, 'n'));
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kInvalidArgument,
                               AllOf(HasSubstr("700000 bytes"), HasSubstr("128"))));
  EXPECT_LT(status.message().size(), 500u);
  EXPECT_EQ(create(std::string(129, 'n')).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(create("two words").code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(create("").code(), absl::StatusCode::kInvalidArgument);
  CreateShardJobRequest request = Request("job", 16, 16, 64);
  request.mutable_model()->set_name(std::string(300'000, 'm'));
  EXPECT_THAT(shard_.CreateJob(request),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("too many layers or names")));
}

TEST_F(ShardLimitsTest, AStatusIsAPageOfJobs) {
  constexpr int kJobs = 100;
  for (int i = 0; i < kJobs; ++i) {
    ASSERT_OK(shard_.CreateJob(Request(absl::StrCat(std::string(100, 'n'), i), 16, 16, 64)));
  }
  ShardStatusRequest request;
  std::vector<std::string> names;
  bool more = true;
  while (more) {
    ASSERT_OK_AND_ASSIGN(const ShardStatusReply reply, shard_.GetStatus(request));
    ASSERT_LE(reply.job_size(), static_cast<int>(Shard::kJobsPerStatus));
    for (const ShardJobStatus& job : reply.job()) {
      EXPECT_TRUE(names.empty() || names.back() < job.job());
      names.push_back(job.job());
    }
    more = reply.more_jobs();
    request.set_after_job(names.back());
  }
  EXPECT_EQ(names.size(), static_cast<size_t>(kJobs));
}

TEST_F(ShardLimitsTest, ACreationHoldsNobodyElseUp) {
  // 2 GiB take seconds to fill; 49 bytes held the lock for 11 s.
  const CreateShardJobRequest large = Request("large", 32, 1 << 23, 1 << 20);
  absl::Status made;
  std::jthread maker([&] { made = shard_.CreateJob(large).status(); });
  while (Used() == 0) {
    std::this_thread::yield();
  }
  const CreateShardJobRequest small = Request("small", 16, 16, 64);
  EXPECT_OK(shard_.CreateJob(small));
  EXPECT_OK(shard_.OpenSession(Session("small", 0, 1)));
  EXPECT_OK(shard_.DeleteJob("small"));
  EXPECT_THAT(shard_.CreateJob(large),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("is being made")));
  // It is given up at the next stripe.
  EXPECT_EQ(shard_.DeleteJob("large").code(), absl::StatusCode::kUnavailable);
  maker.join();
  EXPECT_THAT(made, StatusIs(absl::StatusCode::kAborted, HasSubstr("deleted")));
  EXPECT_OK(shard_.DeleteJob("large"));
  EXPECT_EQ(Used(), 0u);
}

}  // namespace
}  // namespace monsoon
