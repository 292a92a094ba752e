// Streams that a program takes, and how far it says to have read them.
#include "gmock/gmock.h"
#include "worker/sidecar/replica_fixture.h"

namespace monsoon {
namespace {

using ::monsoon::testing::ReplicaTest;
using ::testing::HasSubstr;

TEST_F(ReplicaTest, AStreamIsTakenAndItsPositionTravelsWithTheStepThatCountsIt) {
  Join("0 go stream go+2 go go stream stream");
  ASSERT_EQ(monsoon_take_stream(replica_, "part-0", &event_), MONSOON_OK) << monsoon_last_error();
  EXPECT_EQ(monsoon_taken_stream(replica_).was_read, 0);
  EXPECT_EQ(monsoon_taken_stream(replica_).state, nullptr);
  Draw();
  ASSERT_EQ(monsoon_note_position(replica_, "part-0", "one", 3), MONSOON_OK);
  ASSERT_EQ(monsoon_note_position(replica_, "part-1", "", 0), MONSOON_OK);
  ASSERT_EQ(Step(), MONSOON_OK);
  EXPECT_EQ(Stats().fetches, 2u);  // positions that were told
  Draw();
  ASSERT_EQ(Step(), MONSOON_OK);
  EXPECT_EQ(Stats().fetches, 0u);
  ASSERT_EQ(monsoon_take_stream(replica_, "part-0", &event_), MONSOON_OK);
  const monsoon_stream taken = monsoon_taken_stream(replica_);
  EXPECT_EQ(std::string(static_cast<const char*>(taken.state), taken.bytes), "one");
  EXPECT_EQ(taken.worker, 3u);
  EXPECT_EQ(taken.push, 5u);
  EXPECT_EQ(taken.read_again, 2u);
  ASSERT_EQ(monsoon_take_stream(replica_, "part-1", &event_), MONSOON_OK);
  EXPECT_EQ(monsoon_taken_stream(replica_).was_read, 1);
  EXPECT_EQ(monsoon_taken_stream(replica_).bytes, 0u);
}

TEST_F(ReplicaTest, OfPositionsBetweenTwoPushesTheLastOneIsTold) {
  Join("3 go+4 go stream");
  for (const char* const read : {"1", "2", "3"}) {
    Draw();
    ASSERT_EQ(monsoon_note_position(replica_, "part-0", read, 1), MONSOON_OK);
    ASSERT_EQ(Step(), MONSOON_OK);
  }
  EXPECT_EQ(Stats().fetches, 1u);
  // Of a step that is not made yet.
  ASSERT_EQ(monsoon_note_position(replica_, "part-0", "4", 1), MONSOON_OK);
  ASSERT_EQ(monsoon_take_stream(replica_, "part-0", &event_), MONSOON_OK);
  const monsoon_stream taken = monsoon_taken_stream(replica_);
  EXPECT_EQ(std::string(static_cast<const char*>(taken.state), taken.bytes), "3");
}

TEST_F(ReplicaTest, APositionOfBatchesThatALostSessionHasTakenAwayIsNotTold) {
  Join("0 go go+1 go!+1 go");
  Draw();
  ASSERT_EQ(monsoon_note_position(replica_, "part-0", "1", 1), MONSOON_OK);
  Draw();
  EXPECT_TRUE(event_.discarded);
  ASSERT_EQ(Step(), MONSOON_OK);
  EXPECT_EQ(Stats().fetches, 0u);
}

TEST_F(ReplicaTest, APositionOfALostSessionIsNotTold) {
  Join("2 go+4 go!+2 go");
  Draw();
  ASSERT_EQ(monsoon_note_position(replica_, "part-0", "1", 1), MONSOON_OK);
  ASSERT_EQ(Step(), MONSOON_OK);
  Draw();
  ASSERT_EQ(Step(), MONSOON_OK);
  EXPECT_TRUE(event_.discarded);
  Draw();
  ASSERT_EQ(Step(), MONSOON_OK);
  Draw();
  ASSERT_EQ(Step(), MONSOON_OK);
  EXPECT_EQ(Stats().fetches, 0u);
}

TEST_F(ReplicaTest, AStreamIsAskedForAgainWhereTheSidecarDies) {
  Join("0 go die again go stream");
  ASSERT_EQ(monsoon_take_stream(replica_, "part-0", &event_), MONSOON_OK) << monsoon_last_error();
  EXPECT_TRUE(event_.discarded);
  EXPECT_EQ(monsoon_taken_stream(replica_).was_read, 0);
}

TEST_F(ReplicaTest, AStreamOfAJobThatEndsIsNobodys) {
  Join("0 go ended");
  ASSERT_EQ(monsoon_take_stream(replica_, "part-0", &event_), MONSOON_OK);
  EXPECT_EQ(event_.kind, MONSOON_ENDED);
  EXPECT_EQ(monsoon_taken_stream(replica_).was_read, 0);
  ASSERT_EQ(monsoon_take_stream(replica_, "part-0", &event_), MONSOON_OK);
  EXPECT_EQ(event_.kind, MONSOON_ENDED);
}

TEST_F(ReplicaTest, NamesAndStatesOfStreamsAreChecked) {
  Join("0 go");
  const std::string name(129, 'x'), state(65537, 's');
  EXPECT_EQ(monsoon_take_stream(replica_, "", &event_), MONSOON_INVALID_ARGUMENT);
  EXPECT_EQ(monsoon_take_stream(replica_, "a\tb", &event_), MONSOON_INVALID_ARGUMENT);
  EXPECT_EQ(monsoon_take_stream(replica_, name.c_str(), &event_), MONSOON_INVALID_ARGUMENT);
  EXPECT_EQ(monsoon_take_stream(replica_, nullptr, &event_), MONSOON_INVALID_ARGUMENT);
  EXPECT_EQ(monsoon_note_position(replica_, "", "1", 1), MONSOON_INVALID_ARGUMENT);
  EXPECT_EQ(monsoon_note_position(replica_, "p", nullptr, 1), MONSOON_INVALID_ARGUMENT);
  EXPECT_EQ(monsoon_note_position(replica_, "p", state.data(), state.size()),
            MONSOON_INVALID_ARGUMENT);
  EXPECT_THAT(monsoon_last_error(), HasSubstr("65537 bytes; at most 65536"));
  EXPECT_EQ(monsoon_note_position(replica_, "p", state.data(), state.size() - 1), MONSOON_OK);
}

}  // namespace
}  // namespace monsoon
