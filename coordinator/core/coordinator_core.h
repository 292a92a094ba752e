// CoordinatorCore: the coordinator as one state machine. Jobs in a first-in
// first-out queue with one running at a time on the cluster's workers, joined jobs beside
// it whose programs bring their own replicas, members, shards, sessions and
// work. What it wants of the shards it leaves in TakeCommands; the driver
// (coordinator.h) brings answers, poll results and the time.
//
// Order that recovery and exactly-once rest on:
// - a worker gets an assignment only after every shard has opened its session;
// - a lost worker's blocks are given away only after every shard has closed
//   its session;
// - a job ends only after all its sessions are closed;
// - a shard that was started anew gets the job's slice back before anything else is asked
//   of it, and without the sessions that are closed or being closed; only then do workers
//   learn of its new life;
// - a batch whose minimiser has seen anything that is gone returns to a generation that
//   all shards hold, and all of them with it;
// - a job on shards that keep state succeeds only when its last checkpoint is on the disk
//   of all of them.
//
// What must survive is in CoordinatorState, which only updates change. It never sees
// a parameter. No threads, clocks, randomness or gRPC. Not thread
// safe.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/config/job.h"
#include "coordinator/downpour/downpour_job.h"
#include "coordinator/job/checkpoint_schedule.h"
#include "coordinator/job/job_table.h"
#include "coordinator/lbfgs/minimizer.h"
#include "coordinator/sandblaster/batch_evaluator.h"
#include "coordinator/sandblaster/sandblaster_job.h"
#include "coordinator/session/membership.h"
#include "coordinator/shards/shard_command.h"
#include "coordinator/shards/shard_fanout.h"
#include "coordinator/shards/shard_monitor.h"
#include "coordinator/state/state_writer.h"
#include "proto/checkpoint.pb.h"
#include "proto/cluster.pb.h"
#include "proto/coordinator.pb.h"
#include "proto/coordinator_state.pb.h"
#include "proto/minimizer.pb.h"
#include "proto/parameter_server.pb.h"

namespace monsoon {

// When something happened: `now` for durations (never goes back), `unix_ms`
// for people.
struct Moment {
  absl::Duration now;
  int64_t unix_ms = 0;
};

// A run of a job's minimiser: between two returns to an earlier iteration.
struct BatchKey {
  std::string job;
  uint64_t attempt = 0;
};

// A batch job that waits for its minimiser's thread.
struct BatchTask {
  BatchKey batch;
  uint64_t job_term = 0;
  uint64_t term = 0;
  Job config;
  std::vector<uint64_t> shard_epochs;
  uint32_t contributions = 0;  // of a whole batch
  BatchFigures figures;        // of earlier runs
  std::optional<MinimizerState> from;
};

// How long the client of submit --init may take to write the parameters.
inline constexpr absl::Duration kInitTimeout = absl::Hours(1);
// A worker that failed so often is left out of the job.
inline constexpr int kMaxReplicaFailures = 3;
// A job that fails or is cancelled ends without its last checkpoint after so long.
inline constexpr absl::Duration kLastCheckpointPatience = absl::Seconds(5);
// So many workers may be lost while they test a job's final parameters.
inline constexpr int kMaxLostFinalTests = 5;

// The event of a job whose final parameters do no better than guessing.
inline constexpr char kAtChance[] = "at_chance";

// FAILED_PRECONDITION, with both versions, unless the program speaks as this coordinator.
absl::Status CheckProgram(const EnterRequest& request);

// With what the job resumes, if it does; `note`: what people should know of that.
DownpourOptions DownpourOptionsOf(const JobRecord& job, std::string* note);

class CoordinatorCore {
 public:
  // `cluster` has its defaults filled in.
  // `observer` gets each update of the durable state, in order; it may be null. `state`: with
  // which an earlier life ended; moment.now is not below any time in it.
  CoordinatorCore(const Cluster& cluster, uint32_t pid, Moment moment,
                  StateWriter::Observer observer = nullptr,
                  CoordinatorState state = CoordinatorState());

