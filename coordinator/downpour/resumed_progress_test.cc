#include "coordinator/downpour/resumed_progress.h"

#include <limits>

#include "common/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace monsoon {
namespace {

using ::monsoon::testing::StatusIs;
using ::testing::HasSubstr;

// 70 samples in blocks of 20.
constexpr char kContext[] = R"pb(
  job { block_examples: 20 }
  downpour {
    steps: 41
    epochs_done: 2
    epoch {
      epoch: 2
      blocks: 4
      done { first: 0 end: 1 }
      done { first: 2 end: 4 }
    }
    epoch {
      epoch: 4
      blocks: 4
      done { first: 1 end: 2 }
    }
    blocks_done: 12
    examples_done: 210
  }
)pb";

CheckpointContext Context() {
  CheckpointContext context;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(kContext, &context));
  return context;
}

TEST(ResumeProgressTest, BlocksCountWhereTheDataIsCutTheSame) {
  const CheckpointContext context = Context();
  ASSERT_OK_AND_ASSIGN(const ResumedProgress resumed, ResumeProgress(context, 70, 20));
  EXPECT_EQ(resumed.progress.SerializeAsString(), context.downpour().SerializeAsString());
  EXPECT_EQ(resumed.note, "");
}

TEST(ResumeProgressTest, StreamsGoOnWhereTheyWereHoweverTheDataIsCut) {
  CheckpointContext context = Context();
  for (const char* const name : {"part-1", "part-0"}) {
    StreamPosition* const stream = context.mutable_downpour()->add_stream();
    stream->set_name(name);
    stream->set_state("s");
    stream->set_worker(3);
    stream->set_push(9);
    stream->set_read_again(2);
  }
  for (const uint64_t block : {20, 10}) {
    ASSERT_OK_AND_ASSIGN(const ResumedProgress resumed, ResumeProgress(context, 70, block));
    ASSERT_EQ(resumed.progress.stream_size(), 2);
    EXPECT_EQ(resumed.progress.stream(0).DebugString(), "name: \"part-0\"\nstate: \"s\"\n");
    EXPECT_EQ(resumed.progress.stream(1).name(), "part-1");
  }
  context.mutable_downpour()->mutable_stream(0)->set_name("part-0");
  EXPECT_THAT(ResumeProgress(context, 70, 20).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("twice")));
}

TEST(ResumeProgressTest, NothingIsDoneInACheckpointOfABatchJob) {
  ASSERT_OK_AND_ASSIGN(const ResumedProgress resumed, ResumeProgress(CheckpointContext(), 70, 20));
  EXPECT_EQ(resumed.progress.blocks_done(), 0u);
  EXPECT_EQ(resumed.progress.epochs_done(), 0u);
}

TEST(ResumeProgressTest, OtherwiseWholeEpochsAlone) {
  ASSERT_OK_AND_ASSIGN(ResumedProgress resumed, ResumeProgress(Context(), 70, 10));
  EXPECT_EQ(resumed.progress.epochs_done(), 2u);
  EXPECT_EQ(resumed.progress.blocks_done(), 14u);
  EXPECT_EQ(resumed.progress.examples_done(), 140u);
  EXPECT_EQ(resumed.progress.steps(), 41u);
  EXPECT_EQ(resumed.progress.epoch_size(), 0);
  EXPECT_EQ(resumed.note,
            "blocks have 10 samples, and had 20; what was done after epoch 2 is done again");
  // Other data.
  ASSERT_OK_AND_ASSIGN(resumed, ResumeProgress(Context(), 100, 20));
  EXPECT_EQ(resumed.progress.epoch_size(), 0);
  EXPECT_EQ(resumed.progress.examples_done(), 200u);
  EXPECT_THAT(resumed.note, HasSubstr("an epoch has 5 blocks, and had others"));
  // Fewer samples than were done.
  CheckpointContext context = Context();
  context.mutable_downpour()->set_examples_done(211);
  ASSERT_OK_AND_ASSIGN(resumed, ResumeProgress(context, 70, 20));
  EXPECT_EQ(resumed.progress.examples_done(), 140u);
  EXPECT_NE(resumed.note, "");
  // A number of blocks that does not add up.
  context = Context();
  context.mutable_downpour()->set_blocks_done(13);
  ASSERT_OK_AND_ASSIGN(resumed, ResumeProgress(context, 70, 20));
  EXPECT_EQ(resumed.progress.blocks_done(), 8u);
}

TEST(ResumeProgressTest, WholeEpochsWithoutOthersSayNothingIsRepeated) {
  CheckpointContext context = Context();
  context.mutable_downpour()->clear_epoch();
  context.mutable_downpour()->set_blocks_done(8);
  context.mutable_downpour()->set_examples_done(140);
  ASSERT_OK_AND_ASSIGN(const ResumedProgress resumed, ResumeProgress(context, 70, 10));
  EXPECT_EQ(resumed.note, "blocks have 10 samples, and had 20");
}

TEST(ResumeProgressTest, GarbageIsRefused) {
  const auto refused = [](const auto& change, const std::string& why) {
    CheckpointContext context = Context();
    change(context.mutable_downpour());
    EXPECT_THAT(ResumeProgress(context, 70, 20),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr("the checkpoint's progress: " + why)));
  };
  refused([](DownpourProgress* p) { p->mutable_epoch(0)->mutable_done(1)->set_end(5); },
          "epoch 2 has blocks [2, 5) of 4");
  refused([](DownpourProgress* p) { p->mutable_epoch(0)->mutable_done(1)->set_end(2); },
          "epoch 2 has blocks [2, 2)");
  refused([](DownpourProgress* p) { p->mutable_epoch(0)->mutable_done(0)->set_end(2); },
          "epoch 2 has blocks [2, 4) of 4 after those before 2");
  refused([](DownpourProgress* p) { p->mutable_epoch(0)->mutable_done(0)->set_end(3); },
          "epoch 2 has blocks [2, 4)");
  refused([](DownpourProgress* p) { p->mutable_epoch(1)->set_epoch(2); }, "epoch 2 is begun");
  refused([](DownpourProgress* p) { p->mutable_epoch(0)->set_epoch(1); }, "epoch 1 is begun");
  refused([](DownpourProgress* p) { p->mutable_epoch(1)->set_epoch(4'000'000'000); },
          "epoch 4000000000 is begun");
  refused([](DownpourProgress* p) { p->set_epochs_done(4'000'000'000); }, "more is done");
  refused([](DownpourProgress* p) { p->set_steps(std::numeric_limits<uint64_t>::max()); },
          "more is done");
  refused([](DownpourProgress* p) { p->set_examples_done(std::numeric_limits<uint64_t>::max()); },
          "more is done");
}

TEST(ResumeProgressTest, HugeNumbersDoNotOverflow) {
  CheckpointContext context = Context();
  EpochCursor* const cursor = context.mutable_downpour()->mutable_epoch(1);
  cursor->set_blocks(std::numeric_limits<uint32_t>::max());
  cursor->mutable_done(0)->set_end(std::numeric_limits<uint32_t>::max());
  ASSERT_OK_AND_ASSIGN(const ResumedProgress resumed, ResumeProgress(context, 70, 20));
  EXPECT_EQ(resumed.progress.epoch_size(), 0);
}

}  // namespace
}  // namespace monsoon
