// Frames of rows as they come, without a client: what counts, what is refused, and what a cut
// between any two of them comes to.

#include "ps_server/shard/table_slice.h"

#include <atomic>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "common/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ps_server/shard/table_slice_fixture.h"

namespace monsoon {
namespace {

using ::monsoon::testing::StatusIs;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;

// Of three shards the last: rows 20 to 29 of the first, in stripes of 4, 4 and 2 rows, and 4 to
// 5 of the second, in one.
std::vector<TableInfo> Tables() {
  return {MakeTable("words", 30, 60000), MakeTable("users", 6, 2)};
}

class TableSliceTest : public ::testing::Test {
 protected:
  TableSliceTest() { slice_->Open({1, 1}, nullptr); }

  SentRows Sent(const RowFrame& frame) const { return Encode(frame, Tables()); }
  // A good frame of both tables, which comes next.
  static RowFrame Good(uint64_t push = 1) {
    return {.push = push, .parts = {{0, {3, 8}, 0.5f}, {1, {0, 1}, 2.0f}}};
  }
  // Pushes frames that count, to the oracle too.
  void Count(const RowFrame& frame) {
    ASSERT_EQ(slice_.Push(frame), APPLIED);
    oracle_.Apply(frame);
  }

  RowSlice slice_{Tables(), 2, 3};
  RowOracle oracle_{Tables(), 2, 3};
};

TEST_F(TableSliceTest, RowsMoveByHand) {
  // Gradients of row 1 are 2 (1 + 1 + j % 3) = 4, 6: s = 2 + (16 + 36) / 2 = 28, and the row
  // moves by 0.5 g / (sqrt(28) + 0.25).
  const std::vector<float> before = slice_.Row(1, 1);
  ASSERT_EQ(slice_.Push(Good()), APPLIED);
  const std::vector<float> after = slice_.Row(1, 1);
  ASSERT_EQ(after.size(), 2u);
  EXPECT_NEAR(after[0], before[0] - 0.5 * 4 / (std::sqrt(28.0) + 0.25), 1e-6);
  EXPECT_NEAR(after[1], before[1] - 0.5 * 6 / (std::sqrt(28.0) + 0.25), 1e-6);
}

TEST_F(TableSliceTest, EachFrameCountsOnceInItsOrder) {
  const RowFrame first{.push = 1, .frame = 0, .last = false, .parts = {{0, {0, 3}}}};
  const RowFrame second{.push = 1, .frame = 1, .last = false, .parts = {{0, {4, 9}}}};
  const RowFrame third{.push = 1, .frame = 2, .last = true, .parts = {{1, {1}}}};
  const RowFrame next{.push = 2, .parts = {{0, {3, 4, 9}}}};
  EXPECT_EQ(slice_.Push(second), REFUSED_GAP);
  EXPECT_EQ(slice_.Push(next), REFUSED_GAP);
  Count(first);
  EXPECT_EQ(slice_.Push(first), DUPLICATE);
  EXPECT_EQ(slice_.Push(third), REFUSED_GAP);
  EXPECT_EQ(slice_.Push(next), REFUSED_GAP);  // the one before is not whole
  Count(second);
  EXPECT_EQ(slice_->Marks({1, 1}).applied(), 0u);
  Count(third);
  EXPECT_EQ(slice_->Marks({1, 1}).applied(), 1u);
  for (const RowFrame& again : {first, second, third}) EXPECT_EQ(slice_.Push(again), DUPLICATE);
  Count(next);
  Count({.push = 3});  // without rows
  EXPECT_EQ(slice_.Push({.push = 5}), REFUSED_GAP);
  EXPECT_EQ(slice_.Push({.push = 4, .frame = 1}), REFUSED_GAP);
  EXPECT_EQ(slice_->Marks({1, 1}).applied(), 3u);
  EXPECT_EQ(slice_->rows_applied(), 8u);
  slice_.ExpectEquals(&oracle_);
}

TEST_F(TableSliceTest, WhatARefusalSays) {
  const auto refused = [&](const SentRows& sent, bool draining = false) {
    const absl::StatusOr<RowPushReply> reply = slice_.Push(sent, draining);
    EXPECT_OK(reply);
    return reply.ok() ? std::pair(reply->verdict(), reply->message())
                      : std::pair(VERDICT_UNSPECIFIED, std::string());
  };
  const std::string before = slice_.Snapshot();
  SentRows sent = Sent(Good());
  EXPECT_THAT(refused(sent, true), Pair(REFUSED_BUSY, HasSubstr("draining")));
  sent.request.set_shard_epoch(76);
  EXPECT_THAT(refused(sent), Pair(REFUSED_EPOCH, HasSubstr("epoch is 77")));
  sent.request.set_layout_hash(1);
  EXPECT_THAT(refused(sent), Pair(REFUSED_REQUEST, HasSubstr("another layout")));
  sent = Sent(Good());
  sent.request.mutable_session()->set_incarnation(2);
  EXPECT_THAT(refused(sent), Pair(REFUSED_SESSION, HasSubstr("1#2")));
  sent = Sent({.push = 3, .frame = 4});
  EXPECT_THAT(refused(sent),
              Pair(REFUSED_GAP, "rows of push 3, frame 4, where push 1, frame 0, is next"));
  EXPECT_EQ(slice_.Snapshot(), before);
  Count(Good());
}

TEST_F(TableSliceTest, AMalformedFrameChangesNothing) {
  Count(Good());
  const RowFrame next{.push = 2, .frame = 0, .last = false, .parts = {{0, {2, 5}}}};
  Count(next);
  const RowFrame good{.push = 2, .frame = 1, .parts = {{1, {0, 1}}, {0, {8, 9}}}};
  const std::string before = slice_.Snapshot();
  // Of the good frame: numbers at 0 and 4, then 4 values, then numbers at 24 and 28.
  const auto set = [](SentRows* sent, size_t at, auto value) {
    std::memcpy(&sent->payload[at], &value, sizeof(value));
  };
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float infinite = std::numeric_limits<float>::infinity();
  const std::vector<std::pair<const char*, std::function<void(SentRows*)>>> cases = {
      {"table \"users\": row 1 of 2 comes after row 1; they must rise",
       [&](SentRows* s) { set(s, 0, uint32_t{1}); }},
      {"table \"users\": row 2 of 2", [&](SentRows* s) { set(s, 4, uint32_t{2}); }},
      {"table \"words\": row 10 of 10", [&](SentRows* s) { set(s, 28, uint32_t{10}); }},
      {"table \"words\": row 4294967295", [&](SentRows* s) { set(s, 24, UINT32_MAX); }},
      {"table \"words\": row 8 of 10 comes after row 9",
       [&](SentRows* s) {
         set(s, 24, uint32_t{9});
         set(s, 28, uint32_t{8});
       }},
      {"the gradient of row 1, column 1, is not finite", [&](SentRows* s) { set(s, 20, nan); }},
      {"the gradient of row 9, column 59999, is not finite",
       [&](SentRows* s) { set(s, s->payload.size() - 4, -infinite); }},
      {"table 2 of 2", [](SentRows* s) { s->request.mutable_table(1)->set_table(2); }},
      {"table 4294967295", [](SentRows* s) { s->request.mutable_table(0)->set_table(UINT32_MAX); }},
      {"bytes, where", [](SentRows* s) { s->payload.pop_back(); }},
      {"bytes, where", [](SentRows* s) { s->payload += '\0'; }},
      {"bytes, where", [](SentRows* s) { s->request.mutable_table(0)->set_rows(1); }},
      {"bytes, where", [](SentRows* s) { s->request.mutable_table(0)->set_rows(UINT32_MAX); }},
      {"bytes, where", [](SentRows* s) { s->request.mutable_table()->RemoveLast(); }},
      {"bytes, where", [](SentRows* s) { s->payload.clear(); }},
      {"table \"users\" is there twice",
       [this](SentRows* s) {
         *s = Sent({.push = 2, .frame = 1, .parts = {{1, {0}}, {0, {8}}, {1, {1}}}});
       }},
  };
  for (const auto& [message, spoil] : cases) {
    SentRows sent = Sent(good);
    spoil(&sent);
    EXPECT_THAT(slice_.Push(sent).status(),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         AllOf(HasSubstr("job-1"), HasSubstr(message))));
    EXPECT_EQ(slice_.Snapshot() == before, true) << message;
  }
  Count(good);
  slice_.ExpectEquals(&oracle_);
}

TEST_F(TableSliceTest, AFrameMayComeInPieces) {
  const RowFrame frame = Good();
  for (const size_t bytes : {1u, 3u, 4u, 1000u, 240000u}) {
    RowSlice slice(Tables(), 2, 3);
    slice->Open({1, 1}, nullptr);
    RowOracle oracle(Tables(), 2, 3);
    oracle.Apply(frame);
    ASSERT_OK_AND_ASSIGN(const RowPushReply reply, slice.Push(Sent(frame), false, bytes));
    EXPECT_EQ(reply.verdict(), APPLIED);
    slice.ExpectEquals(&oracle);
  }
}

TEST_F(TableSliceTest, TwoSessionsCountForThemselves) {
  slice_->Open({2, 1}, nullptr);
  for (uint64_t push = 1; push <= 3; ++push) {
    RowFrame frame = Good(push);
    Count(frame);
    frame.worker = 2;
    Count(frame);
    EXPECT_EQ(slice_.Push(frame), DUPLICATE);
  }
  RowFrame frame = Good(4);
  Count(frame);
  EXPECT_EQ(slice_->Marks({1, 1}).applied(), 4u);
  EXPECT_EQ(slice_->Marks({2, 1}).applied(), 3u);
  slice_->Close({1, 1}, /*keep=*/false);
  frame.worker = 2;
  Count(frame);
  slice_.ExpectEquals(&oracle_);
}

TEST_F(TableSliceTest, FetchesRowsInAnyOrder) {
  Count(Good());
  ASSERT_OK_AND_ASSIGN(const TableSlice::Rows rows,
                       slice_.Fetch({{1, {1, 0, 1}}, {0, {9, 3, 8}}}, /*worker=*/1));
  EXPECT_EQ(rows.applied_push, 1u);
  std::vector<float> expected;
  for (const auto& [table, row] :
       std::vector<std::pair<uint32_t, uint32_t>>{{1, 1}, {1, 0}, {1, 1}, {0, 9}, {0, 3}, {0, 8}}) {
    const std::vector<float>& values = oracle_.Values(table, row);
    expected.insert(expected.end(), values.begin(), values.end());
  }
  EXPECT_EQ(std::vector<float>(rows.values->span().begin(), rows.values->span().end()), expected);

  const auto refused = [&](const std::vector<RowPart>& parts) {
    return std::string(slice_.Fetch(parts).status().message());
  };
  EXPECT_THAT(refused({{0, {10}}}), HasSubstr("table \"words\": row 10 of 10"));
  EXPECT_THAT(refused({{2, {0}}}), HasSubstr("table 2 of 2"));
  EXPECT_THAT(refused({{0, {0, 1, 2, 3, 4}}}), HasSubstr("values at most"));  // 1.2 MB
  EXPECT_THAT(slice_.Fetch({{1, {0}}}, /*worker=*/2),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("2#1")));
  RowFetchRequest request;
  request.set_layout_hash(kRowLayout);
  request.set_read_only(true);
  EXPECT_THAT(slice_.FetchNumbers(request, {1}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("bytes, where")));
  request.set_layout_hash(1);
  EXPECT_THAT(slice_.FetchNumbers(request, {}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("another layout")));
}

