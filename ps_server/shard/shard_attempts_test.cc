// A batch job's slice is given up and made anew, of a later attempt.
#include <unistd.h>

#include <memory>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/time/time.h"
#include "common/process/unique_fd.h"
#include "common/testing/status_matchers.h"
#include "common/transport/shm/memory_file.h"
#include "common/transport/shm/shared_slice.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ps_server/shard/session_table.h"
#include "ps_server/shard/shard.h"
#include "ps_server/shard/shard_fixture.h"
#include "ps_server/shard/shard_job.h"

namespace monsoon {
namespace {

using ::monsoon::testing::StatusIs;
using ::testing::_;
using ::testing::HasSubstr;

constexpr absl::Duration kPatience = absl::Seconds(30);

class ShardAttemptsTest : public ShardTest {
 protected:
  RestoreShardJobRequest Request(uint64_t attempt) const {
    RestoreShardJobRequest request;
    *request.mutable_create() = request_;
    *request.add_session() = session_;
    request.set_attempt(attempt);
    return request;
  }

  // A slice with the initial parameters.
  static absl::Status Restore(Shard* shard, const RestoreShardJobRequest& request) {
    return shard
        ->RestoreJob(request,
                     [](const std::shared_ptr<ShardJob>& job, std::span<const SessionId> open,
                        absl::FunctionRef<bool()> go_on) -> absl::Status {
                       const absl::Status made = job->stripes()->Initialize(go_on);
                       for (const SessionId& session : open) {
                         EXPECT_OK(job->sessions()->Open(session));
                       }
                       return made;
                     })
        .status();
  }

  absl::Status Return(uint64_t attempt) {
    EXPECT_OK(shard_.GiveUpEarlier(Request(attempt)));
    EXPECT_OK(shard_.AwaitGivenUp("job-1", 0, kPatience));
    return Restore(&shard_, Request(attempt));
  }

  static VectorRequest Operation(uint64_t id, uint64_t attempt) {
    VectorRequest request;
    request.set_job("job-1");
    request.set_shard_epoch(kEpoch);
    request.set_op_id(id);
    request.set_attempt(attempt);
    return request;
  }
  static VectorRequest Fill(uint64_t id, uint64_t attempt) {
    VectorRequest request = Operation(id, attempt);
    request.mutable_fill()->set_out("x");
    return request;
  }
  absl::Status Open(uint64_t id, uint64_t attempt, uint64_t evaluation) {
    VectorRequest request = Operation(id, attempt);
    request.mutable_open_evaluation()->set_evaluation(evaluation);
    request.mutable_open_evaluation()->set_contributions(2);
    return shard_.Vector(request).status();
  }

