#include "coordinator/replicas/entering.h"

#include <algorithm>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/peer_text.h"
#include "common/base/status.h"
#include "common/base/version.h"
#include "common/transport/frame/protocol.h"
#include "coordinator/replicas/cut_workers.h"
#include "coordinator/replicas/job_difference.h"

namespace monsoon {
namespace {

// Programs that wait ask so often: short against the time that it takes to start one.
constexpr uint32_t kMostRetryMs = 200;

std::string EndOf(const JobRecord& job) {
  return absl::StrCat(JobState_Name(job.end_state()), job.reason().empty() ? "" : ": ",
                      job.reason());
}

// For a program that was in it.
EnterReply ToldOfEnd(const JobRecord& job) {
  EnterReply reply;
  reply.set_job(job.id());
  reply.set_ended(job.end_state());
  reply.set_reason(job.reason());
  *reply.mutable_config() = job.plan.job;
  return reply;
}

std::string WriterName(const InitialWriter& writer) {
  return absl::StrCat("pid ", writer.pid(), writer.host().empty() ? "" : " on ", writer.host());
}

// "gpt" of "gpt-3"; "" of what is no job's id.
std::string NameInId(const std::string& id) {
  const size_t dash = id.rfind('-');
  uint64_t number = 0;
  return dash != std::string::npos && absl::SimpleAtoi(id.substr(dash + 1), &number)
             ? id.substr(0, dash)
             : "";
}

}  // namespace

absl::Status CheckProgram(const EnterRequest& request) {
  if (request.protocol_version() != kProtocolVersion) {
    return absl::FailedPreconditionError(absl::StrCat(
        "program: ",
        request.version().empty() ? "monsoon" : absl::CEscape(request.version().substr(0, 64)),
        " (protocol ", request.protocol_version(), "), coordinator: monsoon ", kVersion,
        " (protocol ", kProtocolVersion, "): install both from the same build"));
  }
  if (request.guest() == 0) {
    return absl::InvalidArgumentError("the program has not drawn a number (guest)");
  }
  if (request.job().name().empty()) {
    return absl::InvalidArgumentError("the job that the program enters has no name");
  }
  if (!IsJoined(request.job())) {
    return absl::InvalidArgumentError(
        absl::StrCat("job \"", request.job().name(),
                     "\" lists no tensors of its model (model.tensor): `coordinator submit` is "
                     "for a model of layers"));
  }
  return absl::OkStatus();
}

std::string ProgramReason(const JobRecord& job) {
  return absl::StrCat("waits for a program to join: `ms.join(..., job=\"", job.plan.job.name(),
                      "\")`");
}

JobLocation LocationOf(const JobRecord& job, const Cluster& cluster) {
  JobLocation location;
  location.set_job(job.id());
  *location.mutable_model() = job.plan.job.model();
  location.set_layout_hash(job.plan.layout_hash);
  location.set_job_term(job.state().term());
  location.set_max_stripe_bytes(job.plan.max_stripe_bytes);
  location.set_connections(cluster.connections());
  for (int shard = 0; shard < cluster.ps_size(); ++shard) {
    location.add_address(cluster.ps(shard).address());
    location.add_shard_epoch(job.state().shard_epoch(static_cast<int>(shard)));
  }
  return location;
}

// ---- which job ---------------------------------------------------------------

std::optional<EnterReply> Entering::EndOfEntered(const EnterRequest& request) const {
  if (const JobRecord* const before = jobs_.Lookup(request.job().name());
      request.again() && before != nullptr && before->joined() && before->ended_or_deleting()) {
    return ToldOfEnd(*before);
  }
  return std::nullopt;
}

absl::StatusOr<JobRecord*> Entering::JobToEnter(const EnterRequest& request) const {
  const std::string& name = request.job().name();
  const std::string base = NameInId(name);
  JobRecord* newest = nullptr;  // of that name
  std::string known;            // the newest of the name in an id
  for (const auto& job : jobs_.jobs()) {
    if (job->id() == name) {
      if (!job->joined()) {
        return absl::FailedPreconditionError(absl::StrCat(
            "job ", name, " is of a model of layers, which workers train: no program can enter"));
      }
      if (job->ended_or_deleting()) {
        return absl::FailedPreconditionError(
            absl::StrCat("job ", name, " has ended: ", EndOf(*job)));
      }
      return job.get();
    }
    if (job->joined() && job->plan.job.name() == name) {
      newest = job.get();
    }
    if (job->joined() && job->plan.job.name() == base) {
      known = job->id();
    }
  }
  if (newest != nullptr && !newest->ended_or_deleting()) {
    return newest;
  }
  if (newest == nullptr && !known.empty()) {
    return absl::NotFoundError(absl::StrCat("no job ", name, "; the newest of \"", base, "\" is ",
                                            known, ", and \"", base,
                                            "\" alone enters it, or "
                                            "makes a new one if it has ended"));
  }
  if (request.only_enter()) {
    return absl::NotFoundError(
        newest == nullptr
            ? absl::StrCat("no job \"", name, "\" is there to enter; `coordinator jobs` lists all")
            : absl::StrCat("no job \"", name, "\" is there to enter: the newest, ", newest->id(),
                           ", has ended: ", EndOf(*newest)));
  }
  return nullptr;
}

absl::StatusOr<JobRecord*> Entering::MakeJobToEnter(const EnterRequest& request,
                                                    const JobPlan& plan, const std::string& by,
                                                    Moment moment) {
  RETURN_IF_ERROR(jobs_.Admit(plan, cluster_, by, shards_.MemoryLimits()));
  JobRecord* const job =
      jobs_.Add(plan, {.by = by, .init = true, .unix_ms = moment.unix_ms}, shards_.TakenIds());
  job->AddEvent(moment.now, "submitted", "",
                absl::StrCat("by pid ", request.pid(), request.host().empty() ? "" : " on ",
                             PeerText(request.host(), kMostPeerName)));
  Log(absl::StrCat("job ", job->id(), " is made by a program (pid ", request.pid(), ")"));
  return job;
}

absl::StatusOr<JobRecord*> Entering::FindOrMakeJob(const EnterRequest& request, const JobPlan& plan,
                                                   const std::string& by, Moment moment) {
  ASSIGN_OR_RETURN(JobRecord * job, JobToEnter(request));
  if (job == nullptr) {
    ASSIGN_OR_RETURN(job, MakeJobToEnter(request, plan, by, moment));
  }
  const std::string difference = JobDifference(plan.job, job->submitted(), job->id());
  if (!difference.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("job ", job->id(), " has other settings: ", difference,
                     "; enter it with its own, or give yours another name"));
  }
  return job;
}