TEST_F(TableSliceTest, AWriteReplacesRowsAndSums) {
  RowWriteRequest request;
  request.set_table(1);
  request.set_rows(2);
  const auto write = [&](const std::vector<float>& floats) {
    const std::vector<ByteChunk> chunks = {std::as_bytes(std::span(floats))};
    ChunkCursor cursor(chunks);
    return slice_->Write(request, &cursor, slice_.scratch());
  };
  const auto wrong = [](const char* what) {
    return StatusIs(absl::StatusCode::kInvalidArgument, AllOf(HasSubstr("job-1"), HasSubstr(what)));
  };
  EXPECT_THAT(write({1, 2, 3, 4, 7}), wrong("rows 0 to 2 of 2 with 20 bytes"));
  EXPECT_THAT(write({1, 2, 3, 4, 7, -1}), wrong("sums below 0"));
  EXPECT_THAT(write({1, 2, NAN, 4, 7, 1}), wrong("not finite"));
  request.set_first_row(1);
  EXPECT_THAT(write({1, 2, 3, 4, 7, 9}), wrong("rows 1 to 3 of 2"));
  request.set_first_row(UINT32_MAX);
  EXPECT_THAT(write({1, 2, 3, 4, 7, 9}), wrong("of 2"));
  request.set_first_row(0);
  request.set_table(2);
  EXPECT_THAT(write({1, 2, 3, 4, 7, 9}), wrong("table 2 of 2"));
  EXPECT_EQ(slice_->TouchedFloats(), 0u);
  request.set_table(1);
  ASSERT_OK(write({1, 2, 3, 4, 7, 9}));
  EXPECT_THAT(slice_.Row(1, 0), ElementsAre(1, 2));
  EXPECT_THAT(slice_.Row(1, 1), ElementsAre(3, 4));
  const RowCut cut = slice_.Cut();
  ASSERT_EQ(cut.floats.size(), 1u);
  EXPECT_THAT(cut.floats[0], ElementsAre(1, 2, 3, 4, 7, 9));
}

