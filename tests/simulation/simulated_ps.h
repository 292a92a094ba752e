// SimulatedPs: ps/i of a simulated cluster: the real Shard and CheckpointKeeper on a disk
// that outlives the process. Calls run in virtual time; the keeper's thread writes while
// the caller waits.
//
// What must not happen fails the running test. Not thread safe.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/storage/simulated_storage.h"
#include "common/transport/frame/frame_codec.h"
#include "common/transport/frame/frame_server.h"
#include "coordinator/shards/shard_gateway.h"
#include "proto/journal_mark.pb.h"
#include "ps_server/checkpoint/checkpoint_keeper.h"
#include "ps_server/checkpoint/heard_journal.h"
#include "ps_server/server/shard_frame_handler.h"
#include "ps_server/shard/shard.h"
#include "tests/simulation/applied_log.h"
#include "tests/simulation/simulated_marks.h"
#include "tests/simulation/world.h"

namespace monsoon::simulation {

class SimulatedPs : public ShardGateway {
 public:
  SimulatedPs(World* world, uint32_t index, uint32_t stripes);

  SimulatedProcess process;

  void Start();
  // It takes no more pushes, and is to end soon.
  void Drain() { shard_->StartDraining(); }
  // It is about to die, and does not keep of which journal it has heard.
  bool WillForget() const;
  // `rot`: a bit of the newest part turns over, if there is an older one.
  void Kill(bool power_cut, bool rot);
  // The same in the middle of the next part, after so many operations of the disk; `then`
  // follows.
  void DieInWrite(uint32_t operations, std::function<void()> then) {
    disk_.dies_in = operations;
    disk_.then = std::move(then);
  }
  void DelayWrites(absl::Duration delay) { disk_.delay = delay; }

  // A copy of the state folder is put by.
  void BackUp();
  // The process dies, and its next life finds the copy in place of its state folder, or an empty
  // folder where there is none.
  void TakeBackup(bool empty);
  // The process dies, and its next life finds its own folder again. False, and nothing happens,
  // where it is there, or the slice has gone on from the copy.
  bool PutFolderBack();
  void FillDisk(bool full);
  // The disk is as it should be.
  void Heal();

  // It knows of no copy of its folder, or has gone on from one.
  bool has_own_folder() const { return !own_.has_value(); }
  // Of which journal it has heard; only while it lives.
  HeardJournal* heard() { return kept_.heard.get(); }

  // What the coordinator asks.
  absl::StatusOr<ShardStatusReply> GetStatus() override;
  absl::StatusOr<CreateShardJobReply> CreateJob(const CreateShardJobRequest& request) override;
  absl::StatusOr<RestoreShardJobReply> RestoreJob(const RestoreShardJobRequest& request) override;
  absl::Status DeleteJob(const std::string& job, uint64_t job_term, uint64_t term,
                         uint64_t call) override;
  absl::StatusOr<OpenSessionReply> OpenSession(const SessionKey& session, uint64_t term,
                                               uint64_t call,
                                               const MemberIdentity& member) override;
  absl::StatusOr<CloseSessionReply> CloseSession(const SessionKey& session, uint64_t term,
                                                 uint64_t call) override;
  absl::Status Checkpoint(const CheckpointRequest& request) override;
  absl::Status ReduceRate(const ReduceRateRequest& request) override;
  absl::StatusOr<ChangeSettingsReply> ChangeSettings(const ChangeSettingsRequest& request) override;
  absl::StatusOr<VectorReply> Vector(const VectorRequest& request) override;

  // A frame that a worker has sent; the answers.
  std::vector<std::string> Serve(const std::string& frame);

  // It is there, has the slice, and would apply a push of the session.
  bool IsOpen(const SessionKey& session);
  uint32_t index() const { return index_; }
  const AppliedLog& log() const { return log_; }
  uint64_t power_cuts() const { return power_cuts_; }
  // The part that rotted last; "": none did.
  const std::string& rotten() const { return rotten_; }
  // False: it was started anew since the job's end.
  bool HasSlice() const { return process.alive && Slice() != nullptr; }
  std::vector<float> Parameters();
  // The slice must be what follows from the log, bit by bit.
  void CheckBits();
  // A power cut; the next life finds the slice on its disk.
  void Revive();

 private:
  // Of the virtual time.
  class ShardClock : public Clock {
   public:
    explicit ShardClock(const World* world) : world_(world) {}
    absl::Duration Now() const override { return world_->time.now(); }
    absl::Time WallTime() const override { return absl::UnixEpoch() + Now(); }

   private:
    const World* const world_;
  };

  // Of a frame that was served: what it has applied goes to the log.
  void NotePush(const PushRequest& push, ChunkCursor* payload, const PushReply& reply);
  uint64_t NewestRound(uint32_t stripe) const;
  void Write(std::shared_ptr<ShardJob> job, const CheckpointRequest& order);
  void Rot();
  std::shared_ptr<ShardJob> Slice() const;
  // Of each stripe what the part says that it was restored from.
  std::vector<StripeRecord> RecordsOf(const RestoreShardJobReply& restored) const;
  // The slice begins so, from whichever folder.
  void Begin(const std::vector<StripeRecord>& records);

  struct StateFolder {
    std::unique_ptr<SimulatedStorage> storage;
    SimulatedMarks marks;
  };

  World* const world_;
  const uint32_t index_;
  StateFolder folder_;
  std::optional<StateFolder> backup_;
  std::optional<StateFolder> own_;  // while another one is in its place
  AppliedLog log_;
  CreateShardJobRequest create_;  // of the job's slice
  const ShardClock clock_{world_};
  std::unique_ptr<Shard> shard_;
  std::unique_ptr<ShardFrameHandler> handler_;
  std::unique_ptr<FrameServer> frames_;
  struct {
    std::unique_ptr<CheckpointKeeper> parts;
    std::unique_ptr<HeardJournal> heard;
  } kept_;  // in folder_, by this life
  struct {
    bool is_full = false;
    absl::Duration delay;             // of each part
    std::optional<uint32_t> dies_in;  // so many operations of the next part
    std::function<void()> then;
  } disk_;
  uint64_t good_parts_ = 0;  // written since a bit of one rotted
  std::string rotten_;
  uint64_t power_cuts_ = 0;
  // A batch has begun: what the slice holds does not follow from pushes any more.
  bool batch_began_ = false;
};

}  // namespace monsoon::simulation