EnterReply Entering::Greet(const JobRecord& job) const {
  EnterReply reply;
  reply.set_job(job.id());
  reply.set_job_term(job.state().term());
  reply.set_cluster(cluster_.name());
  reply.set_heartbeat_ms(cluster_.heartbeat_ms());
  reply.set_lost_after_ms(cluster_.lost_after_ms());
  reply.set_rpc_deadline_ms(cluster_.rpc_deadline_ms());
  reply.set_retry_ms(std::min(cluster_.heartbeat_ms(), kMostRetryMs));
  *reply.mutable_config() = job.plan.job;
  return reply;
}

absl::StatusOr<EnterReply> Entering::Admit(const EnterRequest& request, const JobRecord& job,
                                           EnterReply reply) const {
  if (job.stage() == JOB_ENDED && request.again()) {
    return ToldOfEnd(job);
  }
  if (job.stage() == JOB_ENDED) {
    return absl::FailedPreconditionError(
        absl::StrCat("job ", job.id(), " has ended: ", EndOf(job)));
  }
  const bool leaves = job.active() && (job.stage() != JOB_ACTIVE ||
                                       job.procedure()->phase() >= JobProcedure::Phase::kLeaving);
  if (job.active() && !leaves && !View(job).AwaitsFirstGeneration()) {
    reply.set_part(EnterReply::TRAIN);
    reply.clear_reason();
  } else if (leaves) {
    reply.set_reason(absl::StrCat("job ", job.id(), " is ending"));
  }
  return reply;
}

// ---- the writer of the initial parameters ------------------------------------

bool Entering::TakeSeal(const EnterRequest& request, JobRecord* job) {
  const InitialWriter& writer = job->state().writer();
  const bool sealed =
      job->stage() == JOB_READY && writer.guest() != 0 && request.sealed_by() == writer.number();
  if (sealed) {
    Log(absl::StrCat("job ", job->id(), ": its initial parameters are written"));
    job->Make([](StateUpdate* update) { update->mutable_client_started(); });
  }
  return sealed;
}

void Entering::FindPart(const EnterRequest& request, JobRecord* job, Moment moment,
                        EnterReply* reply) {
  if (job->stage() != JOB_READY) {
    return;
  }
  const InitialWriter& writer = job->state().writer();
  const bool its_own = writer.guest() == request.guest();
  const bool written = job->initial_writer.is_there && !WriterIsCut(*job, moment.now);
  if (!its_own && (written || !shards_.all_up())) {
    return;
  }
  if (!its_own) {
    ChooseWriter(request, job, moment.now);
  }
  HearWriter(request, job, moment.now);
  if (shards_.all_up()) {
    reply->set_part(EnterReply::INITIALIZE);
    reply->set_retry_ms(cluster_.heartbeat_ms());
    reply->set_writer(job->state().writer().number());
    *reply->mutable_location() = LocationOf(*job, cluster_);
  }
}