TEST_F(TableSliceTest, ACutHoldsWhatWasTouchedAlone) {
  Count({.push = 1, .parts = {{0, {5}}}});
  const RowCut cut = slice_.Cut();
  ASSERT_EQ(cut.content.row_stripe_size(), 1);
  EXPECT_EQ(cut.content.row_stripe(0).table(), 0u);
  EXPECT_EQ(cut.content.row_stripe(0).stripe(), 1u);
  EXPECT_EQ(cut.content.row_stripe(0).version(), 1u);
  ASSERT_EQ(cut.content.row_stripe(0).session_size(), 1);
  EXPECT_EQ(cut.content.row_stripe(0).session(0).last(), 1u);
  EXPECT_EQ(cut.floats[0].size(), 4u * 60001);
  EXPECT_EQ(cut.content.rows_applied(), 1u);
  EXPECT_EQ(slice_->TouchedFloats(), 4u * 60001);
  ShardJobStatus status;
  slice_->AddTo(&status);
  EXPECT_EQ(status.table_rows(), 12u);
  EXPECT_EQ(status.table_stripes(), 4u);
  EXPECT_EQ(status.touched_table_stripes(), 1u);
  EXPECT_EQ(status.rows_applied(), 1u);
  slice_->Clear();
  EXPECT_THAT(slice_.Cut().floats, IsEmpty());
}