  PushVerdict Contribute(uint64_t evaluation) {
    ContributeRequest request;
    *request.mutable_session() = session_;
    request.set_layout_hash(request_.layout_hash());
    request.set_evaluation(evaluation);
    ContributeRecord* const record = request.add_record();
    record->set_shard_epoch(kEpoch);
    record->set_length(kStripe * sizeof(float));
    const Vector gradient(kStripe, 1.0f);
    const ByteChunk chunk = std::as_bytes(std::span(gradient));
    ChunkCursor cursor(std::span(&chunk, 1));
    const absl::StatusOr<PushReply> reply = shard_.Contribute(request, &cursor, &scratch_);
    EXPECT_OK(reply);
    return reply.ok() ? reply->verdict(0) : PushVerdict();
  }
};

TEST_F(ShardAttemptsTest, OperationsAreOfTheSlicesAttempt) {
  EXPECT_THAT(shard_.Vector(Fill(1, 1)),
              StatusIs(absl::StatusCode::kAborted,
                       HasSubstr("job job-1: its slice is of attempt 0, this operation of attempt "
                                 "1")));
  ASSERT_OK(shard_.Vector(Fill(1, 0)));
  ASSERT_OK(Return(2));
  EXPECT_EQ(shard_.FindJob("job-1")->attempt(), 2u);
  for (const uint64_t attempt : {0u, 1u, 3u}) {
    EXPECT_THAT(shard_.Vector(Fill(1, attempt)),
                StatusIs(absl::StatusCode::kAborted, HasSubstr("of attempt 2")));
  }
  // Neither the vector nor the ids of the one before are there.
  ASSERT_OK(shard_.Vector(Fill(1, 2)));
  // The epoch comes first: a shard that was started anew has no attempt.
  VectorRequest other = Fill(2, 1);
  other.set_shard_epoch(kEpoch + 1);
  EXPECT_THAT(shard_.Vector(other),
              StatusIs(absl::StatusCode::kAborted, HasSubstr("was started anew")));
}

TEST_F(ShardAttemptsTest, ContributionsToAnEarlierAttemptsEvaluationAreClosed) {
  ASSERT_OK(Open(1, 0, 7));
  EXPECT_EQ(Contribute(7).verdict(), APPLIED);
  ASSERT_OK(Return(1));
  EXPECT_EQ(Contribute(7).verdict(), REFUSED_CLOSED);
  ASSERT_OK(Open(1, 1, 8));
  EXPECT_EQ(Contribute(7).verdict(), REFUSED_CLOSED);
  EXPECT_EQ(Contribute(8).verdict(), APPLIED);
}

TEST_F(ShardAttemptsTest, OnlyAnEarlierAttemptIsGivenUp) {
  ASSERT_OK(Return(2));
  const ShardJob* const job = shard_.FindJob("job-1").get();
  const auto stays = [&] { return shard_.FindJob("job-1").get() == job; };
  const auto aborted = StatusIs(absl::StatusCode::kAborted,
                                HasSubstr("its slice is of attempt 2; this call is of attempt 1"));
  EXPECT_THAT(shard_.GiveUpEarlier(Request(1)), aborted);
  EXPECT_THAT(Restore(&shard_, Request(1)), aborted);
  EXPECT_OK(shard_.GiveUpEarlier(Request(2)));
  EXPECT_OK(Restore(&shard_, Request(2)));
  EXPECT_TRUE(stays());
  RestoreShardJobRequest other = Request(3);
  other.mutable_create()->set_seed(99);
  EXPECT_THAT(shard_.GiveUpEarlier(other), StatusIs(absl::StatusCode::kAlreadyExists, _));
  other = Request(3);
  other.mutable_session(0)->set_job("job-9");
  EXPECT_THAT(shard_.GiveUpEarlier(other), StatusIs(absl::StatusCode::kInvalidArgument, _));
  RestoreShardJobRequest newer = Request(2);
  newer.mutable_create()->set_term(9);
  EXPECT_OK(shard_.GiveUpEarlier(newer));
  EXPECT_THAT(shard_.GiveUpEarlier(Request(3)),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("term 9")));
  EXPECT_TRUE(stays());
  // Nothing is made over one that was not given up.
  newer.set_attempt(3);
  EXPECT_THAT(Restore(&shard_, newer), StatusIs(absl::StatusCode::kUnavailable, _));
  EXPECT_TRUE(stays());
}

TEST_F(ShardAttemptsTest, ReadersOfSharedMemoryTurnToTheShard) {
  ASSERT_OK_AND_ASSIGN(const SliceFetches::Shared shared,
                       shard_.FindJob("job-1")->fetches()->Share(SessionId{1, 1}));
  ASSERT_OK_AND_ASSIGN(const MemoryFile file, MemoryFile::Adopt(UniqueFd(dup(shared.fd)), 1));
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<SliceReader> reader,
                       SliceReader::Open(file, shared.shape, shared.slot));
  EXPECT_TRUE(reader->valid());
  ASSERT_OK(Return(1));
  EXPECT_FALSE(reader->valid());
}

// Somebody still reads the slice: its memory is not free, and the next one waits.
TEST_F(ShardAttemptsTest, ANewSliceIsMadeOnceNobodyHoldsTheOldOne) {
  std::shared_ptr<ShardJob> held = shard_.FindJob("job-1");
  ASSERT_OK(shard_.GiveUpEarlier(Request(1)));
  EXPECT_TRUE(held->given_up());
  EXPECT_EQ(shard_.FindJob("job-1"), nullptr);
  const auto busy = StatusIs(absl::StatusCode::kUnavailable, HasSubstr("somebody still reads"));
  EXPECT_THAT(shard_.AwaitGivenUp("job-1", 0, absl::ZeroDuration()), busy);
  EXPECT_OK(shard_.AwaitGivenUp("job-2", 0, absl::ZeroDuration()));
  EXPECT_THAT(Restore(&shard_, Request(1)), busy);
  EXPECT_OK(shard_.GiveUpEarlier(Request(1)));  // it was before
  std::jthread reader([&held] { held.reset(); });
  EXPECT_OK(shard_.AwaitGivenUp("job-1", 0, kPatience));
  EXPECT_EQ(shard_.GetStatus({})->memory_used_bytes(), 0u);
  EXPECT_OK(Restore(&shard_, Request(1)));
}

TEST_F(ShardAttemptsTest, ThereIsRoomForOneSliceOnly) {
  const uint64_t one = shard_.GetStatus({})->memory_used_bytes();
  Shard small{{"test", 2, kEpoch, one + one / 2}};
  ASSERT_OK(small.CreateJob(request_));
  for (uint64_t attempt = 1; attempt <= 3; ++attempt) {
    ASSERT_OK(small.GiveUpEarlier(Request(attempt)));
    ASSERT_OK(small.AwaitGivenUp("job-1", 0, kPatience));
    ASSERT_OK(Restore(&small, Request(attempt)));
    EXPECT_EQ(small.FindJob("job-1")->attempt(), attempt);
  }
}

}  // namespace
}  // namespace monsoon
