// A batch job's slice returns to a generation (CheckpointKeeper::Restore with an attempt):
// one that lives, and one of a new life.

#include <cstdint>
#include <cstring>
#include <latch>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/checkpoint/checkpoint.h"
#include "common/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/parameter_server.pb.h"
#include "ps_server/checkpoint/keeper_fixture.h"
#include "ps_server/shard/session_owners.h"
#include "ps_server/shard/shard_job.h"

namespace monsoon {
namespace {

using ::monsoon::testing::StatusIs;
using ::testing::_;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr size_t kFloats = kStripes * kStripe;

class AttemptsTest : public CheckpointKeeperTest {
 protected:
  // A job that has done iterations 4 and 5, with a generation of the same number after
  // each.
  void BeginBatch() {
    MakeJob("a-1");
    for (const uint64_t number : {4u, 5u}) {
      Iterate(number);
      WriteBatch(number);
    }
  }

  std::shared_ptr<ShardJob> Job() { return shard_->FindJob("a-1", 3); }

  VectorRequest Operation() {
    VectorRequest request;
    request.set_job("a-1");
    request.set_job_term(3);
    request.set_shard_epoch(epoch_);
    request.set_attempt(attempt_);
    request.set_op_id(++operation_);
    return request;
  }

  // What becomes of one record of a contribution.
  Verdict Contribute(uint64_t evaluation, uint32_t stripe, std::span<const float> gradient) {
    ContributeRequest request;
    *request.mutable_session() = session_;
    request.set_layout_hash(MakeCreate("").layout_hash());
    request.set_evaluation(evaluation);
    ContributeRecord* const record = request.add_record();
    record->set_stripe(stripe);
    record->set_shard_epoch(epoch_);
    record->set_length(kStripe * sizeof(float));
    const ByteChunk chunk = std::as_bytes(gradient);
    ChunkCursor cursor(std::span(&chunk, 1));
    const absl::StatusOr<PushReply> reply = shard_->Contribute(request, &cursor, &scratch_);
    EXPECT_OK(reply);
    return reply.ok() ? reply->verdict(0).verdict() : VERDICT_UNSPECIFIED;
  }

  // The gradient of that seed becomes vector gNUMBER and the parameters; sNUMBER is twice
  // that. Its bits depend on the largest values of the gradient before: those here are 900,
  // and what is small is rounded by that.
  void Iterate(uint64_t number, uint64_t seed = 0) {
    VectorRequest open = Operation();
    open.mutable_open_evaluation()->set_evaluation(++evaluation_);
    open.mutable_open_evaluation()->set_contributions(1);
    ASSERT_OK(shard_->Vector(open));
    for (uint32_t stripe = 0; stripe < kStripes; ++stripe) {
      std::vector<float> gradient(kStripe, 900.0f + static_cast<float>(number));
      for (size_t i = 1; i < kStripe; i += 2) {
        gradient[i] = 1e-6f * static_cast<float>(3 * number + seed + stripe + i) / 7.0f;
      }
      ASSERT_EQ(Contribute(evaluation_, stripe, gradient), APPLIED);
    }
    VectorRequest close = Operation();
    close.mutable_close_evaluation()->set_evaluation(evaluation_);
    close.mutable_close_evaluation()->set_out(absl::StrCat("g", number));
    close.mutable_close_evaluation()->set_factor(0.5);
    ASSERT_OK_AND_ASSIGN(const VectorReply reply, shard_->Vector(close));
    ASSERT_FALSE(reply.evaluate_again());
    VectorRequest scale = Operation();
    scale.mutable_scale()->set_out(absl::StrCat("s", number));
    scale.mutable_scale()->set_in(absl::StrCat("g", number));
    scale.mutable_scale()->set_factor(2.0);
    ASSERT_OK(shard_->Vector(scale));
    VectorRequest publish = Operation();
    publish.mutable_publish()->set_in(absl::StrCat("g", number));
    ASSERT_OK(shard_->Vector(publish));
  }

