#include "coordinator/downpour/streams.h"

#include <set>

#include "common/testing/status_matchers.h"
#include "coordinator/state/replayed_state.h"
#include "gmock/gmock.h"

namespace monsoon {
namespace {

using ::monsoon::testing::StatusIs;
using ::testing::_;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class StreamsTest : public ::testing::Test {
 protected:
  static SessionKey Session(uint32_t worker, uint64_t incarnation = 1) {
    SessionKey session;
    session.set_worker(worker);
    session.set_incarnation(incarnation);
    return session;
  }
  absl::StatusOr<TakeStreamReply> Take(uint32_t worker, const std::string& name) {
    return streams_.Take(worker, name, is_live_);
  }
  std::vector<std::string> Read(const SessionKey& session, const std::string& name,
                                const std::string& state, uint64_t push) {
    google::protobuf::RepeatedPtrField<StreamPosition> read;
    StreamPosition* const position = read.Add();
    position->set_name(name);
    position->set_state(state);
    position->set_push(push);
    return streams_.NoteRead(session, read, is_live_);
  }
  JobDescription::Stream Described(int i = 0) const {
    JobDescription::Data data;
    streams_.Describe(&data);
    return data.stream(i);
  }

  testing::ReplayedState state_;
  Streams streams_{state_.Begun(DOWNPOUR).job_writer()};
  std::set<uint32_t> live_ = {0, 1, 2};
  Streams::IsLive is_live_ = [this](uint32_t worker) { return live_.contains(worker); };
};

TEST_F(StreamsTest, AStreamIsOneWorkersUntilItIsGone) {
  ASSERT_OK_AND_ASSIGN(TakeStreamReply reply, Take(0, "part-0"));
  EXPECT_EQ(reply.retry_ms(), 0u);
  EXPECT_FALSE(reply.position().has_state());
  ASSERT_OK(Take(0, "part-0"));  // again
  ASSERT_OK_AND_ASSIGN(reply, Take(1, "part-0"));
  EXPECT_GT(reply.retry_ms(), 0u);
  EXPECT_EQ(reply.held_by(), "worker/0");
  EXPECT_THAT(Read(Session(0), "part-0", "seven", 7), IsEmpty());
  EXPECT_THAT(Read(Session(1), "part-0", "no", 1), ElementsAre("part-0"));
  EXPECT_THAT(Read(Session(1), "part-0", "no", 2), IsEmpty());  // it was said
  streams_.Leave(Session(1), 2);
  EXPECT_THAT(Read(Session(1, 2), "part-0", "no", 1), ElementsAre("part-0"));
  live_.erase(0);
  EXPECT_THAT(streams_.Leave(Session(0), 7), IsEmpty());
  ASSERT_OK_AND_ASSIGN(reply, Take(1, "part-0"));
  EXPECT_EQ(reply.retry_ms(), 0u);
  EXPECT_EQ(reply.position().state(), "seven");
  EXPECT_EQ(reply.position().worker(), 0u);
  EXPECT_EQ(reply.position().push(), 7u);
  EXPECT_EQ(reply.position().read_again(), 0u);
}

TEST_F(StreamsTest, AWorkerThatIsNoReplicaHoldsNothingUp) {
  ASSERT_OK(Take(0, "part-0"));
  live_.erase(0);
  ASSERT_OK_AND_ASSIGN(const TakeStreamReply reply, Take(1, "part-0"));
  EXPECT_EQ(reply.retry_ms(), 0u);
  EXPECT_EQ(Described().taken_by(), 1u);
}

TEST_F(StreamsTest, WhatShardsHaveBeyondThePositionIsReadAgain) {
  ASSERT_OK(Take(0, "part-0"));
  ASSERT_OK(Take(1, "part-1"));
  Read(Session(0), "part-0", "a", 7);
  const std::vector<Streams::ReadAgain> again = streams_.Leave(Session(0), 10);
  ASSERT_THAT(again, SizeIs(1));
  EXPECT_EQ(again[0].stream, "part-0");
  EXPECT_EQ(again[0].pushes, 3u);
  // The worker comes again, and dies before it has told anything: all its pushes.
  ASSERT_OK(Take(0, "part-0"));
  ASSERT_THAT(streams_.Leave(Session(0, 2), 2), SizeIs(1));
  EXPECT_EQ(Described().read_again(), 5u);
  EXPECT_FALSE(Described().has_taken_by());
  EXPECT_EQ(Described().read_by(), 0u);
  // It is not known what shards have.
  ASSERT_OK(Take(0, "part-0"));
  EXPECT_THAT(streams_.Leave(Session(0, 3), std::nullopt), IsEmpty());
  EXPECT_EQ(Described().read_again(), 5u);
  EXPECT_EQ(Described(1).taken_by(), 1u);
  EXPECT_THAT(streams_.Leave(Session(2), 9), IsEmpty());  // it had none
  EXPECT_THAT(Read(Session(0, 4), "part-0", "b", 1), IsEmpty());
  EXPECT_EQ(Described().read_again(), 5u);
}

TEST_F(StreamsTest, ASessionThatIsOpenedAnewTakesItsStreamByReading) {
  ASSERT_OK(Take(0, "part-0"));
  Read(Session(0), "part-0", "a", 7);
  streams_.Leave(Session(0), 7);
  EXPECT_THAT(Read(Session(0, 2), "part-0", "b", 1), IsEmpty());
  EXPECT_EQ(Described().taken_by(), 0u);
  ASSERT_OK_AND_ASSIGN(const TakeStreamReply reply, Take(1, "part-0"));
  EXPECT_GT(reply.retry_ms(), 0u);
}

TEST_F(StreamsTest, NamesAndRoomAreLimited) {
  EXPECT_THAT(Take(0, "").status(), StatusIs(absl::StatusCode::kInvalidArgument, _));
  EXPECT_THAT(Take(0, std::string(129, 'x')).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, _));
  EXPECT_THAT(Take(0, "a\nb").status(), StatusIs(absl::StatusCode::kInvalidArgument, _));
  const std::string large(Streams::kMostStateBytes, 's');
  for (int i = 0; i < 16; ++i) {
    EXPECT_THAT(Read(Session(0), absl::StrCat("large-", i), large, 1), IsEmpty());
  }
  EXPECT_THAT(Read(Session(0), "small", "s", 1), ElementsAre("small"));
  EXPECT_THAT(Read(Session(0), "large-3", "s", 2), IsEmpty());  // makes room
  EXPECT_THAT(Read(Session(0), "small", "s", 1), IsEmpty());
  for (int i = 0; i < Streams::kMostStreams - 17; ++i) {
    ASSERT_OK(Take(0, absl::StrCat("s-", i)));
  }
  EXPECT_THAT(Take(0, "one-more").status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("1024 streams already")));
}

TEST_F(StreamsTest, PositionsOfAGenerationAreChecked) {
  google::protobuf::RepeatedPtrField<StreamPosition> positions;
  positions.Add()->set_name("a");
  positions.Add()->set_name("b");
  EXPECT_OK(Streams::Check(positions));
  positions.Mutable(1)->set_name("a");
  EXPECT_THAT(Streams::Check(positions), StatusIs(absl::StatusCode::kInvalidArgument, _));
  positions.Mutable(1)->set_name("b\x01");
  EXPECT_THAT(Streams::Check(positions), StatusIs(absl::StatusCode::kInvalidArgument, _));
  positions.Mutable(1)->set_name("b");
  positions.Mutable(1)->set_state(std::string(Streams::kMostStateBytes + 1, 's'));
  EXPECT_THAT(Streams::Check(positions), StatusIs(absl::StatusCode::kInvalidArgument, _));
  positions.Clear();
  for (int i = 0; i < 17; ++i) {
    positions.Add()->set_name(absl::StrCat(i));
    positions.rbegin()->set_state(std::string(Streams::kMostStateBytes, 's'));
  }
  EXPECT_THAT(Streams::Check(positions),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("1114112 bytes")));
}

}  // namespace
}  // namespace monsoon
