// A run of control calls (FuzzCalls) to a shard with a small memory budget that keeps state
// on a simulated disk. Each is answered, with an error of a kind that its caller can act
// on; what the shard holds stays within its budget, and is given back with the jobs; what
// it has written it can read.
//
// With the first flag a call begins as a right one, into which the input is merged; with
// the second one its layout hash and the epoch in it are made right, so that what lies
// behind these checks is reached.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/base/check.h"
#include "common/base/status.h"
#include "common/base/xxh3.h"
#include "common/checkpoint/checkpoint.h"
#include "common/memory/aligned_floats.h"
#include "common/model/parameter_layout.h"
#include "common/storage/simulated_storage.h"
#include "common/testing/fuzz/fuzz_answer.h"
#include "common/testing/fuzz/fuzz_calls.h"
#include "common/transport/frame/frame_codec.h"
#include "proto/optimizer.pb.h"
#include "ps_server/checkpoint/checkpoint_keeper.h"
#include "ps_server/checkpoint/kept_parts.h"
#include "ps_server/shard/shard.h"

namespace monsoon {
namespace {

constexpr uint64_t kMemoryBytes = 1 << 20;
constexpr size_t kMostCalls = 32;
constexpr char kJob[] = "job-1";
constexpr size_t kSliceFloats = 64;
constexpr char kStateDir[] = "/state";
constexpr absl::Duration kPatience = absl::Seconds(30);

void CheckAnswer(const absl::Status& status) { CHECK_OK(JudgeFuzzAnswer(status)); }

// Two stripes of 32 floats.
CreateShardJobRequest RightCreate() {
  CreateShardJobRequest request;
  request.set_job(kJob);
  request.mutable_model()->add_input_shape(8);
  Dense* const dense = request.mutable_model()->add_layer()->mutable_dense();
  dense->set_units(8);
  dense->set_no_bias(true);
  request.mutable_optimizer()->mutable_adagrad()->set_rate(0.1);
  request.set_shards(1);
  request.set_max_stripe_bytes(128);
  return request;
}

void SetRightHash(CreateShardJobRequest* request) {
  if (const auto layout = ParameterLayout::Create(request->model()); layout.ok()) {
    request->set_layout_hash(layout->Hash());
  }
}

class World {
 public:
  World() { Restart(); }

  // The shard's next life.
  void Restart() {
    keeper_.reset();
    shard_ = std::make_unique<Shard>(ShardOptions{"fuzz", 0, ++epoch_, kMemoryBytes});
    keeper_ = std::make_unique<CheckpointKeeper>(
        CheckpointKeeperOptions{.state_dir = kStateDir,
                                .check_owner = [] { return absl::OkStatus(); }},
        &storage_);
    CHECK_EQ(Used(), 0u);
  }

  void Serve(const FuzzCall& call) {
    switch (call.kind % 11) {
      case 0: {
        auto request = Read(call, RightCreate());
        if (request && call.flag(1)) {
          SetRightHash(&*request);
        }
        return Answer(request, [&] { return shard_->CreateJob(*request).status(); });
      }
      case 1: {
        RestoreShardJobRequest right;
        *right.mutable_create() = RightCreate();
        auto request = Read(call, right);
        if (request && call.flag(1)) {
          SetRightHash(request->mutable_create());
        }
        return Answer(request, [&] { return keeper_->Restore(shard_.get(), *request).status(); });
      }
      case 2: {
        const auto request = Read(call, DeleteOf(kJob, 0));
        return Answer(request, [&] { return Delete(*request); });
      }
      case 3: {
        OpenSessionRequest right;
        *right.mutable_session() = RightSession();
        const auto request = Read(call, right);
        return Answer(request, [&] { return Open(*request); });
      }
      case 4: {
        CloseSessionRequest right;
        *right.mutable_session() = RightSession();
        const auto request = Read(call, right);
        return Answer(request, [&] { return Close(*request); });
      }
      case 5: {
        CheckpointRequest right;
        right.set_job(kJob);
        right.set_generation(1);
        const auto request = Read(call, right);
        return Answer(request, [&] { return Checkpoint(*request); });
      }
      case 6: {
        VectorRequest right;
        right.set_job(kJob);
        right.set_op_id(1);
        auto request = Read(call, right);
        if (request && call.flag(1)) {
          request->set_shard_epoch(epoch_);
        }
        return Answer(request, [&] { return shard_->Vector(*request).status(); });
      }
      case 7: {
        const auto request = Read(call, ShardStatusRequest());
        return Answer(request, [&] { return shard_->GetStatus(*request).status(); });
      }
      case 8: {
        MarksRequest right;
        *right.mutable_session() = RightSession();
        right.set_stripe_count(2);
        auto request = Read(call, right);
        if (request && call.flag(1)) {
          request->set_layout_hash(RightHash());
        }
        return Answer(request, [&] { return shard_->Marks(*request).status(); });
      }
      case 9:
        return Restart();
      default:
        return Adopt(call);
    }
  }

  // With the second flag after a session has written it whole.
  void Adopt(const FuzzCall& call) {
    AdoptRequest right;
    right.set_job(kJob);
    right.set_write(1);
    const auto request = Read(call, right);
    if (request && call.flag(1)) {
      CheckAnswer(WriteWhole(request->write()));
    }
    Answer(request, [&] { return shard_->Adopt(*request).status(); });
  }

