// What the coordinator's state machine wants a shard to do. The driver carries
// commands out, in order per shard, and brings each result back.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "proto/member_identity.pb.h"
#include "proto/parameter_server.pb.h"
#include "proto/tensor.pb.h"

namespace monsoon {

// "ps/N".
inline std::string ShardName(uint32_t shard) { return absl::StrCat("ps/", shard); }

struct ShardCommand {
  enum class Kind {
    kCreateJob,
    kDeleteJob,
    kOpenSession,
    kCloseSession,
    kCheckpoint,
    kRestoreJob,
    kReduceRate,
    kAdopt,
    kChangeSettings,
  };
  Kind kind = Kind::kCreateJob;
  uint32_t shard = 0;
  // Whose it is, who gets the answer: the place in the order of the controllers.
  uint32_t owner = 0;
  std::string job;
  uint64_t job_term = 0;
  uint64_t term = 0;  // of the coordinator
  // Rises with each command of the term. kCreateJob with `replace` is two calls: this one
  // and the one before.
  uint64_t call = 0;
  SessionKey session;              // kOpenSession, kCloseSession
  MemberIdentity member;           // kOpenSession: whose the session is
  CreateShardJobRequest create;    // kCreateJob
  CheckpointRequest checkpoint;    // kCheckpoint
  RestoreShardJobRequest restore;  // kRestoreJob
  ReduceRateRequest reduce;        // kReduceRate
  AdoptRequest adopt;              // kAdopt
  ChangeSettingsRequest settings;  // kChangeSettings
  // kRestoreJob, kReduceRate, kAdopt, kChangeSettings: the life of the shard that it is for
  uint64_t shard_epoch = 0;
  // kCreateJob: the shard holds a slice of this name and term, perhaps with other
  // parameters than the initial ones. It is deleted first.
  bool replace = false;
};

// What came of it.
struct ShardAnswer {
  absl::Status status;
  uint64_t shard_epoch = 0;       // kCreateJob
  uint64_t session_applied = 0;   // kOpenSession: records that the session has applied there
  CloseSessionReply closed;       // kCloseSession
  RestoreShardJobReply restored;  // kRestoreJob
  uint64_t version = 0;           // kChangeSettings: as ChangeSettingsReply
};

}  // namespace monsoon
