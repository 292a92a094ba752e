// Parts of jobs with tables: what is in them, and what they come back as.
#include <algorithm>
#include <atomic>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/checkpoint/checkpoint.h"
#include "common/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ps_server/checkpoint/rows_keeper_fixture.h"
#include "ps_server/checkpoint/write_part.h"

namespace monsoon {
namespace {

using ::monsoon::testing::StatusIs;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr uint64_t kStripeBytes = 4 * 60001 * sizeof(float);  // of the first table's whole ones

class RowsPartTest : public RowsKeeperTest {
 protected:
  void Count(const RowFrame& frame) {
    ASSERT_EQ(PushRows(frame), APPLIED);
    oracle_.Apply(frame);
  }
  static RowFrame Frame(uint64_t push, std::vector<RowPart> parts) {
    return {.push = push, .parts = std::move(parts), .worker = 0};
  }
  absl::StatusOr<std::unique_ptr<PartReader>> Read(uint64_t generation) {
    std::string manifest = PartFile(generation, epoch_);
    manifest.replace(manifest.rfind(".safetensors"), std::string::npos, ".manifest");
    return PartReader::Open(&storage_, manifest);
  }

  RowOracle oracle_{tables_, 0, 1};
};

TEST_F(RowsPartTest, OnlyWhatWasTouchedIsInThePart) {
  const auto job = MakeRowsJob();
  Write(job, 1);
  const uint64_t empty = PartFileBytes(1);
  EXPECT_LT(empty, 4096u);  // 256 floats, and what is beside them
  Count(Frame(1, {{0, {5}}}));
  Write(job, 2);
  EXPECT_GE(PartFileBytes(2), empty + kStripeBytes);
  EXPECT_LT(PartFileBytes(2), empty + kStripeBytes + 200);
  Count(Frame(2, {{0, {4, 9}}, {1, {0}}}));
  Write(job, 3);
  const uint64_t all = kStripeBytes + 2 * 60001 * 4 + 6 * 3 * 4;
  EXPECT_GE(PartFileBytes(3), empty + all);
  EXPECT_LT(PartFileBytes(3), empty + all + 400);
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<PartReader> part, Read(3));
  std::vector<std::string> stripes;
  for (const RowStripeRecord& stripe : part->content().row_stripe()) {
    stripes.push_back(absl::StrCat(stripe.table(), "/", stripe.stripe(), " v", stripe.version()));
  }
  EXPECT_THAT(stripes, ElementsAre("0/1 v2", "0/2 v1", "1/0 v1"));
  EXPECT_EQ(part->content().rows_applied(), 4u);
}

TEST_F(RowsPartTest, AllComesBackToTheBit) {
  auto job = MakeRowsJob();
  ASSERT_OK(shard_->OpenSession(SessionOf(2)));
  for (uint64_t push = 1; push <= 5; ++push) {
    Count(Frame(push, {{0, {static_cast<uint32_t>(push), 9}}, {1, {2, 3}, 0.25f}}));
    Push();
  }
  Count({.push = 1, .frame = 0, .last = false, .parts = {{0, {9}}}, .worker = 2});
  Write(job, 1);
  EXPECT_EQ(Marks().written(), 5u);
  job.reset();
  Restart();
  ASSERT_OK_AND_ASSIGN(const RestoreShardJobReply reply, Restore({0, 2}));
  EXPECT_EQ(reply.generation(), 1u);
  EXPECT_THAT(reply.skipped(), IsEmpty());
  ExpectRows(&oracle_);
  EXPECT_EQ(StatusOf("a-1").touched_table_stripes(), 4u);
  EXPECT_EQ(StatusOf("a-1").rows_applied(), 21u);
  EXPECT_EQ(Marks(0).applied(), 5u);
  EXPECT_EQ(Marks(0).written(), 5u);
  EXPECT_EQ(Marks(0).durable(), 0u);
  EXPECT_EQ(Marks(2).applied(), 0u);
  // What was half in counts once.
  EXPECT_EQ(PushRows({.push = 1, .frame = 0, .last = false, .parts = {{0, {9}}}, .worker = 2}),
            APPLIED);
  Count({.push = 1, .frame = 1, .parts = {{0, {0}}}, .worker = 2});
  ExpectRows(&oracle_);
}

TEST_F(RowsPartTest, ADamagedPartLeavesNothing) {
  // A byte of the first table, and one of the second: then the first was read.
  for (const uint64_t at : {kStripes * kStripe * 4 + 5,
                            kStripes * kStripe * 4 + 2 * kStripeBytes + 2 * 60001 * 4 + 5}) {
    oracle_ = RowOracle(tables_, 0, 1);
    auto job = MakeRowsJob();
    Count(Frame(1, {{0, {9}}}));
    Write(job, 1);
    for (const RowFrame& later :
         {Frame(2, {{0, {0, 4, 9}}, {1, {1}}}), Frame(3, {{0, {0}}, {1, {1}}})}) {
      ASSERT_EQ(PushRows(later), APPLIED);
    }
    Write(job, 2);
    EXPECT_EQ(StatusOf("a-1").touched_table_stripes(), 4u);
    uint64_t head = 0;
    const std::string path = PartFile(2, epoch_);
    ASSERT_OK((*storage_.Open(path))->ReadAt(0, std::as_writable_bytes(std::span(&head, 1))));
    storage_.CorruptByte(path, sizeof(head) + head + at, 3);
    job.reset();
    Restart();
    ASSERT_OK_AND_ASSIGN(const RestoreShardJobReply reply, Restore({0}));
    EXPECT_EQ(reply.generation(), 1u);
    const char* const table = at < kStripeBytes ? "\"table:words\"" : "\"table:users\"";
    EXPECT_THAT(reply.skipped(), ElementsAre(AllOf(HasSubstr(path), HasSubstr(table))));
    EXPECT_EQ(StatusOf("a-1").touched_table_stripes(), 1u);
    EXPECT_EQ(StatusOf("a-1").rows_applied(), 1u);
    EXPECT_EQ(Marks().applied(), 1u);
    ExpectRows(&oracle_);
    Count(Frame(2, {{0, {0, 4, 9}}, {1, {1}}}));
    ExpectRows(&oracle_);
    ASSERT_OK(shard_->DeleteJob("a-1", 3));
    ASSERT_OK(keeper_->Delete("a-1", 3));
  }
}

TEST_F(RowsPartTest, WithoutAnyGoodPartTablesBeginAnew) {
  auto job = MakeRowsJob();
  ASSERT_EQ(PushRows(Frame(1, {{0, {1, 9}}, {1, {0}}})), APPLIED);
  Write(job, 1);
  storage_.Truncate(PartFile(1, epoch_), 20000);
  job.reset();
  Restart();
  ASSERT_OK_AND_ASSIGN(const RestoreShardJobReply reply, Restore({0}));
  EXPECT_EQ(reply.generation(), 0u);
  EXPECT_EQ(StatusOf("a-1").touched_table_stripes(), 0u);
  ExpectRows(&oracle_);
  Count(Frame(1, {{0, {1, 9}}, {1, {0}}}));
  ExpectRows(&oracle_);
}

TEST_F(RowsPartTest, EachOfThreeShardsHasItsRun) {
  shards_ = 3;
  tables_[0].rows = 30;  // 20 to 29 are of the last shard, in three stripes
  std::vector<std::unique_ptr<RowOracle>> oracles;
  const auto frames = [&](uint32_t shard) {
    const uint32_t last = oracles[shard]->rows(0) - 1;
    return std::vector<RowFrame>{Frame(1, {{0, {0, last}}, {1, {shard % 2}}}),
                                 Frame(2, {{0, {1, last}, static_cast<float>(shard + 1)}})};
  };
  std::vector<float> dense;
  for (task_ = 0; task_ < shards_; ++task_) {
    Restart();
    oracles.push_back(std::make_unique<RowOracle>(tables_, task_, shards_));
    const auto job = MakeRowsJob();
    Push();
    AlignedFloats floats(kStripes * kStripe);
    ASSERT_OK(job->fetches()->CopyStripes(std::nullopt, 0, kStripes, nullptr, FLOAT32, &floats));
    dense.insert(dense.end(), floats.span().begin(), floats.span().end());
    for (const RowFrame& frame : frames(task_)) {
      ASSERT_EQ(PushRows(frame), APPLIED);
      oracles.back()->Apply(frame);
    }
    Write(job, 1);
  }
  EXPECT_EQ(oracles[0]->rows(0) + oracles[1]->rows(0) + oracles[2]->rows(0), 30u);
  // What reads whole models passes over rows.
  ASSERT_OK_AND_ASSIGN(const LoadedCheckpoint loaded, Load("a-1"));
  EXPECT_EQ(loaded.parameters, dense);
  EXPECT_EQ(loaded.content.row_stripe_size(), 0);
  for (task_ = 0; task_ < shards_; ++task_) {
    Restart();
    ASSERT_OK_AND_ASSIGN(const RestoreShardJobReply reply, Restore({0}));
    EXPECT_EQ(reply.generation(), 1u);
    ExpectRows(oracles[task_].get());
    EXPECT_EQ(Marks().applied(), 2u);
    EXPECT_EQ(PushRows(frames(task_)[1]), DUPLICATE);
  }
}

TEST_F(RowsPartTest, RowsAreDurableOnceTheOlderPartHoldsThem) {
  const auto job = MakeRowsJob();
  for (uint64_t generation = 1; generation <= 3; ++generation) {
    Count(Frame(generation, {{1, {0}}}));
    Write(job, generation);
    EXPECT_EQ(Marks().written(), generation);
    EXPECT_EQ(Marks().durable(), generation - 1);
  }
}

// A part whose last step failed is taken over when it is ordered again, with its sessions.
TEST_F(RowsPartTest, WhateverStepFailsMarksSayWhatIsWritten) {
  const auto job = MakeRowsJob();
  Count(Frame(1, {{1, {0}}}));
  Write(job, 1);
  const uint64_t before = storage_.operations();
  Write(job, 2);
  const uint64_t steps = storage_.operations() - before;
  ASSERT_GT(steps, 8u);
  uint64_t generation = 2, push = 1;
  for (uint64_t step = 1; step <= steps; ++step) {
    SCOPED_TRACE(step);
    Count(Frame(++push, {{1, {0}}}));
    storage_.FailAfter(step, absl::ResourceExhaustedError("No space left on device"));
    Write(job, ++generation);
    storage_.ClearFailure();
    if (StatusOf("a-1").generation() != generation) {
      EXPECT_EQ(Marks().written(), push - 1);
    }
    Write(job, generation);
    EXPECT_EQ(StatusOf("a-1").generation(), generation);
    EXPECT_EQ(Marks().written(), push);
    ASSERT_OK_AND_ASSIGN(const std::unique_ptr<PartReader> part, Read(generation));
    ASSERT_EQ(part->content().row_session_size(), 1);
    EXPECT_EQ(part->content().row_session(0).last(), push);
  }
}

TEST_F(RowsPartTest, ThereMustBeRoomForRows) {
  const auto job = MakeRowsJob();
  const uint64_t without = PartBytes(*job, 0);
  Count(Frame(1, {{0, {0, 9}}, {1, {0}}}));
  EXPECT_EQ(PartBytes(*job, 0), without + kStripeBytes + 2 * 60001 * 4 + 6 * 3 * 4);
}

// Frames while the part is written, before each of its stripes: whatever is in it, what is sent
// again after that counts once.
TEST_F(RowsPartTest, PushesWhileItIsWrittenCountOnce) {
  std::vector<TableInfo> tables;
  for (uint32_t i = 0; i < 5; ++i) tables.push_back(MakeTable(absl::StrCat("t", i), 3, 2));
  tables_ = tables;
  for (uint32_t seed = 0; seed < 80; ++seed) {
    std::mt19937 random(seed);
    RowOracle oracle(tables_, 0, 1);
    std::vector<RowFrame> script;
    for (uint64_t push = 1; push <= 12; ++push) {
      const auto table = static_cast<uint32_t>(random() % 5);
      script.push_back({.push = push, .frame = 0, .last = false, .parts = {{table, {0, 1}}}});
      script.push_back({.push = push, .frame = 1, .parts = {{(table + 1) % 5, {1, 2}}}});
    }
    for (RowFrame& frame : script) {
      frame.worker = 0;
      oracle.Apply(frame);
    }
    size_t sent = 0;
    const auto send = [&] {
      for (size_t some = random() % 4; some > 0 && sent < script.size(); --some) {
        EXPECT_EQ(PushRows(script[sent++]), APPLIED);
      }
      return true;
    };
    auto job = MakeRowsJob();
    send();
    ASSERT_OK(WritePart(
        &storage_, kStateDir, *job, OrderOf("a-1", 1), [] { return absl::OkStatus(); }, send));
    job.reset();
    Restart();
    ASSERT_OK(Restore({0}));
    const uint64_t held = Marks().applied();
    EXPECT_LE(held, sent / 2);
    for (const RowFrame& frame : script) {
      ASSERT_EQ(PushRows(frame), frame.push <= held ? DUPLICATE : APPLIED);
    }
    ASSERT_NO_FATAL_FAILURE(ExpectRows(&oracle)) << seed;
    ASSERT_OK(shard_->DeleteJob("a-1", 3));
    ASSERT_OK(keeper_->Delete("a-1", 3));
  }
}

// A stripe that is first touched while the part looks which are: the pushes that count hold none
// that it has not got.
TEST_F(RowsPartTest, WhatCountsAsInThePartIsThere) {
  constexpr uint32_t kTables = 60;
  constexpr uint32_t kPushes = 4;  // the first of them to the next table
  tables_.clear();
  for (uint32_t i = 0; i < kTables; ++i) tables_.push_back(MakeTable(absl::StrCat("t", i), 1, 1));
  uint32_t in_the_midst = 0;
  for (int round = 0; round < 150; ++round) {
    const auto job = MakeRowsJob();
    std::atomic<bool> begin{false};
    std::atomic<uint32_t> pushed{0};
    std::thread pusher([&] {
      while (!begin) std::this_thread::yield();
      for (uint32_t i = 0; i < kTables * kPushes; ++i) {
        const bool of_rows = i % kPushes == 0;
        ASSERT_EQ(PushRows(Frame(i + 1, of_rows ? std::vector<RowPart>{{i / kPushes, {0}}}
                                                : std::vector<RowPart>())),
                  APPLIED);
        ++pushed;
      }
    });
    uint32_t stripes = 0;
    // Rows are cut right after the last of the other stripes was asked for.
    const auto go_on = [&] {
      if (++stripes == kStripes) {
        begin = true;
        while (pushed < 5) std::this_thread::yield();
      }
      return true;
    };
    const absl::StatusOr<WrittenPart> written = WritePart(
        &storage_, kStateDir, *job, OrderOf("a-1", 1), [] { return absl::OkStatus(); }, go_on);
    pusher.join();
    ASSERT_OK(written);
    ASSERT_OK_AND_ASSIGN(const std::unique_ptr<PartReader> part, Read(1));
    ASSERT_EQ(part->content().row_session_size(), 1);
    const uint64_t last = part->content().row_session(0).last();
    in_the_midst += last < kTables * kPushes ? 1 : 0;
    const auto touched = static_cast<int>((last + kPushes - 1) / kPushes);
    ASSERT_GE(part->content().row_stripe_size(), touched);
    for (int i = 0; i < touched; ++i) {
      ASSERT_EQ(part->content().row_stripe(i).table(), static_cast<uint32_t>(i));
    }
    ASSERT_OK(shard_->DeleteJob("a-1", 3));
    ASSERT_OK(keeper_->Delete("a-1", 3));
  }
  RecordProperty("in_the_midst", static_cast<int>(in_the_midst));
}

}  // namespace
}  // namespace monsoon
