// All that a server's threads do to one shard at once, without gRPC.
#include <algorithm>
#include <atomic>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "common/base/xxh3.h"
#include "common/model/parameter_layout.h"
#include "common/testing/status_matchers.h"
#include "gtest/gtest.h"
#include "proto/optimizer.pb.h"
#include "ps_server/shard/shard.h"

namespace monsoon {
namespace {

constexpr size_t kStripe = 256;  // floats
constexpr uint32_t kStripes = 4;
constexpr uint64_t kEpoch = 9;
constexpr uint64_t kPushes = 300;

CreateShardJobRequest MakeJob(const std::string& name) {
  CreateShardJobRequest request;
  request.set_job(name);
  request.mutable_model()->add_input_shape(32);
  Dense* dense = request.mutable_model()->add_layer()->mutable_dense();
  dense->set_units(32);
  dense->set_no_bias(true);
  request.mutable_optimizer()->mutable_sgd()->set_rate(1.0);
  request.set_shards(1);
  request.set_max_stripe_bytes(kStripe * sizeof(float));
  request.set_layout_hash(ParameterLayout::Create(request.model())->Hash());
  request.set_written_by_client(true);
  return request;
}

// Pushes -1 everywhere, so that every value of a stripe equals its version.
uint64_t PushAll(Shard* shard, const SessionKey& session, uint64_t hash) {
  AlignedFloats scratch(kMaxFramePayloadBytes / sizeof(float));
  const std::vector<float> payload(kStripe * kStripes, -1.0f);
  uint64_t applied = 0;
  for (uint64_t sequence = 1; sequence <= kPushes; ++sequence) {
    PushRequest request;
    *request.mutable_session() = session;
    request.set_layout_hash(hash);
    for (uint32_t stripe = 0; stripe < kStripes; ++stripe) {
      PushRecord* record = request.add_record();
      record->set_stripe(stripe);
      record->set_sequence(sequence);
      record->set_shard_epoch(kEpoch);
      record->set_length(kStripe * sizeof(float));
    }
    const ByteChunk chunk = std::as_bytes(std::span(payload));
    ChunkCursor cursor(std::span(&chunk, 1));
    const absl::StatusOr<PushReply> reply = shard->Push(request, &cursor, &scratch);
    EXPECT_OK(reply);
    for (const PushVerdict& verdict : reply->verdict()) {
      if (verdict.verdict() == APPLIED) {
        ++applied;
      } else {
        EXPECT_EQ(verdict.verdict(), REFUSED_SESSION);
      }
    }
  }
  return applied;
}

TEST(ShardConcurrencyTest, PushesFetchesSessionsStatusAndJobsAtOnce) {
  Shard shard({"test", 0, kEpoch, /*memory_limit_bytes=*/1 << 20});
  const CreateShardJobRequest request = MakeJob("job-1");
  ASSERT_OK(shard.CreateJob(request));
  constexpr uint32_t kWorkers = 3;
  std::vector<SessionKey> sessions(kWorkers);
  for (uint32_t worker = 0; worker < kWorkers; ++worker) {
    sessions[worker].set_job("job-1");
    sessions[worker].set_worker(worker);
    sessions[worker].set_incarnation(1);
    ASSERT_OK(shard.OpenSession(sessions[worker]));
  }
  std::atomic<uint64_t> applied{0};
  std::atomic<uint64_t> closed_applied{0};
  std::atomic<uint32_t> running{kWorkers};
  std::vector<std::jthread> threads;
  for (const SessionKey& session : sessions) {
    threads.emplace_back([&, session] {
      applied += PushAll(&shard, session, request.layout_hash());
      --running;
    });
  }
  threads.emplace_back([&] {  // one worker's lease is lost on the way
    while (shard.GetStatus({})->job(0).version_max() < kPushes / 4) {
      std::this_thread::yield();
    }
    closed_applied = shard.CloseSession(sessions[0])->applied();
  });
  threads.emplace_back([&] {  // another job comes and goes
    while (running > 0) {
      EXPECT_OK(shard.CreateJob(MakeJob("job-2")));
      EXPECT_OK(shard.DeleteJob("job-2"));
    }
  });
  AlignedFloats copy(kStripe * kStripes);
  while (running > 0) {
    const auto copied = shard.FindJob("job-1")->fetches()->CopyStripes(SessionId{1, 1}, 0, kStripes,
                                                                       nullptr, FLOAT32, &copy);
    ASSERT_OK(copied);
    for (uint32_t stripe = 0; stripe < kStripes; ++stripe) {
      for (size_t i = 0; i < kStripe; ++i) {
        ASSERT_EQ(copy.span()[stripe * kStripe + i],
                  static_cast<float>(copied->records[stripe].version()));
      }
    }
  }
  threads.clear();
  const ShardJobStatus status = shard.GetStatus({})->job(0);
  EXPECT_EQ(status.applied(), applied);
  EXPECT_EQ(applied, (kWorkers - 1) * kPushes * kStripes + closed_applied);
  EXPECT_EQ(status.refused(), kPushes * kStripes - closed_applied);
}

// One stripe of a contribution whose values are its id plus 1.
Verdict ContributeStripe(Shard* shard, const ContributeRequest& contribution, uint32_t stripe,
                         AlignedFloats* scratch) {
  ContributeRequest request = contribution;
  ContributeRecord* record = request.add_record();
  record->set_stripe(stripe);
  record->set_shard_epoch(kEpoch);
  record->set_length(kStripe * sizeof(float));
  const std::vector<float> payload(kStripe, static_cast<float>(request.contribution() + 1));
  const ByteChunk chunk = std::as_bytes(std::span(payload));
  ChunkCursor cursor(std::span(&chunk, 1));
  const absl::StatusOr<PushReply> reply = shard->Contribute(request, &cursor, scratch);
  EXPECT_OK(reply);
  return reply.ok() ? reply->verdict(0).verdict() : VERDICT_UNSPECIFIED;
}

// A driver runs evaluations while replicas send every contribution twice over,
// and a reader copies the vectors that the driver frees.
TEST(ShardConcurrencyTest, EvaluationsContributionsAndReadersAtOnce) {
  constexpr uint32_t kWorkers = 3;
  constexpr uint32_t kContributions = 6;
  constexpr uint64_t kEvaluations = 15;
  Shard shard({"test", 0, kEpoch, /*memory_limit_bytes=*/1 << 20});
  const CreateShardJobRequest job = MakeJob("job-1");
  ASSERT_OK(shard.CreateJob(job));
  std::atomic<uint64_t> evaluation{0};  // that is open; UINT64_MAX: all are done
  std::atomic<uint64_t> applied{0};
  std::vector<std::jthread> threads;
  for (uint32_t worker = 0; worker < kWorkers; ++worker) {
    ContributeRequest request;
    request.mutable_session()->set_job("job-1");
    request.mutable_session()->set_worker(worker);
    request.mutable_session()->set_incarnation(1);
    request.set_layout_hash(job.layout_hash());
    ASSERT_OK(shard.OpenSession(request.session()));
    threads.emplace_back([&, request, worker]() mutable {
      AlignedFloats scratch(kMaxFramePayloadBytes / sizeof(float));
      uint64_t current = 0;
      while ((current = evaluation) != UINT64_MAX) {
        request.set_evaluation(std::max<uint64_t>(1, current));
        for (uint32_t i = 0; i < kContributions * kStripes; ++i) {
          request.set_contribution((i + worker) % kContributions);
          const Verdict verdict = ContributeStripe(&shard, request, i / kContributions, &scratch);
          applied += verdict == APPLIED ? 1 : 0;
          EXPECT_TRUE(verdict == APPLIED || verdict == DUPLICATE || verdict == REFUSED_CLOSED);
        }
      }
    });
  }
  threads.emplace_back([&] {
    AlignedFloats copy(kStripe * kStripes);
    while (evaluation != UINT64_MAX) {
      const std::shared_ptr<ShardJob> held = shard.FindJob("job-1");
      const auto vector = held->vectors()->Find("g");
      if (vector.ok()) {
        ASSERT_OK(held->fetches()->CopyStripes(SessionId{1, 1}, 0, kStripes, vector->get(), FLOAT32,
                                               &copy));
        EXPECT_EQ(copy.span()[kStripe], 21.0f);  // 1 + ... + 6
      }
    }
  });
  uint64_t id = 0;
  const auto run = [&](VectorRequest request) {
    request.set_job("job-1");
    request.set_shard_epoch(kEpoch);
    request.set_op_id(id + 1);
    const absl::Status status = shard.Vector(request).status();
    id += status.ok() ? 1 : 0;
    return status;
  };
  for (uint64_t e = 1; e <= kEvaluations; ++e) {
    VectorRequest open;
    open.add_free("g");
    open.mutable_open_evaluation()->set_evaluation(e);
    open.mutable_open_evaluation()->set_contributions(kContributions);
    ASSERT_OK(run(open));
    evaluation = e;
    VectorRequest close;
    close.mutable_close_evaluation()->set_evaluation(e);
    close.mutable_close_evaluation()->set_out("g");
    close.mutable_close_evaluation()->set_factor(1.0);
    absl::Status status = run(close);
    while (absl::IsFailedPrecondition(status)) {  // not complete yet
      std::this_thread::yield();
      status = run(close);
    }
    EXPECT_OK(status);
  }
  evaluation = UINT64_MAX;
  threads.clear();
  EXPECT_EQ(applied, kEvaluations * kContributions * kStripes);
}

// One slot of a write: its number everywhere, and half more in the state.
absl::Status WriteSlot(Shard* shard, WriteRequest request, uint32_t slot, AlignedFloats* scratch) {
  request.set_slot(slot);
  request.set_set_version(true);
  for (uint32_t stripe = 0; stripe < kStripes; ++stripe) {
    FetchRecord* const record = request.add_record();
    record->set_stripe(stripe);
    record->set_length(kStripe * sizeof(float));
    record->set_version(request.writer());
  }
  const std::vector<float> values(
      kStripes * kStripe, static_cast<float>(request.writer()) + 0.5f * static_cast<float>(slot));
  const ByteChunk chunk = std::as_bytes(std::span(values));
  ChunkCursor cursor({&chunk, 1});
  return shard->Write(request, &cursor, scratch).status();
}

// Of parameters and a slot of state.
absl::Status SealWrite(Shard* shard, WriteRequest request, AlignedFloats* scratch) {
  Xxh3 hash;
  for (const float slot : {0.0f, 0.5f}) {
    const std::vector<float> values(kStripes * kStripe,
                                    static_cast<float>(request.writer()) + slot);
    hash.Add(std::as_bytes(std::span(values)));
  }
  request.mutable_seal()->set_checksum(hash.Digest());
  ChunkCursor nothing({});
  return shard->Write(request, &nothing, scratch).status();
}

class ShardStoreConcurrencyTest : public ::testing::Test {
 protected:
  ShardStoreConcurrencyTest() {
    CreateShardJobRequest create = MakeJob("job-1");
    create.mutable_optimizer()->mutable_momentum()->set_rate(0.1);
    create.set_store_only(true);
    EXPECT_OK(shard_.CreateJob(create));
    request_.mutable_session()->set_job("job-1");
    request_.mutable_session()->set_worker(1);
    request_.mutable_session()->set_incarnation(1);
    request_.set_layout_hash(create.layout_hash());
    EXPECT_OK(shard_.OpenSession(request_.session()));
    job_ = shard_.FindJob("job-1");
  }