// 16 frames of three pushes each; in their midst a cut, with frames between any two of its
// steps; a new slice from that, and what it has not as a whole once more.
TEST(TableSliceCutTest, WhereverItIsEachRowCountsOnce) {
  std::vector<TableInfo> tables;  // of one stripe each
  for (uint32_t i = 0; i < 6; ++i) tables.push_back(MakeTable("t" + std::to_string(i), 5, 3));
  for (uint32_t seed = 0; seed < 600; ++seed) {
    std::mt19937 random(seed);
    std::vector<RowFrame> script;
    for (uint64_t push = 1; push <= 4; ++push) {
      // Each stripe in one frame of the push at most.
      std::vector<uint32_t> order{0, 1, 2, 3, 4, 5};
      std::ranges::shuffle(order, random);
      size_t next = 0;
      for (const uint32_t worker : {1u, 2u}) {
        const uint32_t frames = 1 + random() % 3;
        next = 0;
        for (uint32_t frame = 0; frame < frames; ++frame) {
          RowFrame sent{.push = push, .frame = frame, .last = frame + 1 == frames};
          sent.worker = worker;
          for (uint32_t part = random() % 3; part > 0 && next < order.size(); --part) {
            const auto row = static_cast<uint32_t>(random() % 4);
            sent.parts.push_back({order[next++], {row, row + 1}, static_cast<float>(push)});
          }
          script.push_back(sent);
        }
      }
    }
    RowSlice slice(tables, 0, 1);
    RowOracle oracle(tables, 0, 1);
    for (const uint32_t worker : {1u, 2u}) slice->Open({worker, 1}, nullptr);
    for (const RowFrame& frame : script) oracle.Apply(frame);
    size_t sent = 0;
    const auto send = [&](size_t most) {
      for (size_t some = random() % (most + 1); some > 0 && sent < script.size(); --some) {
        ASSERT_EQ(slice.Push(script[sent++]), APPLIED);
      }
    };
    send(script.size());
    const RowCut cut = slice.Cut([&] { send(2); });

    RowSlice restored(tables, 0, 1);
    restored.Restore(cut, {1, 2});
    for (const RowFrame& frame : script) {
      const uint64_t held = restored->Marks({frame.worker, 1}).applied();
      ASSERT_LE(held, 4u);
      ASSERT_EQ(restored.Push(frame), frame.push <= held ? DUPLICATE : APPLIED) << seed;
    }
    ASSERT_NO_FATAL_FAILURE(restored.ExpectEquals(&oracle)) << seed;
  }
}

