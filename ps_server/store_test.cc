// Jobs whose shards only store, over real frames: a session writes, the coordinator has it adopted.
#include <atomic>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "common/security/member_id.h"
#include "common/testing/status_matchers.h"
#include "common/testing/unique_name.h"
#include "common/transport/grpc/tls.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/optimizer.pb.h"
#include "ps_server/testing/test_shards.h"

namespace monsoon {
namespace {

using ::monsoon::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

using Vector = std::vector<float>;

constexpr uint32_t kSlots = 3;  // parameters, and Adam's two

// 65,536 floats in stripes of 32 KiB, of which each frame has several.
TestJobOptions StoredJob() {
  TestJobOptions job;
  job.model = TestModel(256, 256);
  job.optimizer.mutable_adam()->set_rate(0.1);
  job.max_stripe_bytes = 32 << 10;
  job.store_only = true;
  return job;
}

// Of write `number`, one slot: the same everywhere, so that what is read says of which write it is.
float ValueOf(uint64_t number, uint32_t slot) {
  return static_cast<float>(number) + 0.25f * static_cast<float>(slot);
}

auto SessionLost() {
  return ::testing::Truly([](const absl::Status& status) { return IsSessionLost(status); });
}

class StoreTest : public ::testing::TestWithParam<Transport> {
 protected:
  void Start(uint32_t shards, const std::string& state_dir = "") {
    ASSERT_OK_AND_ASSIGN(
        shards_,
        TestShards::Start({.shards = shards, .transport = GetParam(), .state_dir = state_dir}));
    ASSERT_OK_AND_ASSIGN(job_, shards_->CreateJob(StoredJob()));
    ASSERT_OK_AND_ASSIGN(client_, shards_->Join(job_, 0));
  }

  absl::Status Write(uint64_t number, uint64_t version) {
    for (uint32_t slot = 0; slot < kSlots; ++slot) {
      const Vector values(job_.map.size(), ValueOf(number, slot));
      if (absl::Status written = client_->WriteState(slot, values, version, number);
          !written.ok()) {
        return written;
      }
    }
    return absl::OkStatus();
  }
  // With the seal of `as`.
  absl::Status Seal(uint64_t number, uint64_t as) {
    std::vector<Vector> values;
    std::vector<std::span<const float>> slots;
    for (uint32_t slot = 0; slot < kSlots; ++slot) {
      values.emplace_back(job_.map.size(), ValueOf(as, slot));
    }
    slots.assign(values.begin(), values.end());
    return client_->SealState(slots, number);
  }
  absl::Status Seal(uint64_t number) { return Seal(number, number); }
  absl::Status Adopt(uint32_t shard, uint64_t number) {
    AdoptRequest request;
    request.set_job(job_.name);
    request.set_write(number);
    return shards_->control(shard)->Adopt(request).status();
  }
  void Store(uint64_t number, uint64_t version) {
    ASSERT_OK(Write(number, version));
    ASSERT_OK(Seal(number));
    for (uint32_t shard = 0; shard < job_.map.shards(); ++shard) {
      ASSERT_OK(Adopt(shard, number));
    }
  }

  void ExpectIs(ParameterClient* client, uint64_t number, uint64_t version) {
    for (uint32_t slot = 0; slot < kSlots; ++slot) {
      Vector values(job_.map.size(), -1.0f);
      FetchMarks marks;
      FetchStats stats;
      ASSERT_OK(client->FetchState(slot, values, &marks, &stats));
      EXPECT_EQ(values, Vector(job_.map.size(), ValueOf(number, slot))) << slot;
      EXPECT_GE(stats.rpcs, job_.map.shards()) << "by messages alone";
      EXPECT_EQ(stats.fetch_width, 0u);
      EXPECT_EQ(stats.bytes, values.size() * sizeof(float));
      for (const std::vector<StripeMark>& shard : marks.shard) {
        for (const StripeMark& mark : shard) {
          EXPECT_EQ(mark.version, version);
        }
      }
    }
  }
  ShardJobStatus Status(uint32_t shard) { return shards_->server(shard)->GetStatus().job(0); }