  // Written, sealed and adopted, whatever is cut meanwhile.
  void Store(uint64_t number) {
    request_.set_writer(number);
    ASSERT_OK(WriteSlot(&shard_, request_, 0, &scratch_));
    ASSERT_OK(WriteSlot(&shard_, request_, 1, &scratch_));
    ASSERT_OK(SealWrite(&shard_, request_, &scratch_));
    AdoptRequest adopt;
    adopt.set_job("job-1");
    adopt.set_write(number);
    absl::Status adopted = shard_.Adopt(adopt).status();
    while (absl::IsUnavailable(adopted)) {
      std::this_thread::yield();
      adopted = shard_.Adopt(adopt).status();
    }
    ASSERT_OK(adopted);
  }
  // Each stripe is of one write, whose version it has.
  void ReadStripes() {
    AlignedFloats copy(kStripe * kStripes);
    for (const uint32_t slot : {0u, 1u}) {
      const auto copied =
          job_->fetches()->CopyStripes(SessionId{1, 1}, 0, kStripes, nullptr, FLOAT32, &copy, slot);
      ASSERT_OK(copied);
      for (uint32_t stripe = 0; stripe < kStripes; ++stripe) {
        const float expected =
            static_cast<float>(copied->records[stripe].version()) + 0.5f * static_cast<float>(slot);
        EXPECT_TRUE(std::ranges::all_of(copy.span().subspan(stripe * kStripe, kStripe),
                                        [&](float value) { return value == expected; }));
      }
    }
  }
  // All stripes, and their state, are of one write.
  void Cut() {
    const SpareRoom::CutScope one_write(job_->spare());
    AlignedFloats parameters(kStripe), state(kStripe);
    const uint64_t number = job_->spare()->adopted();
    for (uint32_t stripe = 0; stripe < kStripes; ++stripe) {
      const StripeRecord cut =
          job_->checkpoint()->CutStripe(stripe, parameters.span(), state.span());
      EXPECT_EQ(cut.version(), number);
      EXPECT_EQ(parameters.span()[7], static_cast<float>(number));
      EXPECT_EQ(state.span()[7], static_cast<float>(number) + 0.5f);
      std::this_thread::yield();  // as where a disk is waited for
    }
  }