TEST_F(TableSliceTest, ACutBetweenTwoFramesOfAPush) {
  const RowFrame first{.push = 1, .parts = {{0, {0, 4, 9}}, {1, {1}}}};
  const RowFrame half{.push = 2, .frame = 0, .last = false, .parts = {{0, {1, 3}}}};
  const RowFrame other{.push = 2, .frame = 1, .parts = {{0, {5, 9}}}};
  Count(first);
  Count(half);
  const RowCut cut = slice_.Cut();
  ASSERT_EQ(cut.content.row_session_size(), 1);
  EXPECT_EQ(cut.content.row_session(0).last(), 1u);
  ASSERT_EQ(cut.content.row_stripe_size(), 4);
  EXPECT_EQ(cut.content.row_stripe(0).session(0).last(), 2u);
  EXPECT_EQ(cut.content.row_stripe(1).session(0).last(), 1u);
  Count(other);

  RowSlice next(Tables(), 2, 3);
  next.Restore(cut, {1});
  EXPECT_EQ(next->Marks({1, 1}).applied(), 1u);
  EXPECT_EQ(next.Push(other), REFUSED_GAP);  // its frames begin anew
  EXPECT_EQ(next.Push(first), DUPLICATE);
  EXPECT_EQ(next.Push(half), APPLIED);
  EXPECT_EQ(next.Push(other), APPLIED);
  next.ExpectEquals(&oracle_);
  EXPECT_EQ(next->rows_applied(), 4u + 2 + 2);
}

TEST_F(TableSliceTest, ARestoreForgetsSessionsThatAreNotOpen) {
  slice_->Open({2, 1}, nullptr);
  Count(Good());
  RowFrame frame = Good();
  frame.worker = 2;
  Count(frame);
  const RowCut cut = slice_.Cut();
  EXPECT_EQ(cut.content.row_session_size(), 2);
  RowSlice next(Tables(), 2, 3);
  next.Restore(cut, {2});
  EXPECT_EQ(next.Push(Good(2)), REFUSED_SESSION);
  const RowCut again = next.Cut();
  ASSERT_EQ(again.content.row_session_size(), 1);
  EXPECT_EQ(again.content.row_session(0).worker(), 2u);
  for (const RowStripeRecord& stripe : again.content.row_stripe()) {
    ASSERT_EQ(stripe.session_size(), 1);
    EXPECT_EQ(stripe.session(0).worker(), 2u);
    EXPECT_EQ(stripe.version(), 2u);
  }
  next.ExpectEquals(&oracle_);
}

TEST_F(TableSliceTest, AClosedSessionIsOver) {
  Count(Good(1));
  Count(Good(2));
  Count({.push = 3, .frame = 0, .last = false, .parts = {{0, {0}}}});
  EXPECT_EQ(slice_->Close({1, 1}, /*keep=*/true), 2u);  // the third is not whole
  EXPECT_EQ(slice_.Push(Good(3)), REFUSED_SESSION);
  EXPECT_EQ(slice_.Push(Good(2)), REFUSED_SESSION);
  EXPECT_THAT(slice_.Fetch({{1, {0}}}, /*worker=*/1),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("1#1")));
  RowCut cut = slice_.Cut();
  for (const RowStripeRecord& stripe : cut.content.row_stripe()) {
    EXPECT_EQ(stripe.session_size(), 0);
  }
  ASSERT_EQ(cut.content.row_session_size(), 1);
  EXPECT_EQ(cut.content.row_session(0).last(), 2u);
  slice_->Forget({1, 1});
  EXPECT_EQ(slice_.Cut().content.row_session_size(), 0);
  EXPECT_EQ(slice_->Close({1, 1}, true), 0u);
  // One that was closed in an earlier life, and one of which nothing is to be kept.
  slice_->KeepClosed({4, 1}, 9);
  slice_->Open({5, 1}, nullptr);
  EXPECT_EQ(slice_->Close({5, 1}, /*keep=*/false), 0u);
  cut = slice_.Cut();
  ASSERT_EQ(cut.content.row_session_size(), 1);
  EXPECT_EQ(cut.content.row_session(0).worker(), 4u);
  EXPECT_EQ(cut.content.row_session(0).last(), 9u);
  RowFrame frame = Good(10);
  frame.worker = 4;
  EXPECT_EQ(slice_.Push(frame), REFUSED_SESSION);
  slice_.ExpectEquals(&oracle_);
}