  static CheckpointRequest BatchOrder(uint64_t number) {
    CheckpointRequest order = OrderOf("a-1", number);
    order.mutable_context()->clear_downpour();
    order.mutable_context()->set_iterations(static_cast<uint32_t>(number));
    order.mutable_context()->add_vector(absl::StrCat("g", number));
    order.mutable_context()->add_vector(absl::StrCat("s", number));
    return order;
  }

  void WriteBatch(uint64_t number) {
    ASSERT_OK(keeper_->Order(Job(), BatchOrder(number)));
    ASSERT_TRUE(keeper_->AwaitIdle(kPatience));
    ASSERT_EQ(StatusOf("a-1").checkpoint_error(), "");
    ASSERT_EQ(StatusOf("a-1").generation(), number);
  }

  // Every byte that the iteration has left: parameters, its vectors, maxima.
  std::string State(uint64_t number) {
    const std::shared_ptr<ShardJob> job = Job();
    std::string bytes = job->stripes()->Snapshot();
    const auto add = [&](std::span<const float> floats) {
      bytes.append(reinterpret_cast<const char*>(floats.data()), floats.size_bytes());
    };
    for (const char* const kind : {"g", "s"}) {
      const auto vector = job->vectors()->Find(absl::StrCat(kind, number));
      EXPECT_OK(vector);
      if (vector.ok()) {
        add(std::span((*vector)->data(), (*vector)->size()));
      }
    }
    for (uint32_t stripe = 0; stripe < kStripes; ++stripe) {
      const std::vector<float> maxima = job->vectors()->Maxima(stripe);
      EXPECT_THAT(maxima, Each(900.0f + static_cast<float>(number)));
      add(maxima);
    }
    return bytes;
  }

  RestoreShardJobRequest Request(uint64_t generation, uint64_t attempt) const {
    RestoreShardJobRequest request;
    *request.mutable_create() = MakeCreate("a-1");
    request.set_generation(generation);
    request.set_attempt(attempt);
    *request.add_session() = session_;
    return request;
  }

  absl::StatusOr<RestoreShardJobReply> Restore(uint64_t generation, uint64_t attempt) {
    return keeper_->Restore(shard_.get(), Request(generation, attempt));
  }

  // The next operations are of the new slice.
  void Return(uint64_t generation, uint64_t attempt) {
    ASSERT_OK_AND_ASSIGN(const RestoreShardJobReply reply, Restore(generation, attempt));
    EXPECT_EQ(reply.generation(), generation);
    EXPECT_EQ(reply.attempt(), attempt);
    EXPECT_EQ(reply.shard_epoch(), epoch_);
    EXPECT_THAT(reply.lost(), IsEmpty());
    attempt_ = attempt;
    operation_ = 0;
  }

  std::vector<std::string> Manifests() const {
    std::vector<std::string> manifests;
    const auto names = storage_.List(JobFolder(kStateDir, "a-1", 3));
    EXPECT_OK(names);
    for (const std::string& name : *names) {
      if (name.ends_with(kManifestEnding)) {
        manifests.push_back(name);
      }
    }
    return manifests;
  }

  // Turns over a bit of the floats of a tensor whose name begins so.
  void Rot(const std::string& part, const std::string& tensor) {
    const std::string path =
        absl::StrCat(JobFolder(kStateDir, "a-1", 3), "/", part, ".safetensors");
    uint64_t head = 0;
    ASSERT_OK((*storage_.Open(path))->ReadAt(0, std::as_writable_bytes(std::span(&head, 1))));
    ASSERT_OK_AND_ASSIGN(const std::string bytes, storage_.ReadAll(path, 1 << 20));
    const std::string offsets = "\"data_offsets\":[";
    const size_t entry = bytes.find(absl::StrCat("\"", tensor));
    ASSERT_NE(entry, std::string::npos);
    const size_t begin = bytes.find(offsets, entry) + offsets.size();
    storage_.CorruptByte(path, sizeof(head) + head + std::stoull(bytes.substr(begin)) + 5, 3);
  }

