#include "ps_server/testing/simulated_server.h"

#include <algorithm>
#include <span>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/checkpoint/checkpoint.h"
#include "common/testing/status_matchers.h"
#include "gtest/gtest.h"
#include "ps_server/checkpoint/restore_part.h"
#include "ps_server/checkpoint/write_part.h"

namespace monsoon {
namespace {

constexpr char kStateDir[] = "/state";
constexpr char kJob[] = "sim-1";

CreateShardJobRequest MakeCreate(uint32_t shard) {
  CreateShardJobRequest request;
  request.set_job(kJob);
  request.mutable_model()->set_name("tiny");
  request.mutable_model()->add_input_shape(16);
  Dense* const dense = request.mutable_model()->add_layer()->mutable_dense();
  dense->set_units(kSimulatedShards * kSimulatedSlice / 16);
  dense->set_no_bias(true);
  request.mutable_optimizer()->mutable_sgd()->set_rate(1.0);
  request.set_shard(shard);
  request.set_shards(kSimulatedShards);
  request.set_written_by_client(true);  // zeros
  request.set_max_stripe_bytes(kSimulatedStripe * sizeof(float));
  request.set_layout_hash(ParameterLayout::Create(request.model())->Hash());
  return request;
}

SessionKey SessionOf(uint32_t worker) {
  SessionKey session;
  session.set_job(kJob);
  session.set_worker(worker);
  session.set_incarnation(1);
  return session;
}

}  // namespace

SimulatedServer::SimulatedServer(uint32_t index)
    : index_(index),
      folder_(JobFolder(kStateDir, kJob, 0)),
      storage_(std::make_unique<SimulatedStorage>()) {
  Start();
}

void SimulatedServer::Start() {
  ++epoch_;
  shard_ = std::make_unique<Shard>(ShardOptions{"sim", index_, epoch_, 8 << 20});
  parts_ = std::make_unique<KeptParts>(folder_);
  RestoreShardJobRequest request;
  *request.mutable_create() = MakeCreate(index_);
  for (uint32_t worker = 0; worker < kSimulatedWorkers; ++worker) {
    *request.add_session() = SessionOf(worker);
  }
  const auto restore = [&](const std::shared_ptr<ShardJob>& job, std::span<const SessionId> open,
                           absl::FunctionRef<bool()> go_on) -> absl::Status {
    ASSIGN_OR_RETURN(RestoredPart part,
                     RestoreNewestPart(storage_.get(), folder_, request, open, go_on, job.get()));
    *parts_ = std::move(part.parts);
    return absl::OkStatus();
  };
  const absl::Status restored = shard_->RestoreJob(request, restore).status();
  if (!restored.ok()) {
    ASSERT_EQ(restored.code(), absl::StatusCode::kNotFound) << restored;
    // Nothing was promised before there were two.
    ASSERT_LT(written_, 2u) << restored;
    ASSERT_OK(shard_->CreateJob(MakeCreate(index_)));
  }
  for (uint32_t worker = 0; worker < kSimulatedWorkers; ++worker) {
    ASSERT_OK(shard_->OpenSession(SessionOf(worker)));
  }
}

void SimulatedServer::Checkpoint(std::optional<uint32_t> fail_at) {
  CheckpointRequest order;
  order.set_job(kJob);
  order.set_generation(++generation_);
  if (fail_at.has_value()) {
    storage_->FailAfter(*fail_at + 1, absl::UnavailableError("the disk is gone"));
  }
  const std::shared_ptr<ShardJob> job = shard_->FindJob(kJob);
  const absl::StatusOr<WrittenPart> part = WritePart(
      storage_.get(), kStateDir, *job, order, [] { return absl::OkStatus(); }, [] { return true; });
  if (part.ok()) {
    ++written_;
    job->NoteWritten(part->stripes);
    for (const PartFiles& files :
         parts_->Add(part->manifest, job->applied(), /*ordered=*/true, /*best=*/0)) {
      (void)RemovePart(storage_.get(), files);
    }
  }
  storage_->ClearFailure();
}

void SimulatedServer::Crash(bool power_cut, bool rot, Dice* dice) {
  shard_.reset();
  if (power_cut) {
    storage_ = storage_->PowerCut(dice->Below(1u << 30));
  }
  if (rot) {
    Rot(dice);
  }
}

SimulatedAnswer SimulatedServer::Serve(uint32_t worker, const SimulatedFrame& frame) {
  SimulatedAnswer answer;
  answer.epoch = epoch_;
  answer.sequence = frame.sequence;
  if (frame.bytes == nullptr) {
    TellMarks(worker, &answer);
  } else {
    Push(worker, frame, &answer);
  }
  return answer;
}

std::vector<float> SimulatedServer::Parameters() {
  AlignedFloats out(kSimulatedSlice);
  EXPECT_OK(shard_->FindJob(kJob)->CopyStripes(std::nullopt, 0, kSimulatedStripes, nullptr, FLOAT32,
                                               &out));
  return {out.span().begin(), out.span().end()};
}

void SimulatedServer::Rot(Dice* dice) {
  const auto generations = ListGenerations(storage_.get(), folder_);
  if (!generations.ok() || generations->size() < 2 || written_ < 2) {
    return;
  }
  const std::string manifest = (*generations)[0].manifest[index_];
  const auto part = PartReader::Open(storage_.get(), manifest);
  const auto older = PartReader::Open(storage_.get(), (*generations)[1].manifest[index_]);
  if (!part.ok() || !older.ok()) {
    return;
  }
  const std::string file = absl::StrCat(folder_, "/", (*part)->manifest().file());
  const auto bytes = static_cast<uint32_t>((*part)->manifest().bytes());
  storage_->CorruptByte(file, dice->Below(bytes), static_cast<int>(dice->Below(8)));
  // From here on there is one good generation, until two more are written.
  written_ = 1;
}

void SimulatedServer::TellMarks(uint32_t worker, SimulatedAnswer* answer) {
  MarksRequest request;
  *request.mutable_session() = SessionOf(worker);
  request.set_layout_hash(MakeCreate(index_).layout_hash());
  request.set_stripe_count(kSimulatedStripes);
  const absl::StatusOr<MarksReply> reply = shard_->Marks(request);
  ASSERT_OK(reply);
  answer->marks = true;
  for (const StripeMarks& stripe : reply->stripe()) {
    answer->applied = std::min<uint64_t>(answer->applied, stripe.applied());
    answer->durable = std::min<uint64_t>(answer->durable, stripe.durable());
  }
}

void SimulatedServer::Push(uint32_t worker, const SimulatedFrame& frame, SimulatedAnswer* answer) {
  PushRequest request;
  *request.mutable_session() = SessionOf(worker);
  request.set_layout_hash(MakeCreate(index_).layout_hash());
  for (uint32_t stripe = 0; stripe < kSimulatedStripes; ++stripe) {
    PushRecord* const record = request.add_record();
    record->set_stripe(stripe);
    record->set_sequence(frame.sequence);
    record->set_shard_epoch(frame.epoch);
    record->set_length(kSimulatedStripe * sizeof(float));
  }
  const std::vector<ByteChunk> chunks = {std::as_bytes(std::span(*frame.bytes))};
  ChunkCursor cursor(chunks);
  const absl::StatusOr<PushReply> reply = shard_->Push(request, &cursor, &scratch_);
  ASSERT_OK(reply);
  for (const PushVerdict& verdict : reply->verdict()) {
    if (verdict.verdict() != APPLIED && verdict.verdict() != DUPLICATE) {
      answer->verdict = verdict.verdict();
    }
    answer->durable = std::min<uint64_t>(answer->durable, verdict.durable_sequence());
  }
}

}  // namespace monsoon