  // ---- for people ----
  // The answer to an earlier submission with this client id.
  std::optional<SubmitReply> FindSubmission(const std::string& client_id) const;
  // A submission whose client id is known gives its job again, and makes none.
  // INVALID_ARGUMENT for a resume point that does not fit the job. submission.unix_ms is
  // filled in here.
  absl::StatusOr<SubmitReply> Submit(const JobPlan& plan, JobTable::Submission submission,
                                     Moment moment);
  absl::StatusOr<JobSummary> Start(const std::string& job, Moment moment);
  ListReply List(Moment moment) const;
  absl::StatusOr<JobDescription> Describe(const std::string& job, Moment moment) const;
  // Safe to repeat. FAILED_PRECONDITION for a job that has ended otherwise.
  absl::StatusOr<JobSummary> Cancel(const std::string& job, Moment moment);
  // Orders a checkpoint of what is applied now. FAILED_PRECONDITION for a job that has
  // not begun to train, is kept in memory only, or has lost its parameters.
  absl::StatusOr<CheckpointOrder> Checkpoint(const std::string& job, Moment moment);
  // Begins to free the slices; the job is gone when Exists is false.
  absl::StatusOr<JobSummary> Delete(const std::string& job, Moment moment);
  // UNAVAILABLE while a shard that holds a part of the job does not answer.
  absl::StatusOr<JobLocation> Locate(const std::string& job, Moment moment) const;
  InfoReply Info() const;
  // As Membership::Drain. What its session has done stays, and the rest is others'.
  absl::StatusOr<TaskStatus> Drain(uint32_t worker);
  bool Exists(const std::string& job) const { return jobs_.Lookup(job) != nullptr; }

  // ---- for workers ----
  // `plan` is of request.job(), and CheckProgram is content. What is missing on the way is
  // told as a part to wait for. Errors: proto/coordinator.proto, and RESOURCE_EXHAUSTED as
  // for Submit.
  absl::StatusOr<EnterReply> Enter(const EnterRequest& request, const JobPlan& plan, Moment moment);
  absl::StatusOr<HeartbeatReply> Heartbeat(const HeartbeatRequest& request, Moment moment);
  using OnWait = JobProcedure::OnWait;
  absl::StatusOr<NextWorkReply> NextWork(const NextWorkRequest& request, Moment moment,
                                         OnWait on_wait = OnWait::kTell);
  absl::Status ReportEvaluation(const ReportEvaluationRequest& request, Moment moment);
  absl::Status ReportFailure(const ReportFailureRequest& request, Moment moment);

  // ---- for the minimiser's thread ----
  // The job to minimise now, once for each attempt; nothing where there is none.
  std::optional<BatchTask> TakeBatch();
  // False: the job has ended, is about to, or has returned to an earlier iteration; its
  // minimiser must stop.
  bool BatchRuns(const BatchKey& batch) const { return RunningBatch(batch) != nullptr; }
  // A checkpoint of this iteration is under way: nothing else may be published.
  bool BatchWaits(const BatchKey& batch) const;
  // CANCELLED when the batch does not run any more, as in all that follows.
  absl::Status StartEvaluation(const BatchKey& batch, uint64_t evaluation, const std::string& w,
                               bool probe, Moment moment);
  // The session's replica was told to wait, and the minimiser will have work for it
  // within milliseconds.
  bool WorkIsNear(const SessionKey& session);
  // Nothing while the evaluation is under way.
  absl::StatusOr<std::optional<BatchResult>> FinishedEvaluation(const BatchKey& batch);
  // False: the job's target is reached, and the minimiser is to stop. `state` is called
  // where a checkpoint is due.
  absl::StatusOr<bool> NoteIteration(const BatchKey& batch,
                                     const JobDescription::Iteration& iteration,
                                     const BatchFigures& figures,
                                     const MinimizerStateFunction& state, Moment moment);
  // How the minimiser ended; an error fails the job, but CANCELLED, and one that says that
  // a shard was started anew where the batch can return.
  void EndBatch(const BatchKey& batch, const absl::StatusOr<BatchEnd>& end, Moment moment);