  uint64_t attempt_ = 0;
  uint64_t operation_ = 0;
  uint64_t evaluation_ = 0;
};

// The same, whether the slice lives or is of a new life: that is what makes the rest of
// the run the same.
TEST_F(AttemptsTest, ALiveSliceAndANewLifeReturnToTheSame) {
  BeginBatch();
  const std::string fifth = State(5);
  Iterate(6);
  WriteBatch(6);  // on this shard only
  const std::string sixth = State(6);
  Iterate(7);
  EXPECT_THAT(Manifests(), ElementsAre("ps-0-of-1.g5.e7.manifest", "ps-0-of-1.g6.e7.manifest"));

  Return(5, 1);
  EXPECT_EQ(State(5), fifth);
  EXPECT_EQ(StatusOf("a-1").generation(), 5u);
  for (const char* const gone : {"g4", "g6", "g7"}) {
    EXPECT_THAT(Job()->vectors()->Find(gone), StatusIs(absl::StatusCode::kNotFound, _));
  }
  Iterate(6);
  EXPECT_EQ(State(6), sixth);
  WriteBatch(6);

  Restart();
  Return(5, 2);
  EXPECT_EQ(State(5), fifth);
  Iterate(6);
  EXPECT_EQ(State(6), sixth);
  // The one of the life before goes with the next part, which has its number.
  EXPECT_THAT(Manifests(), ElementsAre("ps-0-of-1.g5.e7.manifest", "ps-0-of-1.g6.e7.manifest"));
  WriteBatch(6);
  EXPECT_THAT(Manifests(), ElementsAre("ps-0-of-1.g5.e7.manifest", "ps-0-of-1.g6.e8.manifest"));
}

// What the earlier attempt has written is not taken for the later one's.
TEST_F(AttemptsTest, ANumberMayComeAgainInTheSameLife) {
  BeginBatch();
  Iterate(6);
  WriteBatch(6);
  const std::string before = State(6);
  Return(5, 1);
  EXPECT_THAT(Manifests(), ElementsAre("ps-0-of-1.g5.e7.manifest"));
  Iterate(6, /*seed=*/50);
  const std::string after = State(6);
  ASSERT_NE(after, before);
  WriteBatch(6);
  EXPECT_THAT(Manifests(), ElementsAre("ps-0-of-1.g5.e7.manifest", "ps-0-of-1.g6.e7.manifest"));
  Return(6, 2);
  EXPECT_EQ(State(6), after);
}

TEST_F(AttemptsTest, TheGenerationBeforeStaysTheOlderOne) {
  BeginBatch();
  Return(5, 1);
  EXPECT_THAT(Manifests(), ElementsAre("ps-0-of-1.g4.e7.manifest", "ps-0-of-1.g5.e7.manifest"));
  Iterate(6);
  WriteBatch(6);
  EXPECT_THAT(Manifests(), ElementsAre("ps-0-of-1.g5.e7.manifest", "ps-0-of-1.g6.e7.manifest"));
}

// Half written: it ends there, or is put in place after all.
TEST_F(AttemptsTest, WhatIsBeingWrittenIsGivenUp) {
  BeginBatch();
  const std::string fifth = State(5);
  for (const uint64_t attempt : {1u, 2u}) {
    Iterate(6);
    std::latch writing(1);
    const ShardJob* const job = Job().get();  // held by who writes it
    before_rename_ = [&, first = true]() mutable {
      if (first) {
        first = false;
        writing.count_down();
        while (!job->given_up()) {
          std::this_thread::yield();
        }
      }
    };
    owner_ = attempt == 1 ? absl::UnavailableError("ends here") : absl::OkStatus();
    ASSERT_OK(keeper_->Order(Job(), BatchOrder(6)));
    writing.wait();
    Return(5, attempt);
    before_rename_ = nullptr;
    owner_ = absl::OkStatus();
    EXPECT_EQ(State(5), fifth);
    EXPECT_EQ(StatusOf("a-1").checkpoint_error(), "");
  }
  Iterate(6);
  WriteBatch(6);
}

TEST_F(AttemptsTest, WhatWaitsToBeWrittenIsForgotten) {
  BeginBatch();
  const SessionKey session = session_;
  const std::shared_ptr<ShardJob> other = MakeJob("b-1");
  session_ = session;
  std::latch writing(1), returned(1);
  before_rename_ = [&, first = true]() mutable {
    if (first) {
      first = false;
      writing.count_down();
      returned.wait();
    }
  };
  ASSERT_OK(keeper_->Order(other, OrderOf("b-1", 1)));
  writing.wait();
  Iterate(6);
  ASSERT_OK(keeper_->Order(Job(), BatchOrder(6)));
  Return(5, 1);
  returned.count_down();
  ASSERT_TRUE(keeper_->AwaitIdle(kPatience));
  before_rename_ = nullptr;
  EXPECT_EQ(StatusOf("b-1").generation(), 1u);
  EXPECT_EQ(StatusOf("a-1").generation(), 5u);
  EXPECT_THAT(Manifests(), ElementsAre("ps-0-of-1.g4.e7.manifest", "ps-0-of-1.g5.e7.manifest"));
}

TEST_F(AttemptsTest, AnOrderOfASliceThatWasGivenUpIsRefused) {
  BeginBatch();
  std::shared_ptr<ShardJob> before = Job();
  ASSERT_OK(shard_->GiveUpEarlier(Request(5, 1)));
  EXPECT_THAT(keeper_->Order(std::move(before), BatchOrder(6)),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("made anew")));
  Return(5, 1);
  Iterate(6);
  WriteBatch(6);
}

TEST_F(AttemptsTest, RepeatedCallsAreAnsweredAlikeAndEarlierOnesRefused) {
  BeginBatch();
  ASSERT_OK_AND_ASSIGN(const RestoreShardJobReply reply, Restore(5, 2));
  EXPECT_EQ(reply.parent_epoch(), kEpoch);
  EXPECT_THAT(reply.skipped(), IsEmpty());
  attempt_ = 2;
  operation_ = 0;
  Iterate(6);
  const std::string sixth = State(6);
  ASSERT_OK_AND_ASSIGN(const RestoreShardJobReply again, Restore(5, 2));
  EXPECT_EQ(again.SerializeAsString(), reply.SerializeAsString());
  EXPECT_THAT(Restore(5, 1),
              StatusIs(absl::StatusCode::kAborted, HasSubstr("its slice is of attempt 2")));
  EXPECT_EQ(State(6), sixth);
}

TEST_F(AttemptsTest, TheEarlierAttemptIsOver) {
  BeginBatch();
  VectorRequest open = Operation();
  open.mutable_open_evaluation()->set_evaluation(++evaluation_);
  open.mutable_open_evaluation()->set_contributions(1);
  ASSERT_OK(shard_->Vector(open));
  VectorRequest close = Operation();
  close.mutable_close_evaluation()->set_evaluation(evaluation_);
  const std::vector<float> gradient(kStripe, 1.0f);
  EXPECT_EQ(Contribute(evaluation_, 0, gradient), APPLIED);
  Return(5, 1);
  EXPECT_THAT(shard_->Vector(close),
              StatusIs(absl::StatusCode::kAborted, HasSubstr("this operation of attempt 0")));
  EXPECT_EQ(Contribute(evaluation_, 1, gradient), REFUSED_CLOSED);
  EXPECT_TRUE(shard_->OpenSession(session_)->resumed());
}

TEST_F(AttemptsTest, ADamagedPartIsToldAndReadOnceItIsRepaired) {
  BeginBatch();
  const std::string fifth = State(5);
  Iterate(6);
  WriteBatch(6);
  uint64_t attempt = 0;
  for (const char* const vector : {"vector:g5:", "vector:s5:"}) {
    Rot("ps-0-of-1.g5.e7", vector);
    ++attempt;
    // Neither the newer one nor an older one will do.
    EXPECT_THAT(Restore(5, attempt),
                StatusIs(absl::StatusCode::kNotFound,
                         AllOf(HasSubstr("no good part of shard 0 of generation 5"),
                               HasSubstr("ps-0-of-1.g5.e7"), HasSubstr(vector))));
    EXPECT_EQ(Job(), nullptr);
    EXPECT_EQ(shard_->GetStatus({})->memory_used_bytes(), 0u);
    Rot("ps-0-of-1.g5.e7", vector);
    Return(5, attempt);
    EXPECT_EQ(State(5), fifth);
  }
  EXPECT_THAT(Restore(9, 7), StatusIs(absl::StatusCode::kNotFound,
                                      AllOf(HasSubstr("of generation 9"), Not(HasSubstr("g5")))));
  Return(5, 7);
}

TEST_F(AttemptsTest, MemoryIsFreeBeforeItIsTakenAgain) {
  BeginBatch();
  Return(5, 1);
  const uint64_t one = shard_->GetStatus({})->memory_used_bytes();
  ASSERT_GT(one, 3 * kFloats * sizeof(float));
  memory_bytes_ = one + one / 4;
  Restart();
  for (uint64_t attempt = 1; attempt <= 3; ++attempt) {
    Return(5, attempt);
    EXPECT_EQ(shard_->GetStatus({})->memory_used_bytes(), one);
  }
  // The part is good: there is no room for its vectors.
  memory_bytes_ = one - 3 * kFloats * sizeof(float) - kSessionOwnerBytes;
  Restart();
  EXPECT_THAT(Restore(5, 4),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("for vector \"g5\"")));
}