  Shard shard_{{"test", 0, kEpoch, /*memory_limit_bytes=*/1 << 20}};
  WriteRequest request_;
  AlignedFloats scratch_{kMaxFramePayloadBytes / sizeof(float)};
  std::shared_ptr<ShardJob> job_;
};

TEST_F(ShardStoreConcurrencyTest, AdoptionsFetchesCutsSessionsAndStatusAtOnce) {
  constexpr uint64_t kWrites = 200;
  Store(1);
  std::atomic<bool> done{false};
  std::atomic<int> cuts{0}, reads{0};
  std::vector<std::jthread> threads;
  threads.emplace_back([&] {
    while (!done) {
      ReadStripes();
      ++reads;
    }
  });
  threads.emplace_back([&] {
    // One for each write, so that there is time to adopt.
    for (uint64_t cut = 0; !done; cut = job_->spare()->adopted()) {
      Cut();
      ++cuts;
      while (!done && job_->spare()->adopted() == cut) {
        std::this_thread::yield();
      }
    }
  });
  threads.emplace_back([&] {
    SessionKey session = request_.session();
    session.set_worker(2);
    for (uint64_t incarnation = 1; !done; ++incarnation) {
      session.set_incarnation(incarnation);
      ASSERT_OK(shard_.OpenSession(session));
      ASSERT_OK(shard_.CloseSession(session));
      EXPECT_EQ(shard_.GetStatus({})->job_size(), 1);
    }
  });
  for (uint64_t number = 2; number <= kWrites || reads < 2 || cuts < 2; ++number) {
    Store(number);
  }
  done = true;
  threads.clear();
  Cut();
}

}  // namespace
}  // namespace monsoon