  // ---- for the driver ----
  // A new poll round begins; its number.
  uint64_t BeginPoll() {
    look_ = false;
    return ++poll_round_;
  }
  // True: do not wait for the next heartbeat to poll.
  bool wants_poll() const;
  void OnPoll(uint32_t shard, uint64_t round, const absl::StatusOr<ShardStatusReply>& reply,
              Moment moment);
  void OnCommand(const ShardCommand& command, const ShardAnswer& answer, Moment moment);
  void Tick(Moment moment);
  // Why updates of the state cannot be kept now; "": they can.
  void NoteJournal(const std::string& trouble) { journal_trouble_ = trouble; }
  // The commands to carry out now, in order per shard.
  std::vector<ShardCommand> TakeCommands(Moment moment);
  // Lines for the log since the last call.
  std::vector<std::string> TakeLog();
  const CoordinatorState& state() const { return writer_.state(); }

 private:
  // core_jobs.cc
  JobSummary Summarize(const JobRecord& job, Moment moment) const;
  // Ids that slices on the shards have.
  std::set<std::string> TakenIds() const;
  JobLocation LocationOf(const JobRecord& job) const;
  void End(JobRecord* job, JobState state, const std::string& reason, absl::Duration now);
  void FinishEnding(JobRecord* job, absl::Duration now);

  // core_checkpoints.cc
  // "": all shards keep state. Else which ones do not.
  std::string KeepNothing() const;
  // Checkpoints of the job are made.
  bool IsDurable(const JobRecord& job) const;
  CheckpointSchedule::Activity ActivityOf(const JobRecord& job) const;
  CheckpointContext MakeContext(const JobRecord& job, const std::string& reason,
                                Moment moment) const;
  void AdvanceCheckpoints(Moment moment);
  void OrderCheckpoint(JobRecord* job, CheckpointSchedule::Activity activity, Moment moment,
                       const MinimizerStateFunction& state = nullptr);
  // Once, of a job of which only some shards keep parts.
  void TellOfMemoryOnly(JobRecord* job, absl::Duration now);
  void TakeCheckpointEvents(JobRecord* job, absl::Duration now);
  void TakeCheckpointCommands(absl::Duration now, std::vector<ShardCommand>* commands);
  void RecordCheckpoints(uint32_t shard, absl::Duration now);
  // The parameters that a client wrote cannot be made again: a job that begins with them
  // gets its first generation at once.
  void CheckpointClientsParameters(JobRecord* job);
  // Programs wrote the joined job's parameters, and no generation holds them: a shard that
  // dies takes them along, and programs that train do not write them again. So none does yet.
  bool AwaitsFirstGeneration(const JobRecord& job) const;
  // The replicas are being told to finish, or a chain's second part is to begin.
  void CheckpointBeforeLeaving(JobRecord* job);
  // The worker is gone, and its session is closed on all shards: from two generations on
  // no older one is needed, in which the session was open and its pushes were missing.
  void CheckpointAfterLoss(JobRecord* job, uint32_t worker);
  // A worker says whether it waits for its pushes to become durable.
  void NoteWaitingWorker(uint32_t worker, const HeartbeatRequest& request, absl::Duration now);
  // Somebody waits for a checkpoint. If it cannot be written, and the job says so, it goes
  // on without.
  void GiveUpStorage(JobRecord* job, absl::Duration now);
  // All replicas were told to finish, or to go on to the second part of a chain; until what
  // they have pushed is on the disk of all shards they keep it, to send it again.
  bool WaitsForLeaving(const JobRecord& job) const;
  // All is trained, and what is to be tested is not on the disks yet.
  bool WaitsForTestGeneration(const JobRecord& job) const;
  // By what its best generation is kept; a job that makes none keeps none.
  TestMetric BestOf(const JobRecord& job) const;
  // All sessions of the ending job are closed. False: its last checkpoint is awaited.
  bool LastCheckpointIsDone(JobRecord* job, absl::Duration now);
  bool WaitsForLastCheckpoint(const JobRecord& job) const;
  // "waits for WHAT: why".
  std::string CheckpointReason(const JobRecord& job, const std::string& what,
                               absl::Duration now) const;
  void DescribeDurability(const JobRecord& job, Moment moment,
                          JobDescription::Durability* durability) const;