  // All jobs are deleted: nothing is left of them.
  void End() {
    while (true) {
      const ShardStatusReply status = *shard_->GetStatus({});
      if (status.job().empty()) {
        break;
      }
      for (const ShardJobStatus& job : status.job()) {
        DeleteShardJobRequest request = DeleteOf(job.job(), job.job_term());
        request.set_term(UINT64_MAX);
        CHECK_OK(Delete(request));
      }
    }
    CHECK_EQ(Used(), 0u);
  }

 private:
  static SessionKey RightSession() {
    SessionKey session;
    session.set_job(kJob);
    session.set_worker(1);
    session.set_incarnation(1);
    return session;
  }

  static DeleteShardJobRequest DeleteOf(const std::string& job, uint64_t job_term) {
    DeleteShardJobRequest request;
    request.set_job(job);
    request.set_job_term(job_term);
    return request;
  }

  static uint64_t RightHash() {
    CreateShardJobRequest create = RightCreate();
    SetRightHash(&create);
    return create.layout_hash();
  }

  // Zeros, for the parameters and a slot of state, and their seal: of a job that is as RightCreate
  // says but for what it does with pushes.
  absl::Status WriteWhole(uint64_t number) {
    WriteRequest request;
    *request.mutable_session() = RightSession();
    request.set_layout_hash(RightHash());
    request.set_writer(number);
    const std::vector<float> zeros(2 * kSliceFloats);
    const ByteChunk slice = std::as_bytes(std::span(zeros).first(kSliceFloats));
    for (uint32_t stripe = 0; stripe < 2; ++stripe) {
      request.add_record()->set_stripe(stripe);
      request.mutable_record(static_cast<int>(stripe))
          ->set_length(kSliceFloats / 2 * sizeof(float));
    }
    for (uint32_t slot = 0; slot < 2; ++slot) {
      request.set_slot(slot);
      ChunkCursor cursor({&slice, 1});
      RETURN_IF_ERROR(shard_->Write(request, &cursor, &scratch_).status());
    }
    request.clear_record();
    request.mutable_seal()->set_checksum(Xxh3::Of(std::as_bytes(std::span(zeros))));
    ChunkCursor nothing({});
    return shard_->Write(request, &nothing, &scratch_).status();
  }

  uint64_t Used() const { return shard_->GetStatus({})->memory_used_bytes(); }

  // Nothing for what gRPC would not have taken for a message.
  template <typename Request>
  static std::optional<Request> Read(const FuzzCall& call, const Request& right) {
    Request request;
    if (call.flag(0)) {
      request = right;
    }
    return request.MergeFromString(call.message) ? std::optional(std::move(request)) : std::nullopt;
  }

  template <typename Request, typename Call>
  void Answer(const std::optional<Request>& request, Call call) {
    if (request.has_value()) {
      CheckAnswer(call());
    }
    CHECK_LE(Used(), kMemoryBytes);
  }

  // As the service does.
  absl::Status Delete(const DeleteShardJobRequest& request) {
    const absl::Status status =
        shard_->DeleteJob(request.job(), request.job_term(), request.term(), request.call());
    return status.ok() ? keeper_->Delete(request.job(), request.job_term()) : status;
  }

  absl::Status Open(const OpenSessionRequest& request) {
    return shard_->OpenSession(request.session(), request.term(), request.call(), request.member())
        .status();
  }

  absl::Status Close(const CloseSessionRequest& request) {
    return shard_->CloseSession(request.session(), request.term(), request.call()).status();
  }

  absl::Status Checkpoint(const CheckpointRequest& request) {
    absl::StatusOr<std::shared_ptr<ShardJob>> job = shard_->StartCheckpoint(request);
    if (!job.ok()) {
      return job.status();
    }
    const std::string folder =
        JobFolder(kStateDir, (*job)->request().job(), (*job)->request().job_term());
    const absl::Status status = keeper_->Order(*std::move(job), request);
    CHECK(keeper_->AwaitIdle(kPatience));
    CheckParts(folder);
    return status;
  }

  void CheckParts(const std::string& folder) const {
    const std::vector<OwnPart> parts = *ListOwnParts(storage_, folder, 0);
    for (const OwnPart& found : parts) {
      CHECK(found.whole);
      const auto part = PartReader::Open(&storage_, found.files.manifest);
      CHECK_OK(part.status());
      CHECK_OK((*part)->Verify());
    }
  }

  AlignedFloats scratch_{2 * kSliceFloats};
  SimulatedStorage storage_;
  uint64_t epoch_ = 6;
  std::unique_ptr<Shard> shard_;
  std::unique_ptr<CheckpointKeeper> keeper_;
};

}  // namespace
}  // namespace monsoon

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  monsoon::FuzzCalls calls(data, size);
  monsoon::World world;
  for (size_t i = 0; i < monsoon::kMostCalls; ++i) {
    const std::optional<monsoon::FuzzCall> call = calls.Next();
    if (!call.has_value()) {
      break;
    }
    world.Serve(*call);
  }
  world.End();
  return 0;
}
