#include "ps_server/server/ps_server.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/clock.h"
#include "common/base/latest_text.h"
#include "common/base/logging.h"
#include "common/base/random_id.h"
#include "common/base/status.h"
#include "common/config/address.h"
#include "common/storage/storage.h"
#include "common/transport/frame_listener.h"
#include "ps_server/checkpoint/checkpoint_keeper.h"
#include "ps_server/checkpoint/heard_journal.h"
#include "ps_server/checkpoint/kept_revocations.h"
#include "ps_server/checkpoint/marks_folder.h"
#include "ps_server/checkpoint/state_folder.h"
#include "ps_server/server/service.h"
#include "ps_server/server/shard_frame_handler.h"
#include "ps_server/shard/shard.h"

namespace monsoon {
namespace {

// Null without a folder.
std::unique_ptr<MarksFolder> MakeMarks(const StateFolder* folder) {
  return folder == nullptr
             ? nullptr
             : std::make_unique<MarksFolder>(folder->own_folder() + "/marks", BootId());
}

// `marks` is null for a server in memory only.
ShardOptions MakeShardOptions(const PsServerOptions& options, uint64_t shard_epoch,
                              MarksFolder* marks) {
  ShardOptions shard{options.cluster, options.task, shard_epoch, options.memory_limit_bytes};
  shard.memory_limit_is = options.memory_limit_is;
  if (marks != nullptr) {
    shard.make_session_marks = [marks](const CreateShardJobRequest& create, uint32_t stripes,
                                       bool fresh) {
      return marks->OpenJob(create, stripes, fresh);
    };
  }
  return shard;
}

// Null without a folder.
std::unique_ptr<CheckpointKeeper> MakeKeeper(const PsServerOptions& options,
                                             const StateFolder* folder, MarksFolder* marks) {
  if (folder == nullptr) {
    return nullptr;
  }
  return std::make_unique<CheckpointKeeper>(
      CheckpointKeeperOptions{folder->state_dir(), options.task, options.keep_ended_jobs,
                              [folder] { return folder->CheckOwner(); },
                              [folder] { return folder->NoteWritten(); }, marks},
      PosixStorage());
}

class GrpcPsServer final : public PsServer {
 public:
  // `folder` is null for a server in memory only.
  GrpcPsServer(const PsServerOptions& options, std::unique_ptr<StateFolder> folder)
      : folder_(std::move(folder)),
        shard_epoch_(folder_ == nullptr ? RandomId() : folder_->epoch()),
        marks_(MakeMarks(folder_.get())),
        shard_(MakeShardOptions(options, shard_epoch_, marks_.get())),
        keeper_(MakeKeeper(options, folder_.get(), marks_.get())),
        journal_(PosixStorage(), folder_ == nullptr ? "" : folder_->own_folder() + "/coordinator"),
        revoked_(PosixStorage(), folder_ == nullptr ? "" : folder_->own_folder() + "/revoked",
                 Clock::Real()->WallTime()),
        handler_(&shard_),
        listener_(&handler_, {options.message_memory_bytes, options.fault, options.shared_memory}) {
    service_ = std::make_unique<ParameterServerService>(
        ParameterServerService::Parts{.shard = &shard_,
                                      .keeper = keeper_.get(),
                                      .journal = &journal_,
                                      .revoked = &revoked_,
                                      .frames = listener_.frames(),
                                      .message_memory_bytes = options.message_memory_bytes,
                                      .shared_memory = [this] { return listener_.offer(); },
                                      .trouble = &trouble_});
  }

  absl::Status Listen(const PsServerOptions& options) {
    return listener_.Listen({.address = options.address,
                             .tls = options.tls,
                             .insecure = options.insecure,
                             .membership = Guard::NotRevoked(&revoked_.keys()),
                             .on_trouble = [this](const std::string& text) { trouble_.Set(text); }},
                            service_->Calls());
  }

  const std::string& address() const override { return listener_.address(); }
  int port() const override { return listener_.port(); }
  uint64_t shard_epoch() const override { return shard_epoch_; }

  ShardStatusReply GetStatus() const override {
    absl::StatusOr<ShardStatusReply> status = shard_.GetStatus({});
    CHECK_OK(status.status());
    if (keeper_ != nullptr) {
      keeper_->FillStatus(&*status);
    }
    return *std::move(status);
  }

  void Drain(absl::Duration grace) override {
    shard_.StartDraining();
    listener_.Drain(grace);
    if (keeper_ == nullptr) {
      return;
    }
    if (const absl::Status status = keeper_->Flush(grace); !status.ok()) {
      LOG(ERROR) << "checkpoints: " << status.message();
    }
    journal_.Keep();  // last: the coordinator has told of more meanwhile
  }

 private:
  const std::unique_ptr<StateFolder> folder_;  // null: in memory only
  const uint64_t shard_epoch_;
  const std::unique_ptr<MarksFolder> marks_;  // null without a folder
  Shard shard_;
  const std::unique_ptr<CheckpointKeeper> keeper_;  // null without a folder; holds jobs of shard_
  HeardJournal journal_;
  KeptRevocations revoked_;
  ShardFrameHandler handler_;
  LatestText trouble_;                               // of its address, as listener_ says
  std::unique_ptr<ParameterServerService> service_;  // served by listener_ to its end
  FrameListener listener_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<PsServer>> PsServer::Start(const PsServerOptions& options) {
  const std::string name = absl::StrCat("ps/", options.task);
  if (options.fault.enabled() && !IsLoopback(options.address)) {
    return absl::FailedPreconditionError(
        absl::StrCat(name, ": --fault is for loopback addresses only, not ", options.address));
  }
  std::unique_ptr<StateFolder> folder;
  if (!options.state_dir.empty()) {
    absl::StatusOr<std::unique_ptr<StateFolder>> opened =
        StateFolder::Open(PosixStorage(), options.state_dir, options.task,
                          absl::ToUnixMicros(Clock::Real()->WallTime()));
    if (!opened.ok()) {
      return Annotate(opened.status(), absl::StrCat(name,
                                                    ": cannot keep its state (another "
                                                    "--state_dir, or \"\" for memory only)"));
    }
    folder = *std::move(opened);
    if (const std::string warning = WideFolderWarning(options.state_dir); !warning.empty()) {
      LOG(WARNING) << warning;
    }
  }
  auto server = std::make_unique<GrpcPsServer>(options, std::move(folder));
  if (const absl::Status status = server->Listen(options); !status.ok()) {
    return Annotate(status, name);
  }
  return server;
}

}  // namespace monsoon