  // core_reasons.cc
  // Why the job waits, or ended; "" while nothing is missing.
  std::string WaitReason(const JobRecord& job, Moment moment) const;
  // "": no job is ahead of this queued one.
  std::string QueueReason(const JobRecord& job, Moment moment) const;
  // Of an active job without a replica.
  std::string ReplicaReason(const JobRecord& job, absl::Duration now) const;
  std::string NoWorkerFor(const JobRecord& job, absl::Duration now) const;
  std::string AbsentWorkers(const JobRecord& job, absl::Duration now) const;
  // Of a joined job that lacks a program.
  std::string ProgramReason(const JobRecord& job) const;
  // Who writes the joined job's initial parameters, and since when.
  std::string WriterReason(const JobRecord& job, absl::Duration now) const;
  // Any number of workers that the cluster file does not list may take part.
  bool AdmitsGuests(const JobRecord& job) const {
    return job.joined() || (cluster_.open() && WantedWorkers(job.plan.job) == 0);
  }
  // Who may have a session, rising: of a joined job those that have entered it, else the
  // first of the others. The cluster file may have fewer by now.
  std::vector<uint32_t> WorkersOf(const JobRecord& job) const;
  // For people: where it listens, or whose machine it is on.
  std::string AddressOf(uint32_t worker) const;
  std::string MissingShards(absl::Duration now) const;

  // core_restores.cc
  // A shard that dies gets the job's slice back from its disk, so the job waits for it. A
  // job that trains needs no generation yet: its workers send again what is missing.
  bool IsRestorable(const JobRecord& job) const;
  // The shard was started anew, and has no slice of the restorable job yet.
  bool AwaitsRestore(const JobRecord& job, uint32_t shard) const;
  // Some shard does not answer, or has no slice of the restorable job yet.
  bool AwaitsShard(const JobRecord& job) const;
  // Which, and why; "": none.
  std::string ShardReason(const JobRecord& job, absl::Duration now) const;
  void AwaitRestore(JobRecord* job, const ShardChange& change, const std::string& text,
                    absl::Duration now);
  ShardCommand RestoreCommand(const JobRecord& job, uint32_t shard) const;
  void TakeRestoreCommands(absl::Duration now, std::vector<ShardCommand>* commands);

  // core_rates.cc
  void TakeRateCommands(absl::Duration now, std::vector<ShardCommand>* commands);
  void OnRateReduced(JobRecord* job, const ShardCommand& command, const absl::Status& status,
                     absl::Duration now);
  void OnRestored(JobRecord* job, const ShardCommand& command, const ShardAnswer& answer,
                  absl::Duration now);
  void FinishRestore(JobRecord* job, uint32_t shard, const RestoreShardJobReply& reply,
                     absl::Duration now);
  void NoteLostPushes(JobRecord* job, const LostPushes& lost, absl::Duration now);
  // `answer`, unless it only says that the shard has no slice of the job, as one that was
  // started anew a moment ago: that it could not be reached, then.
  ShardAnswer Excused(const JobRecord& job, const ShardCommand& command,
                      const ShardAnswer& answer) const;
  // What has become of a job's slice on a shard.
  enum class SliceLoss { kUnreachable, kRestarted, kDeleted, kNotRestored };
  void LoseSlices(JobRecord* job, SliceLoss loss, const std::string& reason, absl::Duration now);
  // How to go on with a job that has lost slices; "": that is not known here.
  std::string ResumeHint(const JobRecord& job) const;
  // The job, which is ending otherwise than well, waits for no shard that is lost or has
  // lost its slice.
  void AbandonShards(JobRecord* job, absl::Duration now);