void Entering::HearWriter(const EnterRequest& request, JobRecord* job, absl::Duration now) const {
  job->initial_writer.heard = now;
  job->initial_writer.is_there = true;
  const uint32_t shard = request.silent_shard();
  // One that is away for everybody says nothing of the writer.
  const bool is_cut = request.has_silent_shard() && shard < shards_.size() &&
                      shards_.shard(shard).state == ShardView::State::kUp;
  if (!is_cut) {
    job->initial_writer.cut.reset();
  } else if (!job->initial_writer.cut || job->initial_writer.cut->shard != shard) {
    job->initial_writer.cut = CutWorker{shard, now};
  }
}

bool Entering::WriterIsCut(const JobRecord& job, absl::Duration now) const {
  return job.initial_writer.cut &&
         now - job.initial_writer.cut->since >= absl::Milliseconds(cluster_.lost_after_ms());
}

void Entering::ChooseWriter(const EnterRequest& request, JobRecord* job, absl::Duration now) {
  const InitialWriter before = job->state().writer();
  const uint64_t number = before.number() + 1;
  job->Make([&](StateUpdate* update) {
    InitialWriter* const writer = update->mutable_writer_chosen();
    writer->set_number(number);
    writer->set_guest(request.guest());
    writer->set_pid(request.pid());
    writer->set_host(PeerText(request.host(), kMostPeerName));
    writer->set_since_ns(ToNanos(now));
  });
  const std::string text =
      absl::StrCat("pid ", request.pid(), request.host().empty() ? "" : " on ",
                   PeerText(request.host(), kMostPeerName), " writes the initial parameters",
                   number > 1 ? absl::StrCat(", as number ", number, " who does") : "",
                   job->initial_writer.is_there && job->initial_writer.cut
                       ? absl::StrCat(": ", WriterName(before), " ",
                                      NotReached(*job->initial_writer.cut, cluster_, now))
                       : "");
  job->initial_writer.cut.reset();
  job->AddEvent(now, "initializing", "", text);
  Log(absl::StrCat("job ", job->id(), ": ", text));
}

void Entering::WatchWriter(JobRecord* job, absl::Duration now) {
  if (job->stage() == JOB_READY && job->initial_writer.is_there &&
      now - job->initial_writer.heard > absl::Milliseconds(cluster_.lost_after_ms())) {
    job->initial_writer.is_there = false;
    Log(absl::StrCat("job ", job->id(), ": pid ", job->state().writer().pid(),
                     ", which writes its initial parameters, is silent"));
  }
}

std::string Entering::WaitsFor(const JobRecord& job, Moment moment) const {
  if (job.stage() != JOB_READY || !job.written_by_program()) {
    return "";
  }
  return job.initial_writer.is_there ? WriterReason(job, moment.now) : ProgramReason(job);
}

std::string Entering::WriterReason(const JobRecord& job, absl::Duration now) const {
  const InitialWriter& writer = job.state().writer();
  return absl::StrFormat(
      "waits for the initial parameters: %s has been writing them for %.1f s%s", WriterName(writer),
      absl::ToDoubleSeconds(now - FromNanos(writer.since_ns())),
      job.initial_writer.cut ? ", and " + NotReached(*job.initial_writer.cut, cluster_, now) : "");
}

void Entering::Recover(JobRecord* job, absl::Duration now) {
  if (job->stage() == JOB_READY) {
    // Its writer has not been heard in this life, and may write all the same.
    job->initial_writer.heard = now;
    job->initial_writer.is_there = job->state().writer().guest() != 0;
  }
}

// ---- an entered job ----------------------------------------------------------

bool Entering::Knows(const HeartbeatRequest& request) const {
  const JobRecord* const job = jobs_.Lookup(request.enters_job());
  return request.enters_job().empty() ||
         (job != nullptr && job->id() == request.enters_job() && job->joined() &&
          job->state().term() == request.enters_job_term());
}

bool Entering::TellOfJob(const HeartbeatRequest& request, HeartbeatReply* reply) const {
  if (request.enters_job().empty()) {
    return true;
  }
  const JobRecord* const job = jobs_.Lookup(request.enters_job());
  if (!Knows(request)) {
    reply->set_job_ended(FAILED);
    reply->set_job_reason(absl::StrCat("job ", absl::CEscape(request.enters_job().substr(0, 64)),
                                       " is gone: somebody deleted it, or the coordinator has "
                                       "lost its state"));
    return false;
  }
  if (job->ended_or_deleting()) {
    reply->set_job_ended(job->end_state());
    reply->set_job_reason(job->reason());
  }
  reply->set_enter_again(job->waits_for_client() && job->written_by_program());
  return !job->ended_or_deleting();
}

}  // namespace monsoon
