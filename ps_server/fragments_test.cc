// Fragments through clients and servers: what a push moves, what a fetch brings, and what both
// say of the session's pushes.
#include <cmath>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ps_server/testing/test_shards.h"

namespace monsoon {
namespace {

using ::monsoon::testing::StatusIs;
using Vector = std::vector<float>;

constexpr uint32_t kCount = 3;
constexpr uint32_t kStripes = 16;  // of SmallJob, of 256 floats each

class FragmentsTest : public ::testing::TestWithParam<Transport> {
 protected:
  void SetUp() override {
    ASSERT_OK_AND_ASSIGN(shards_, TestShards::Start({.shards = 2, .transport = GetParam()}));
    ASSERT_OK_AND_ASSIGN(job_, shards_->CreateJob(SmallJob()));
    Fragments fragments;
    fragments.set_count(kCount);
    fragments.set_order(Fragments::BY_STRIPE);
    ASSERT_OK_AND_ASSIGN(fragments_, FragmentMap::Create(fragments, job_.layout, job_.map));
  }
  std::unique_ptr<ParameterClient> Join(uint32_t worker, WireFormat format = FLOAT32) {
    ParameterClientOptions options = *shards_->OpenSession(job_, worker);
    options.fragments = fragments_;
    options.push_format = format;
    return *ParameterClient::Create(std::move(options));
  }
  static float At(const Vector& w, uint32_t stripe) { return w[stripe * 256 + 7]; }