  // core_recovery.cc
  // Goes on where an earlier life of the coordinator ended.
  void Recover(absl::Duration now);
  void RecoverJob(JobRecord* job, absl::Duration now);
  void RecoverBatch(JobRecord* job, absl::Duration now);
  void RememberShard(uint32_t shard);

  // core_resume.cc
  absl::Status CheckResume(const JobPlan& plan, const JobTable::Submission& submission) const;
  void BeginDownpour(JobRecord* job, absl::Duration now);
  // An event of a job that goes on from a checkpoint.
  void TellOfResume(JobRecord* job, const std::string& what, absl::Duration now);

  // core_active.cc
  void Advance(absl::Duration now);
  // Frees what is deleted on all shards. False: there was nothing.
  bool RemoveDeleted();
  // Its slices are there, with their parameters.
  void Activate(JobRecord* job, absl::Duration now);
  // Of the queue for the cluster's workers, which is active; null: none.
  JobRecord* ActiveOfQueue() const;
  // The active job in which the worker has a session, be it closing; null: none.
  JobRecord* JobOfWorker(uint32_t worker) const;
  // A guest that enters `job`, or "", is not to get this number.
  bool Shuns(uint32_t worker, const std::string& job) const;
  void NoLongerActive(const JobRecord* job) { std::erase(active_, job); }
  void AdvanceActive(JobRecord* job, absl::Duration now);
  void OpenSessions(JobRecord* job, absl::Duration now);
  // Fails a job that has begun to train and has had no worker for too long.
  void AwaitReplica(JobRecord* job, absl::Duration now);
  absl::Duration worker_wait() const { return absl::Milliseconds(cluster_.worker_wait_ms()); }

  // core_shards.cc
  void AdvanceCreation(JobRecord* job, absl::Duration now);
  void OnShardChange(const ShardChange& change, absl::Duration now);
  void RecordShards(uint64_t round);
  // Jobs whose slices `shard` should have, and has not.
  void FindMissingSlices(uint32_t shard, uint64_t round, absl::Duration now);

  // core_terms.cc
  uint64_t term() const { return writer_.state().snapshot().term(); }
  // One above every earlier one and `above`: the wall clock, in microseconds.
  void TakeTerm(uint64_t above, int64_t unix_ms);
  // A shard has obeyed `seen` last.
  void CheckTerm(uint32_t shard, uint64_t seen, Moment moment);
  std::vector<OrphanJob> Orphans() const;
  // NOT_FOUND unless some shard has such slices.
  absl::StatusOr<JobSummary> DeleteOrphans(const std::string& job);
  void TakeOrphanCommands(absl::Duration now, std::vector<ShardCommand>* commands);
  // Those that a poll of every shard has confirmed.
  void ForgetDeletions();
  void OnOrphanDeleted(const ShardCommand& command, const ShardAnswer& answer, absl::Duration now);

  // core_batch.cc
  SandblasterOptions BatchOptionsOf(const JobRecord& job) const;
  void BeginBatch(JobRecord* job, absl::Duration now);
  // Null unless the job's batch phase is under way, in this attempt.
  JobRecord* RunningBatch(const BatchKey& batch) const;
  // The batch is over once its last point is held.
  void FinishBatch(JobRecord* job, absl::Duration now);
  // The batch stands still until a generation is on the disks.
  bool BatchWaitsForDisk(const JobRecord& job) const;
  // A generation is held that the batch can go on from.
  bool CanReturn(const JobRecord& job) const;
  // Returns to it if a minimiser has changed anything since.
  void ReturnIfBegun(JobRecord* job, absl::string_view why, absl::Duration now);
  // Orders all shards back, to what they hold of it; TakeBatch follows when they are.
  void ReturnBatch(JobRecord* job, absl::string_view why, absl::Duration now);