  std::unique_ptr<TestShards> shards_;
  TestJob job_;
  std::unique_ptr<ParameterClient> client_;
};

INSTANTIATE_TEST_SUITE_P(Transports, StoreTest,
                         ::testing::Values(Transport::GRPC, Transport::SHARED_MEMORY),
                         [](const auto& info) { return NameOf(info.param); });

TEST_P(StoreTest, WhatASessionWritesIsReadOnceItIsAdopted) {
  Start(/*shards=*/3);
  Vector initial(job_.map.size());
  ASSERT_OK(client_->Fetch(initial, nullptr, nullptr));
  ASSERT_OK(Write(1, 40));
  ASSERT_OK(Seal(1));
  Vector parameters(job_.map.size());
  ASSERT_OK(client_->Fetch(parameters, nullptr, nullptr));
  EXPECT_EQ(parameters, initial);
  for (uint32_t shard = 0; shard < 3; ++shard) {
    EXPECT_EQ(Status(shard).adopted(), 0u);
    EXPECT_EQ(Status(shard).version_max(), 0u);
    ASSERT_OK(Adopt(shard, 1));
    EXPECT_EQ(Status(shard).adopted(), 1u);
  }
  ASSERT_OK_AND_ASSIGN(const auto reader, shards_->Reader(job_));
  ExpectIs(client_.get(), 1, 40);
  ExpectIs(reader.get(), 1, 40);
  // Mapped too, where it is.
  ASSERT_OK(client_->Fetch(parameters, nullptr, nullptr));
  EXPECT_EQ(parameters, Vector(job_.map.size(), ValueOf(1, 0)));
  Store(2, 50);
  ExpectIs(client_.get(), 2, 50);
  EXPECT_THAT(client_->FetchState(3, parameters, nullptr, nullptr),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("2 float(s) of state")));
}

TEST_P(StoreTest, WhatIsNotWholeIsNotSealed) {
  Start(/*shards=*/2);
  ASSERT_OK(Write(1, 40));
  EXPECT_THAT(Seal(1, 2), StatusIs(absl::StatusCode::kFailedPrecondition,
                                   AllOf(HasSubstr("ps/"), HasSubstr("write 1 has checksum"))));
  EXPECT_THAT(Adopt(1, 1),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("is not here whole")));
  const Vector values(job_.map.size(), ValueOf(2, 0));
  ASSERT_OK(client_->WriteState(0, values, 50, 2));
  const absl::Status incomplete = Seal(2);
  EXPECT_THAT(incomplete, StatusIs(absl::StatusCode::kFailedPrecondition,
                                   HasSubstr("write 2 lacks stripe 0 of slot 1")));
  EXPECT_THAT(incomplete, Not(SessionLost()));
  const absl::Status late = client_->WriteState(0, values, 50, 1);
  EXPECT_THAT(late, StatusIs(absl::StatusCode::kFailedPrecondition,
                             AllOf(HasSubstr("write 1 comes late"), HasSubstr("write 2"))));
  EXPECT_THAT(late, Not(SessionLost()));
  ASSERT_OK(Write(2, 50));
  ASSERT_OK(Seal(2));
}

TEST_P(StoreTest, WhatCannotBeRightIsNotSent) {
  Start(/*shards=*/2);
  Vector values(job_.map.size());
  values[17] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_THAT(client_->WriteState(1, values, 1, 1),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("optimizer's state"), HasSubstr("flat index 17"))));
  values[17] = 0;
  EXPECT_THAT(client_->WriteState(kSlots, values, 1, 1),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("2 float(s) of state")));
  EXPECT_THAT(client_->Push(values, {}),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("the job's shards only store")));
  ASSERT_OK_AND_ASSIGN(ParameterClientOptions halves, shards_->OpenSession(job_, 1));
  halves.fetch_format = BFLOAT16;
  halves.halves = true;
  ASSERT_OK_AND_ASSIGN(const auto client, ParameterClient::Create(halves));
  EXPECT_THAT(client->FetchState(0, values, nullptr, nullptr),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("half precision")));
}

TEST_P(StoreTest, WhoseSessionIsClosedHasLostIt) {
  Start(/*shards=*/2);
  ASSERT_OK(Write(1, 40));
  SessionKey session;
  session.set_job(job_.name);
  session.set_incarnation(1);
  ASSERT_OK(shards_->control(1)->CloseSession(session));
  EXPECT_THAT(Write(1, 40), AllOf(SessionLost(), StatusIs(absl::StatusCode::kFailedPrecondition,
                                                          HasSubstr("not open"))));
  EXPECT_THAT(Seal(1), SessionLost());
  EXPECT_THAT(Adopt(1, 1),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("not sealed")));
}

TEST_P(StoreTest, AShardThatWasStartedAnewKnowsNeither) {
  Start(/*shards=*/2);
  ASSERT_OK(Write(1, 40));
  ASSERT_OK(shards_->Restart(1));
  EXPECT_THAT(Write(1, 40), SessionLost());
  EXPECT_THAT(Adopt(1, 1), StatusIs(absl::StatusCode::kNotFound, HasSubstr(job_.name)));
}