TEST_F(TableSliceTest, AMarkOnlyGrows) {
  std::atomic<uint64_t> mark{2};  // an earlier life has had two
  slice_->Open({2, 1}, &mark);
  EXPECT_TRUE(slice_->IsBehind({2, 1}));
  EXPECT_FALSE(slice_->IsBehind({1, 1}));  // nothing is known of that
  EXPECT_FALSE(slice_->IsBehind({3, 1}));
  RowFrame frame = Good(1);
  frame.worker = 2;
  for (frame.push = 1; frame.push <= 3; ++frame.push) {
    EXPECT_EQ(slice_->IsBehind({2, 1}), frame.push <= 2);
    frame.last = false;
    Count(frame);
    EXPECT_EQ(mark, std::max<uint64_t>(2, frame.push - 1));  // it is not whole
    Count({.push = frame.push, .frame = 1, .worker = 2});
    EXPECT_EQ(mark, std::max<uint64_t>(2, frame.push));
  }
  EXPECT_FALSE(slice_->IsBehind({2, 1}));
  mark = 9;
  slice_->Close({2, 1}, /*keep=*/true);
  EXPECT_FALSE(slice_->IsBehind({2, 1}));  // nobody sends it again
  EXPECT_EQ(mark, 9u);
}

TEST_F(TableSliceTest, APushIsDurableOnceTheOlderGenerationHoldsIt) {
  const auto marks = [&] {
    const StripeMarks marks = slice_->Marks({1, 1});
    return std::vector<uint64_t>{marks.applied(), marks.written(), marks.durable()};
  };
  Count(Good(1));
  Count(Good(2));
  EXPECT_THAT(marks(), ElementsAre(2, 0, 0));
  const RowCut first = slice_.Cut();
  Count(Good(3));
  slice_->NoteWritten(first.content);
  EXPECT_THAT(marks(), ElementsAre(3, 2, 0));
  const RowCut second = slice_.Cut();
  Count(Good(4));
  slice_->NoteWritten(second.content);
  EXPECT_THAT(marks(), ElementsAre(4, 3, 2));
  const absl::StatusOr<RowPushReply> reply = slice_.Push(Sent(Good(4)));
  ASSERT_OK(reply);
  EXPECT_EQ(reply->verdict(), DUPLICATE);
  EXPECT_EQ(reply->durable_push(), 2u);

  RowSlice next(Tables(), 2, 3);
  next.Restore(second, {1}, &first.content);
  EXPECT_EQ(next->Marks({1, 1}).applied(), 3u);
  EXPECT_EQ(next->Marks({1, 1}).written(), 3u);
  EXPECT_EQ(next->Marks({1, 1}).durable(), 2u);
  RowSlice alone(Tables(), 2, 3);
  alone.Restore(second, {1});
  EXPECT_EQ(alone->Marks({1, 1}).durable(), 0u);
}

TEST(TableSliceMemoryTest, IsRowsSumsAndStripes) {
  // 10 rows of 60,001 floats in 3 stripes, 2 rows of 3 floats in one.
  ASSERT_OK_AND_ASSIGN(const uint64_t bytes, TableBytes(Tables(), 2, 3));
  EXPECT_EQ(bytes, 4u * (10 * 60001 + 2 * 3) + 4 * 192);
  const std::vector<TableInfo> large{MakeTable("large", uint64_t{1} << 34, 1)};
  EXPECT_THAT(TableBytes(large, 0, 1),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("large")));
}

}  // namespace
}  // namespace monsoon
