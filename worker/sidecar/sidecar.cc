#include "worker/sidecar/sidecar.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/check.h"
#include "common/base/logging.h"
#include "common/base/random_id.h"
#include "common/base/status.h"
#include "common/base/version.h"
#include "common/model/parameter_layout.h"
#include "common/process/host_name.h"
#include "google/protobuf/text_format.h"
#include "proto/downpour.pb.h"
#include "ps_server/client/parameter_client.h"
#include "worker/client/monsoon.h"
#include "worker/sidecar/half_vectors.h"
#include "worker/sidecar/program_rows.h"

namespace monsoon {
namespace {

constexpr absl::Duration kJoinPatience = absl::Seconds(30);
// One call of the first contact; its whole patience is the program's.
constexpr absl::Duration kEnterDeadline = absl::Seconds(5);
// As a worker that drains.
constexpr absl::Duration kDrainGrace = absl::Seconds(15);
constexpr absl::Duration kFinalFetch = absl::Seconds(10);
constexpr absl::Duration kLongWait = absl::Hours(1);

struct JoinCall {
  std::string version;
  absl::Duration patience;
  std::string coordinator;
  std::string settings;
  bool only_enter = false;
  Model tensors;
  bool halves = false;
  uint64_t replay_window_bytes = 0;
  // Of a program that was in this job by another sidecar: its id, and how that one died.
  std::string again;
  std::string died;
};

// Adds the tables that `text` lists to a model of tensors.
absl::Status AddTables(const std::string& text, Model* model) {
  Model tables;
  if (!google::protobuf::TextFormat::ParseFromString(text, &tables)) {
    return absl::InvalidArgumentError("the model's tables are no text of proto/model.proto");
  }
  if (tables.tensor_size() + tables.layer_size() + tables.input_shape_size() > 0) {
    return absl::InvalidArgumentError("beside tables, `tables` lists something else");
  }
  *model->mutable_table() = std::move(*tables.mutable_table());
  return absl::OkStatus();
}

absl::StatusOr<JoinCall> ReadJoin(const Message& message) {
  FieldReader fields(message.fields);
  const auto abi = fields.Number<uint32_t>();
  JoinCall call;
  call.version = fields.String();
  if (message.kind != MessageKind::kJoin || abi != MONSOON_ABI || call.version != kVersion) {
    return absl::FailedPreconditionError(
        absl::StrCat("libmonsoon ", call.version, " (interface ", abi, ") has started the sidecar ",
                     kVersion, " (interface ", MONSOON_ABI, "): install both from one build"));
  }
  const auto patience_ms = fields.Number<uint32_t>();
  call.patience = patience_ms > 0 ? absl::Milliseconds(patience_ms) : kJoinPatience;
  call.coordinator = fields.String();
  call.settings = fields.String();
  call.only_enter = fields.Number<uint8_t>() != 0;
  const auto tensors = fields.Number<uint32_t>();
  for (uint32_t i = 0; i < tensors && !fields.broken(); ++i) {
    ModelTensor* const tensor = call.tensors.add_tensor();
    tensor->set_name(fields.String());
    tensor->set_kind(fields.Number<uint8_t>() == MONSOON_STATISTIC ? ModelTensor::STATISTIC
                                                                   : ModelTensor::TRAINED);
    const auto dimensions = fields.Number<uint32_t>();
    for (uint32_t d = 0; d < dimensions && !fields.broken(); ++d) {
      tensor->add_shape(fields.Number<uint32_t>());
    }
    const auto aliases = fields.Number<uint32_t>();
    for (uint32_t a = 0; a < aliases && !fields.broken(); ++a) {
      tensor->add_alias(fields.String());
    }
  }
  const std::string tables = fields.String();
  call.halves = fields.Number<uint8_t>() == MONSOON_BFLOAT16;
  call.replay_window_bytes = fields.Number<uint64_t>();
  call.again = fields.String();
  call.died = fields.String();
  if (!fields.ok()) {
    return absl::InvalidArgumentError("the program's settings are malformed");
  }
  RETURN_IF_ERROR(AddTables(tables, &call.tensors));
  return call;
}

// What the end of its job is to a program.
absl::Status EndOf(const std::string& job, JobState state, const std::string& reason) {
  switch (state) {
    case FAILED:
      return absl::AbortedError(absl::StrCat("job ", job, " has failed: ", reason));
    case CANCELLED:
      return absl::CancelledError(absl::StrCat("job ", job, ": ", reason));
    default:
      return absl::OkStatus();
  }
}

// What a program is told of the job that it has entered.
std::string JoinedFields(const EnterReply& reply, const ParameterLayout& layout, size_t stride,
                         const std::vector<std::string>& advice) {
  FieldWriter fields;
  fields.String(reply.job());
  const LocalSteps& local = reply.config().downpour().local();
  fields.Number(uint32_t{local.steps() / std::max(1u, local.fragments().count())});
  fields.Number(uint64_t{layout.size()});
  fields.Number(uint64_t{stride});
  fields.Number(static_cast<uint32_t>(layout.tensors().size()));
  for (const TensorInfo& tensor : layout.tensors()) {
    fields.Number(uint64_t{tensor.offset});
  }
  fields.Number(static_cast<uint32_t>(layout.tables().size()));
  for (const TableInfo& table : layout.tables()) {
    fields.Number(table.rows);
    fields.Number(table.columns);
  }
  fields.String(absl::StrJoin(advice, "\n"));
  return fields.bytes();
}

}  // namespace

Sidecar::Sidecar(std::unique_ptr<Program> program, Surroundings surroundings)
    : surroundings_(std::move(surroundings)),
      program_(std::move(program)),
      guest_(surroundings_.guest != 0 ? surroundings_.guest : RandomId()),
      woken_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

Sidecar::~Sidecar() = default;

std::unique_ptr<ReplicaClient> Sidecar::MakeClient(absl::Duration deadline) const {
  return surroundings_.make_client ? surroundings_.make_client(deadline)
                                   : ReplicaClient::Create(address_, deadline, tls_);
}

std::function<std::unique_ptr<FrameTransport>()> Sidecar::TransportOfNoSession() const {
  if (!surroundings_.make_transport) {
    return nullptr;
  }
  return [this] { return surroundings_.make_transport(SessionKey()); };
}

absl::Status Sidecar::Run() {
  if (const absl::Status joined = Join(); !joined.ok()) {
    if (program_->leaving()) {
      return absl::OkStatus();
    }
    if (program_->call() != nullptr) {
      program_->Refuse(joined);
    }
    return joined;
  }
  if (const absl::Status entered = AwaitTurn(/*begun=*/false); !entered.ok()) {
    return absl::IsCancelled(entered) ? absl::OkStatus() : TellEnd(entered);
  }
  if (const EnterReply& reply = enter_->reply(); reply.has_ended()) {
    return TellEnd(EndOf(reply.job(), reply.ended(), reply.reason()));
  }
  const std::optional<absl::Status> end = Train();
  return end ? TellEnd(*end) : absl::OkStatus();
}

absl::Status Sidecar::Join() {
  const Message* message = nullptr;
  while (message == nullptr) {
    ASSIGN_OR_RETURN(message, program_->AwaitCall(kJoinPatience));
  }
  ASSIGN_OR_RETURN(const JoinCall call, ReadJoin(*message));
  EnterJob::Options options;
  std::vector<std::string> advice;
  ASSIGN_OR_RETURN(options.job, MakeProgramJob(call.settings, call.tensors, &advice));
  ASSIGN_OR_RETURN(const ParameterLayout layout, ParameterLayout::Create(options.job.model()));
  halves_ = call.halves;
  replay_window_bytes_ =
      call.replay_window_bytes > 0 ? call.replay_window_bytes : surroundings_.replay_window_bytes;
  if (halves_) {
    RETURN_IF_ERROR(CheckHalfVectors(options.job, layout));
  }
  options.halves = halves_;
  options.only_enter = call.only_enter;
  options.version = call.version;
  options.guest = guest_;
  options.host = HostName();
  options.pid = static_cast<uint32_t>(getppid());
  options.leaving = [this] { return program_->leaving(); };
  options.make_transport = TransportOfNoSession();
  address_ = call.coordinator;
  if (surroundings_.find_tls) {
    ASSIGN_OR_RETURN(tls_, surroundings_.find_tls(address_));
  }
  options.tls = tls_;
  absl::Duration patience = call.patience;
  if (!call.again.empty()) {
    LOG(WARNING) << call.died << "; this one enters job " << call.again << " again";
    options.only_enter = true;
    options.again = call.again;
    patience = absl::InfiniteDuration();  // as a session waits for a coordinator that is away
  }
  entering_ = MakeClient(std::min(kEnterDeadline, call.patience));
  enter_ = std::make_unique<EnterJob>(std::move(options), entering_.get());
  RETURN_IF_ERROR(enter_->Begin(patience));
  UniqueFd passed = program_->TakePassed();
  ASSIGN_OR_RETURN(std::unique_ptr<ProgramMemory> memory,
                   passed.get() >= 0
                       ? ProgramMemory::Adopt(std::move(passed), layout.size(), halves_ ? 2 : 1)
                       : ProgramMemory::Create(layout.size(), halves_ ? 2 : 1));

  const std::string joined = JoinedFields(enter_->reply(), layout, memory->stride(), advice);
  program_->AnswerJoin(joined, std::move(memory));
  return absl::OkStatus();
}

absl::Status Sidecar::AwaitTurn(bool begun) {
  while (!begun || !(enter_->may_train() || enter_->has_ended()) || enter_->writing()) {
    const absl::Duration pause = std::max(enter_->pause(), absl::Milliseconds(1));
    if (begun) {
      if (program_->AwaitLeave(std::min(pause, absl::Milliseconds(20)), -1)) {
        return absl::CancelledError("the program leaves before its job trains");
      }
      if (told_of_end() && !enter_->writing()) {
        return absl::CancelledError("its part in the job has ended meanwhile");
      }
    } else {
      ASSIGN_OR_RETURN(const Message* const call, program_->AwaitCall(pause));
      begun = call != nullptr && call->kind == MessageKind::kBegin;
      if (call != nullptr && !begun) {
        return absl::FailedPreconditionError("monsoon_begin must be called first");
      }
    }
    RETURN_IF_ERROR(enter_->Poll(begun ? program_->memory().parameters() : std::span<float>()));
  }
  return absl::OkStatus();
}

void Sidecar::EnterAgain() {
  enter_->Again();
  const absl::Status entered = AwaitTurn(/*begun=*/true);
  {
    // What heartbeats have said meanwhile was of the same; the next one says it again if not.
    MutexLock lock(&mutex_);
    enters_again_ = false;
  }
  if (const EnterReply& reply = enter_->reply(); entered.ok() && reply.has_ended()) {
    NoteEnd(EndOf(reply.job(), reply.ended(), reply.reason()));
  } else if (!entered.ok() && !absl::IsCancelled(entered)) {
    NoteEnd(entered);
  }
}

void Sidecar::Wake() {
  const uint64_t one = 1;
  CHECK_EQ(write(woken_.get(), &one, sizeof(one)), static_cast<ssize_t>(sizeof(one)));
}

void Sidecar::NoteEnd(const absl::Status& end) {
  MutexLock lock(&mutex_);
  if (!end_) {
    end_ = end;
    Wake();
  }
}

Sidecar::Words Sidecar::TakeWords() {
  MutexLock lock(&mutex_);
  uint64_t times = 0;
  if (read(woken_.get(), &times, sizeof(times)) < 0) {
    CHECK_EQ(errno, EAGAIN);  // nobody has said anything: it was the program
  }
  return {end_, std::exchange(enters_again_, false)};
}

bool Sidecar::told_of_end() {
  MutexLock lock(&mutex_);
  return end_.has_value();
}

std::optional<absl::Status> Sidecar::Train() {
  const EnterReply& reply = enter_->reply();
  const absl::Duration lost_after = absl::Milliseconds(reply.lost_after_ms());
  const absl::Duration deadline = absl::Milliseconds(reply.rpc_deadline_ms());
  work_ = MakeClient(std::min(deadline, lost_after));
  heartbeats_ = MakeClient(std::min(deadline, lost_after));
  ProgramRunner::Options runner;
  runner.rpc_deadline = deadline;
  runner.replay_window_bytes = replay_window_bytes_;
  runner.tls = tls_;
  runner.halves = halves_;
  runner.make_transport = surroundings_.make_transport;
  runner_ = std::make_unique<ProgramRunner>(runner, work_.get(), program_.get());
  SessionHost::Options host;
  host.member.cluster = reply.cluster();
  host.member.guest = guest_;
  host.member.host = HostName();
  host.member.enters_job = reply.job();
  host.member.enters_job_term = reply.job_term();
  host.member.pid = static_cast<uint32_t>(getppid());
  host.member.device = "PROGRAM";
  host.member.heartbeat = absl::Milliseconds(reply.heartbeat_ms());
  host.lost_after = lost_after;
  host.calls.on_refused = [this](const absl::Status& why) { NoteEnd(why); };
  // It was told to leave (`coordinator drain`): to the program that is an end of its part.
  host.calls.on_drain = [this] {
    NoteEnd(absl::CancelledError("the coordinator told it to leave"));
  };
  host.on_program_diverged = [this, job = reply.job()](const std::string& message) {
    NoteEnd(absl::OutOfRangeError(absl::StrCat(
        "job ", job, " goes on without this program, which has diverged alone: ", message,
        "; the job's parameters are finite: start the program again, and it begins with them and a "
        "new optimizer")));
  };
  host.calls.on_enter_again = [this] {
    MutexLock lock(&mutex_);
    enters_again_ = true;
    Wake();
  };
  host.calls.on_job_ended = [this, job = reply.job()](JobState state, const std::string& reason) {
    NoteEnd(EndOf(job, state, reason));
  };
  host_ =
      std::make_unique<SessionHost>(std::move(host), heartbeats_.get(), work_.get(), runner_.get());
  host_->Start();
  while (true) {
    const bool leaves = program_->AwaitLeave(kLongWait, woken_.get());
    const Words words = TakeWords();
    if (leaves || words.end) {
      host_->Drain(kDrainGrace);  // afterwards the program is this thread's again
      host_.reset();
      return leaves ? std::nullopt : words.end;
    }
    if (words.enters_again) {
      EnterAgain();
    }
  }
}

absl::Status Sidecar::FetchFinal() {
  ParameterClientOptions options = runner_->joined()->client_options;
  options.read_only = true;
  options.shard_epochs.clear();
  options.keep_bytes = 0;
  options.deadline = kFinalFetch;
  options.halves = halves_;
  options.tls = tls_;
  options.make_transport = TransportOfNoSession();
  ASSIGN_OR_RETURN(final_, ParameterClient::Create(std::move(options)));
  return final_->FetchExact(program_->memory().evaluated(), nullptr, nullptr);
}

void Sidecar::AnswerFinalRows(const Message& call) {
  const absl::Status answered =
      AnswerRows(call,
                 runner_ != nullptr && runner_->joined() ? runner_->joined()->layout.tables()
                                                         : std::vector<TableInfo>(),
                 program_.get(), [this](std::span<const RowRequest> wanted) {
                   return final_ == nullptr ? absl::FailedPreconditionError("the job has ended")
                                            : final_->FetchRows(wanted, nullptr);
                 });
  if (!answered.ok()) {
    program_->Refuse(answered);
  }
}

absl::Status Sidecar::TellEnd(const absl::Status& end) {
  std::span<const float> final_parameters;
  if (end.ok() && runner_ != nullptr && runner_->joined()) {
    if (const absl::Status fetched = FetchFinal(); fetched.ok()) {
      final_parameters = program_->memory().evaluated();
    } else {
      LOG(WARNING) << "the final parameters: " << std::string(fetched.message());
    }
  }
  while (true) {
    absl::StatusOr<const Message*> call = program_->AwaitCall(kLongWait);
    if (!call.ok()) {
      return absl::IsCancelled(call.status()) ? absl::OkStatus() : call.status();
    }
    if (*call == nullptr) {
      continue;
    }
    if (end.ok() && (*call)->kind == MessageKind::kFetchRows) {
      AnswerFinalRows(**call);
    } else if (end.ok()) {
      if (!final_parameters.empty()) {
        program_->SetParameters(final_parameters);
        program_->memory().ReleaseEvaluated();
      }
      program_->Answer(MONSOON_ENDED, /*parameters_changed=*/!final_parameters.empty());
      final_parameters = {};
    } else {
      program_->Refuse(end);
    }
  }
}

}  // namespace monsoon