  std::unique_ptr<TestShards> shards_;
  TestJob job_;
  FragmentMap fragments_;
};

TEST_P(FragmentsTest, EachPushMovesItsFragmentAndAFetchOfOneBringsThatAlone) {
  auto client = Join(0);
  auto reader = *shards_->Reader(job_);
  Vector begin(job_.map.size()), w(job_.map.size());
  FetchMarks marks;
  FetchStats stats;
  ASSERT_OK(client->Fetch(begin, &marks, &stats));
  // Of nothing: the first push of each fragment is still to come.
  EXPECT_EQ(marks.shard[0][0].applied_sequence, 0u);
  EXPECT_EQ(marks.shard[0][1].applied_sequence, 1u);
  EXPECT_EQ(marks.shard[0][2].applied_sequence, 2u);
  Vector expected = begin;
  for (uint64_t push = 1; push <= 8; ++push) {
    const Vector gradient(job_.map.size(), static_cast<float>(push));
    ASSERT_OK_AND_ASSIGN(const auto result, client->Push(gradient, marks));
    EXPECT_EQ(result.sequence, push);
    // The marks are the first ones, later those of one other fragment.
    EXPECT_EQ(result.staleness, push <= kCount ? 0 : push <= 6 ? 1 : -1) << push;
    const uint32_t fragment = (push - 1) % kCount;
    uint64_t floats = 0;
    for (uint32_t stripe = fragment; stripe < kStripes; stripe += kCount) {
      for (uint32_t i = 0; i < 256; ++i, ++floats) {
        expected[stripe * 256 + i] -= 0.5f * static_cast<float>(push);
      }
    }
    EXPECT_GT(result.bytes, floats * sizeof(float));
    EXPECT_LT(result.bytes, floats * sizeof(float) + 1024);  // headers

    Vector part(job_.map.size(), -1000.0f);
    FetchMarks of_part;
    ASSERT_OK(client->FetchFragment(fragment, part, &of_part, &stats));
    EXPECT_EQ(stats.bytes, floats * sizeof(float));
    EXPECT_EQ(stats.fetch_width, 0u);
    for (uint32_t stripe = 0; stripe < kStripes; ++stripe) {
      const bool fetched = stripe % kCount == fragment;
      EXPECT_EQ(At(part, stripe), fetched ? At(expected, stripe) : -1000.0f) << stripe;
      const StripeMark& mark = of_part.shard[stripe / 8][stripe % 8];
      EXPECT_EQ(mark.version, fetched ? (push - 1) / kCount + 1 : 0);
      EXPECT_EQ(mark.applied_sequence, fetched ? push + kCount - 1 : 0);
    }
    if (push > 5) {
      marks = of_part;
    }
  }
  ASSERT_OK(client->Fetch(w, &marks, nullptr));
  EXPECT_EQ(w, expected);
  // Up to 8: stripes of fragment 2 await push 9.
  EXPECT_EQ(marks.shard[0][2].applied_sequence, 8u);
  ASSERT_OK(reader->Fetch(w, nullptr, nullptr));
  EXPECT_EQ(w, expected);
}

TEST_P(FragmentsTest, TwoReplicasTakeTurnsOfTheirOwn) {
  auto one = Join(0);
  auto two = Join(1);
  Vector begin(job_.map.size()), w(job_.map.size());
  ASSERT_OK(one->Fetch(begin, nullptr, nullptr));
  const Vector gradient(job_.map.size(), 2.0f);
  for (int i = 0; i < 4; ++i) ASSERT_OK(one->Push(gradient, {}));
  ASSERT_OK(two->Push(gradient, {}));
  ASSERT_OK(one->Fetch(w, nullptr, nullptr));
  EXPECT_EQ(At(w, 0), At(begin, 0) - 3);  // pushes 1 and 4 of one, 1 of two
  EXPECT_EQ(At(w, 1), At(begin, 1) - 1);
  EXPECT_EQ(At(w, 2), At(begin, 2) - 1);
}

// What 4 bits leave out of a fragment leaves with its next push.
TEST_P(FragmentsTest, TheResidualIsTheFragments) {
  auto client = Join(0, INT4);
  Vector begin(job_.map.size()), w(job_.map.size());
  ASSERT_OK(client->Fetch(begin, nullptr, nullptr));
  Vector gradient(job_.map.size());
  for (size_t i = 0; i < gradient.size(); ++i) {
    gradient[i] = std::sin(static_cast<float>(i));
  }
  uint64_t bytes = 0;
  for (int push = 0; push < 3 * 40; ++push) {
    ASSERT_OK_AND_ASSIGN(const auto result, client->Push(gradient, {}));
    bytes += result.bytes;
  }
  EXPECT_LT(bytes, 40u * kStripes * (128 + 4 + 96));  // values, scale and header of a stripe
  ASSERT_OK(client->Fetch(w, nullptr, nullptr));
  for (size_t i = 0; i < w.size(); ++i) {
    // One rounding, of a block whose largest value is about 1, not forty.
    ASSERT_NEAR(w[i], begin[i] - 0.5f * 40 * gradient[i], 0.1) << i;
  }
}

TEST_P(FragmentsTest, RoundsOfFragmentsWaitForTheirOwn) {
  TestJobOptions rounds = SmallJob();
  rounds.name = "rounds-1";
  rounds.rounds.emplace();
  ASSERT_OK_AND_ASSIGN(job_, shards_->CreateJob(rounds));
  auto one = Join(0);
  auto two = Join(1);
  Vector begin(job_.map.size()), w(job_.map.size());
  FetchMarks marks;
  ASSERT_OK(one->Fetch(begin, &marks, nullptr));
  ASSERT_OK(one->Push(Vector(job_.map.size(), 2.0f), {}));
  ASSERT_OK(one->FetchFragment(1, w, &marks, nullptr));  // it has pushed nothing of that
  ASSERT_OK(two->Push(Vector(job_.map.size(), 4.0f), {}));
  ASSERT_OK(one->FetchFragment(0, w, &marks, nullptr));
  EXPECT_EQ(At(w, 0), At(begin, 0) - 1.5f);
  EXPECT_EQ(At(w, 1), At(begin, 1));
  EXPECT_EQ(marks.shard[0][0].version, 1u);
}

// Checkpoints and restarts at each place of the turn: the bits are those of no trouble.
class FragmentsReplayTest : public FragmentsTest {
 protected:
  void Restart(const std::string& folder) {
    shards_.reset();
    std::filesystem::remove_all(folder);
    std::filesystem::create_directories(folder);
    ASSERT_OK_AND_ASSIGN(
        shards_, TestShards::Start({.shards = 2, .transport = GetParam(), .state_dir = folder}));
    ASSERT_OK_AND_ASSIGN(job_, shards_->CreateJob(SmallJob()));
    ParameterClientOptions options = *shards_->OpenSession(job_, 0);
    options.fragments = fragments_;
    options.push_format = INT8;
    options.keep_bytes = uint64_t{64} << 20;
    options.deadline = absl::Seconds(20);
    client_ = *ParameterClient::Create(std::move(options));
    pushes_ = 0;
    generation_ = 0;
  }
  void PushAll(int pushes) {
    for (int i = 0; i < pushes; ++i) {
      Vector gradient(job_.map.size());
      ++pushes_;
      for (size_t j = 0; j < gradient.size(); ++j) {
        gradient[j] = 0.01f * static_cast<float>((j * 7 + pushes_ * 13) % 29) - 0.1f;
      }
      ASSERT_OK(client_->Push(gradient, {}));
    }
  }
  void Checkpoint() { ASSERT_OK(shards_->Checkpoint(job_.name, ++generation_)); }
  void Kill(uint32_t shard) {
    ASSERT_OK(shards_->Restart(shard));
    ASSERT_OK_AND_ASSIGN(const auto reply, shards_->Restore(SmallJob(), shard));
    client_->NameEpoch(shard, reply.shard_epoch());
    ASSERT_OK(client_->BringBack(absl::Seconds(20)));
    ASSERT_EQ(client_->away(), std::nullopt);
    EXPECT_EQ(client_->acknowledged(), pushes_);
  }
  Vector Parameters() {
    Vector w(job_.map.size());
    FetchMarks marks;
    EXPECT_OK(client_->Fetch(w, &marks, nullptr));
    for (const auto& shard : marks.shard) {
      for (const StripeMark& mark : shard) {
        EXPECT_GE(mark.applied_sequence, pushes_);
        EXPECT_LT(mark.applied_sequence, pushes_ + kCount);
      }
    }
    return w;
  }