  // core_enter.cc
  // Null: a new one is to be made.
  absl::StatusOr<JobRecord*> JobToEnter(const EnterRequest& request) const;
  absl::StatusOr<JobRecord*> MakeJobToEnter(const EnterRequest& request, const JobPlan& plan,
                                            Moment moment);
  // The job waits for its initial parameters: who writes them.
  void FindPart(const EnterRequest& request, JobRecord* job, Moment moment, EnterReply* reply);
  void ChooseWriter(const EnterRequest& request, JobRecord* job, absl::Duration now);
  // False: the guest's job has ended or is gone, which `reply` says.
  bool TellOfEnd(const HeartbeatRequest& request, HeartbeatReply* reply) const;
  // The writer of initial parameters may have become silent.
  void WatchWriter(JobRecord* job, absl::Duration now);

  // core_replicas.cc
  // The active or ending job if `session` is one of its sessions; else null.
  JobRecord* JobOfSession(const SessionKey& session) const;
  // The session's job is ending, or has ended.
  bool IsOver(const SessionKey& session) const;
  void RecordStats(JobRecord* job, const SessionKey& session, const ReplicaStats& stats,
                   absl::Duration now);
  // An event of a replica that waits for a shard, but not too often.
  void TellOfWait(JobRecord* job, uint32_t worker, const std::string& why, absl::Duration now);
  // False: the worker was excluded.
  bool CheckFingerprint(JobRecord* job, uint32_t worker, bool train, uint64_t value,
                        absl::Duration now);
  // It takes no part in this job any more.
  void Exclude(JobRecord* job, uint32_t worker, const std::string& why, absl::Duration now);
  void CloseSession(uint32_t worker, const std::string& kind, const std::string& text,
                    absl::Duration now);
  // How soon a worker that runs nothing is to ask again.
  uint32_t IdleHeartbeatMs() const;
  Assignment MakeAssignment(const JobRecord& job, const SessionKey& session) const;
  void TakeJobEvents(JobRecord* job, absl::Duration now);
  // Notes when the final parameters do no better on the test set than guessing.
  void CompareWithChance(JobRecord* job, const ReportEvaluationRequest& request,
                         absl::Duration now);
  TaskStatus WorkerStatus(uint32_t worker) const;
  void Log(std::string line) { log_.push_back(std::move(line)); }

  const Cluster cluster_;
  const uint32_t pid_;
  const absl::Duration started_;
  StateWriter writer_;  // the durable state; all that follows is volatile
  Membership membership_;
  ShardMonitor shards_;
  JobTable jobs_;
  std::vector<JobRecord*> active_;  // JOB_ACTIVE or JOB_ENDING; one of the queue at most
  uint64_t poll_round_ = 0;
  bool look_ = false;   // a checkpoint may be there
  uint64_t calls_ = 0;  // to shards, in this term
  // Some shard has taken this term, so its jobs are this coordinator's.
  bool term_in_force_ = false;
  std::string journal_trouble_;
  // Another coordinator commands the shards: why nothing can be done here.
  std::string superseded_;
  // Jobs of this or earlier lives by (id, term), deleted or being so, and the poll round
  // of the end: only a later one tells what is still there.
  struct Deletion {
    ShardFanout fanout;
    uint64_t round = 0;  // 0: under way
  };
  std::map<std::pair<std::string, uint64_t>, Deletion> deletions_;
  std::vector<std::string> log_;
};

}  // namespace monsoon