TEST_P(StoreTest, AGenerationHoldsWhatWasAdopted) {
  Start(/*shards=*/2, ::testing::TempDir() + "/" + testing::UniqueName());
  Store(3, 40);
  ASSERT_OK(Write(4, 50));
  ASSERT_OK(Seal(4));
  ASSERT_OK(shards_->Checkpoint(job_.name, 1));
  ASSERT_OK(shards_->Restart(0));
  ASSERT_OK(shards_->Restore(StoredJob(), 0));
  EXPECT_EQ(Status(0).adopted(), 0u);
  EXPECT_EQ(Status(0).memory_bytes(), Status(1).memory_bytes());
  ASSERT_OK_AND_ASSIGN(const auto reader, shards_->Reader(job_));
  ExpectIs(reader.get(), 3, 40);
  // What was in the spare room went with its life.
  EXPECT_THAT(Adopt(0, 4), StatusIs(absl::StatusCode::kFailedPrecondition,
                                    HasSubstr("nothing was written in this life")));
  ASSERT_OK(Adopt(1, 4));
  // Its worker writes it again.
  ASSERT_OK_AND_ASSIGN(client_, shards_->Join(job_, 0, /*incarnation=*/2));
  Store(5, 50);
  ExpectIs(reader.get(), 5, 50);
}

// Each stripe is read as it was under one number, its version with it, however it is read.
TEST_P(StoreTest, NoReadIsTorn) {
  Start(/*shards=*/2);
  Store(1, 1);
  constexpr uint64_t kWrites = 40;
  std::atomic<bool> done{false};
  std::atomic<uint64_t> reads{0};
  const auto check = [&](const Vector& values, const FetchMarks& marks, uint32_t slot) {
    for (uint32_t shard = 0; shard < job_.map.shards(); ++shard) {
      for (uint32_t stripe = 0; stripe < job_.map.stripes(shard); ++stripe) {
        const Slice slice = job_.map.stripe(shard, stripe);
        const float expected = ValueOf(marks.shard[shard][stripe].version, slot);
        for (uint64_t i = slice.begin; i < slice.end; ++i) {
          ASSERT_EQ(values[i], expected) << "slot " << slot << ", float " << i;
        }
      }
    }
    ++reads;
  };
  std::thread reader([&] {
    const auto client = *shards_->Join(job_, 1);
    Vector values(job_.map.size());
    FetchMarks marks;
    FetchStats stats;
    while (!done) {
      for (uint32_t slot = 0; slot < kSlots; ++slot) {
        ASSERT_OK(client->FetchState(slot, values, &marks, &stats));
        check(values, marks, slot);
      }
      ASSERT_OK(client->Fetch(values, &marks, &stats));
      check(values, marks, 0);
    }
  });
  for (uint64_t number = 2; number <= kWrites || reads < 2 * kSlots; ++number) {
    Store(number, number);
  }
  done = true;
  reader.join();
  EXPECT_EQ(Status(0).version_min(), Status(0).adopted());
}

TEST(StoreAccessTest, AnotherMemberDoesNotWriteUnderTheSession) {
  ASSERT_OK_AND_ASSIGN(const auto shards,
                       TestShards::Start({.link = TestLink::kTls, .transport = Transport::GRPC}));
  ASSERT_OK_AND_ASSIGN(const TestJob job, shards->CreateJob(StoredJob()));
  const std::shared_ptr<Tls> owner = shards->TlsOf(Role::kWorker, "7");
  shards->SetOwner(ToProto({owner->self(), owner->self_fingerprint()}));
  ASSERT_OK_AND_ASSIGN(ParameterClientOptions session, shards->OpenSession(job, 0));
  const Vector values(job.map.size(), 1.0f);
  const std::vector<std::span<const float>> slots(kSlots, values);
  for (const auto& tls : {shards->TlsOf(Role::kWorker, "8"), shards->TlsOf(Role::kOperator, "7"),
                          shards->TlsOf(Role::kViewer, "7")}) {
    session.tls = tls;
    ASSERT_OK_AND_ASSIGN(const auto other, ParameterClient::Create(session));
    EXPECT_THAT(other->WriteState(0, values, 1, 1),
                StatusIs(absl::StatusCode::kPermissionDenied, HasSubstr("")));
    EXPECT_THAT(other->SealState(slots, 1),
                StatusIs(absl::StatusCode::kPermissionDenied, HasSubstr("")));
  }
  session.tls = owner;
  ASSERT_OK_AND_ASSIGN(const auto its_own, ParameterClient::Create(session));
  for (uint32_t slot = 0; slot < kSlots; ++slot) {
    ASSERT_OK(its_own->WriteState(slot, values, 1, 1));
  }
  ASSERT_OK(its_own->SealState(slots, 1));
  AdoptRequest adopt;
  adopt.set_job(job.name);
  adopt.set_write(1);
  for (const Role role : {Role::kPs, Role::kWorker, Role::kOperator, Role::kViewer}) {
    const auto control = ShardControl::Create(shards->addresses()[0], absl::Seconds(20), {},
                                              shards->TlsOf(role, "1"));
    EXPECT_THAT(control->Adopt(adopt),
                StatusIs(absl::StatusCode::kPermissionDenied, HasSubstr("coordinator")));
  }
  EXPECT_EQ(shards->server(0)->GetStatus().job(0).adopted(), 0u);
  EXPECT_OK(shards->control(0)->Adopt(adopt));
}

}  // namespace
}  // namespace monsoon