TEST_F(AttemptsTest, CallsAtOnceMakeOneSlice) {
  BeginBatch();
  const std::string fifth = State(5);
  for (uint64_t attempt = 1; attempt <= 20; ++attempt) {
    std::vector<absl::Status> answers(4);
    {
      std::vector<std::jthread> callers;
      for (absl::Status& answer : answers) {
        callers.emplace_back([&] { answer = Restore(5, attempt).status(); });
      }
    }
    int done = 0;
    for (const absl::Status& answer : answers) {
      done += answer.ok() ? 1 : 0;
      EXPECT_TRUE(answer.ok() || absl::IsUnavailable(answer)) << answer;
    }
    EXPECT_GE(done, 1);
    Return(5, attempt);
    EXPECT_EQ(State(5), fifth);
    Iterate(6);
  }
}

TEST_F(AttemptsTest, AVectorThatIsNotThereIsNamed) {
  BeginBatch();
  ASSERT_OK(keeper_->Order(Job(), BatchOrder(6)));
  ASSERT_TRUE(keeper_->AwaitIdle(kPatience));
  EXPECT_THAT(StatusOf("a-1").checkpoint_error(),
              AllOf(HasSubstr("generation 6 cannot be cut"), HasSubstr("\"g6\"")));
  EXPECT_EQ(StatusOf("a-1").generation(), 5u);
  Iterate(6);
  WriteBatch(6);
}

// Its parameters may be of a point that is only tried.
TEST_F(AttemptsTest, AServerThatStopsCutsNoBatchBetweenItsIterations) {
  BeginBatch();
  Iterate(6);
  ASSERT_OK(keeper_->Flush(kPatience));
  EXPECT_THAT(Manifests(), ElementsAre("ps-0-of-1.g4.e7.manifest", "ps-0-of-1.g5.e7.manifest"));
  // What was ordered, and could not be written, is.
  owner_ = absl::UnavailableError("the disk is away");
  ASSERT_OK(keeper_->Order(Job(), BatchOrder(6)));
  ASSERT_TRUE(keeper_->AwaitIdle(kPatience));
  owner_ = absl::OkStatus();
  ASSERT_OK(keeper_->Flush(kPatience));
  EXPECT_EQ(StatusOf("a-1").generation(), 6u);
}

}  // namespace
}  // namespace monsoon
