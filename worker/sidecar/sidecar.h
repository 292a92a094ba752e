// Sidecar: what stands between a program that trains a model of its own and the cluster,
// from the program's first call to its last: the job is entered, sessions are run, and the
// program hears how the job ended.
//
// Thread safety: none; one thread calls Run.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/mutex.h"
#include "common/process/unique_fd.h"
#include "common/transport/frame/frame_transport.h"
#include "coordinator/client/replica_client.h"
#include "proto/coordinator.pb.h"
#include "ps_server/client/parameter_client.h"
#include "worker/session/session_host.h"
#include "worker/sidecar/enter_job.h"
#include "worker/sidecar/program.h"
#include "worker/sidecar/program_runner.h"

namespace monsoon {

class Tls;

class Sidecar {
 public:
  // Of a simulation, which has a network of its own; by default it is the kernel's, and the number
  // is drawn.
  struct Surroundings {
    uint64_t guest = 0;  // the program's number; 0: drawn
    std::function<std::unique_ptr<ReplicaClient>(absl::Duration deadline)> make_client;
    // `session` is empty for what belongs to none.
    std::function<std::unique_ptr<FrameTransport>(const SessionKey& session)> make_transport;
    uint64_t replay_window_bytes = 0;
    // How this user proves who he is to the coordinator at `address`; null: to nobody.
    std::function<absl::StatusOr<std::shared_ptr<Tls>>(const std::string& address)> find_tls;
  };

  explicit Sidecar(std::unique_ptr<Program> program) : Sidecar(std::move(program), {}) {}
  Sidecar(std::unique_ptr<Program> program, Surroundings surroundings);
  ~Sidecar();

  // Serves the program until it leaves. An error says what went wrong where the program
  // could not be told.
  absl::Status Run();

 private:
  // kJoin to its answer.
  absl::Status Join();
  // Until the program may train, or has to be told that the job has ended; its initial parameters
  // are written if that is its turn. `begun`: it has called monsoon_begin. CANCELLED when it
  // leaves.
  absl::Status AwaitTurn(bool begun);
  // The same once more, of a program that may train already: a shard has lost what was written,
  // before anybody has trained. How that went wrong is noted.
  void EnterAgain();
  // Sessions, until the job has ended or the program leaves. How it has ended (OK: well), or
  // why this program cannot be in it; nothing: the program leaves.
  std::optional<absl::Status> Train();
  // Tells the program, until it leaves.
  absl::Status TellEnd(const absl::Status& end);
  absl::Status FetchFinal();
  // Rows of tables, after the job's end.
  void AnswerFinalRows(const Message& call);
  // What other threads have said since it was asked last.
  struct Words {
    std::optional<absl::Status> end;  // this one stays
    bool enters_again = false;
  };
  Words TakeWords();
  bool told_of_end();
  void NoteEnd(const absl::Status& end);
  void Wake() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::unique_ptr<ReplicaClient> MakeClient(absl::Duration deadline) const;
  // For what belongs to no session; null: the client's own.
  std::function<std::unique_ptr<FrameTransport>()> TransportOfNoSession() const;

  const Surroundings surroundings_;
  const std::unique_ptr<Program> program_;
  std::string address_;
  bool halves_ = false;  // the program's vectors are of BFLOAT16
  uint64_t replay_window_bytes_ = 0;
  std::shared_ptr<Tls> tls_;  // as of MakeChannel
  std::unique_ptr<ReplicaClient> work_;
  std::unique_ptr<ReplicaClient> heartbeats_;
  std::unique_ptr<ReplicaClient> entering_;
  std::unique_ptr<EnterJob> enter_;
  std::unique_ptr<ProgramRunner> runner_;
  std::unique_ptr<SessionHost> host_;
  std::unique_ptr<ParameterClient> final_;  // reads what has ended
  const uint64_t guest_;
  const UniqueFd woken_;  // readable while there are words
  Mutex mutex_;
  std::optional<absl::Status> end_ ABSL_GUARDED_BY(mutex_);
  bool enters_again_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace monsoon