  std::unique_ptr<ParameterClient> client_;
  uint64_t pushes_ = 0;
  uint64_t generation_ = 0;
};

TEST_P(FragmentsReplayTest, AShardThatComesBackGetsWhatItLacks) {
  const std::string folder = ::testing::TempDir() + "/fragments_" + NameOf(GetParam());
  for (int before = 0; before < 4; ++before) {
    for (int after = 0; after < 4; ++after) {
      SCOPED_TRACE(absl::StrCat(before, " pushes before and ", after, " after a checkpoint"));
      Restart(folder);
      PushAll(before);
      Checkpoint();
      PushAll(after);
      Kill(1);
      PushAll(2);
      Kill(0);
      PushAll(1);
      const Vector troubled = Parameters();
      EXPECT_EQ(client_->away(), std::nullopt);
      Restart(folder);
      PushAll(before + after + 3);
      ASSERT_EQ(Parameters(), troubled);
    }
  }
}

TEST_P(FragmentsReplayTest, WhatIsDurableIsForgotten) {
  Restart(::testing::TempDir() + "/durable_" + NameOf(GetParam()));
  PushAll(7);
  const uint64_t seven = client_->kept().bytes;
  EXPECT_GT(seven, 0u);
  EXPECT_THAT(client_->AwaitDurable(absl::ZeroDuration()),
              StatusIs(absl::StatusCode::kDeadlineExceeded, ::testing::HasSubstr("ps/0")));
  Checkpoint();
  ASSERT_OK(client_->AwaitDurable(absl::Seconds(20)));
  EXPECT_EQ(client_->kept().bytes, seven);  // one generation may be damaged
  Checkpoint();
  ASSERT_OK(client_->AwaitDurable(absl::Seconds(20)));
  EXPECT_EQ(client_->kept().bytes, 0u);
  // Verdicts tell the same, of each fragment by itself.
  constexpr uint64_t kOfThree = kStripes * (256 + 4);
  PushAll(3);
  EXPECT_EQ(client_->kept().bytes, kOfThree);
  Checkpoint();
  Checkpoint();
  PushAll(2);  // of fragment 0 nothing was heard since push 7, so that 10 is kept
  EXPECT_EQ(client_->kept().bytes, kOfThree);
  PushAll(4);
  EXPECT_EQ(client_->kept().bytes, 2 * kOfThree);  // 11 to 16
}

INSTANTIATE_TEST_SUITE_P(Transports, FragmentsReplayTest,
                         ::testing::Values(Transport::GRPC, Transport::SHARED_MEMORY),
                         [](const auto& info) { return NameOf(info.param); });

INSTANTIATE_TEST_SUITE_P(Transports, FragmentsTest,
                         ::testing::Values(Transport::GRPC, Transport::SHARED_MEMORY),
                         [](const auto& info) { return NameOf(info.param); });

}  // namespace
}  // namespace monsoon
