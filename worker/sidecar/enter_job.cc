#include "worker/sidecar/enter_job.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/fail_point.h"
#include "common/base/logging.h"
#include "common/base/status.h"
#include "common/base/thread.h"
#include "common/config/job.h"
#include "common/memory/aligned_floats.h"
#include "common/transport/frame/protocol.h"
#include "coordinator/client/job_location.h"
#include "google/protobuf/text_format.h"
#include "ps_server/client/parameter_client.h"
#include "worker/session/work_source.h"
#include "worker/sidecar/half_vectors.h"

namespace monsoon {
namespace {

constexpr absl::Duration kFirstPause = absl::Milliseconds(50);
constexpr absl::Duration kLongestPause = absl::Milliseconds(500);
constexpr absl::Duration kWriteDeadline = absl::Seconds(30);

// All of the job's parameters, and the seal of each shard.
absl::Status WriteInitial(const EnterReply& turn, std::span<const float> initial,
                          const std::shared_ptr<Tls>& tls,
                          const std::function<std::unique_ptr<FrameTransport>()>& make_transport,
                          SilentPeer* silent) {
  ASSIGN_OR_RETURN(const ParameterLayout layout, ParameterLayout::Create(turn.location().model()));
  ASSIGN_OR_RETURN(ParameterClientOptions options, ReadOnlyOptions(turn.location(), layout));
  options.deadline = kWriteDeadline;
  options.tls = tls;
  options.make_transport = make_transport;
  options.silent = silent;
  ASSIGN_OR_RETURN(const std::unique_ptr<ParameterClient> client,
                   ParameterClient::Create(std::move(options)));
  ParameterClient::WriteOptions write;
  write.writer = turn.writer();
  MONSOON_FAIL_POINT_STATUS("initial.before_write");
  RETURN_IF_ERROR(client->Write(initial, write));
  MONSOON_FAIL_POINT_STATUS("initial.before_seal");
  RETURN_IF_ERROR(client->Seal(initial, turn.writer()));
  MONSOON_FAIL_POINT("initial.sealed");
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Job> MakeProgramJob(const std::string& settings, const Model& tensors,
                                   std::vector<std::string>* advice) {
  // One text, so that mistakes in either are told by the same parser; the settings come
  // first, so that their lines count.
  std::string model;
  if (!google::protobuf::TextFormat::PrintToString(tensors, &model)) {
    return absl::InternalError("the tensors cannot be printed");
  }
  const std::string text = absl::StrCat(settings, "\nmodel {\n", model, "}\n");
  LoadOptions options;
  options.contents = &text;
  options.joined = true;
  std::vector<Diagnostic> warnings;
  absl::StatusOr<Job> job = LoadJob("job settings", options, /*diagnostics=*/nullptr, &warnings);
  for (const Diagnostic& warning : warnings) {
    if (advice != nullptr) {
      advice->push_back(absl::StrCat(warning.field, ": ", warning.message,
                                     warning.suggestion.empty() ? "" : "; ", warning.suggestion));
    }
  }
  return job;
}

EnterJob::EnterJob(Options options, ReplicaClient* coordinator)
    : options_(std::move(options)), coordinator_(coordinator) {
  if (options_.write == nullptr) {
    options_.write = [tls = options_.tls, make = options_.make_transport](
                         const EnterReply& turn, std::span<const float> initial,
                         SilentPeer* silent) {
      return WriteInitial(turn, initial, tls, make, silent);
    };
  }
  if (!options_.again.empty()) {
    options_.job.set_name(options_.again);
  }
}

absl::Status EnterJob::Ask() {
  asked_ = options_.clock->Now();
  EnterRequest request;
  request.set_protocol_version(kProtocolVersion);
  request.set_version(options_.version);
  request.set_guest(options_.guest);
  request.set_pid(options_.pid);
  request.set_host(options_.host);
  *request.mutable_job() = options_.job;
  request.set_only_enter(options_.only_enter);
  request.set_again(!options_.again.empty());
  request.set_sealed_by(sealed_);
  if (const std::optional<uint32_t> silent = silent_.Get()) {
    request.set_silent_shard(*silent);
  }
  ASSIGN_OR_RETURN(reply_, coordinator_->Enter(request));
  // From now on it is this job, whatever else has its name.
  options_.job.set_name(reply_.job());
  if (reply_.part() == EnterReply::WAIT && reply_.reason() != waits_for_) {
    LOG(INFO) << "job " << reply_.job() << ": " << reply_.reason();
  }
  waits_for_ = reply_.reason();
  return absl::OkStatus();
}

absl::Status EnterJob::Begin(absl::Duration patience) {
  const absl::Duration end = options_.clock->Now() + patience;
  absl::Duration pause = kFirstPause;
  while (true) {
    const absl::Status status = Ask();
    if (status.ok() || !IsTransient(status)) {
      return status;
    }
    if (options_.leaving && options_.leaving()) {
      return absl::CancelledError("the program leaves before the coordinator answers");
    }
    if (options_.clock->Now() + pause > end) {
      return absl::Status(status.code(),
                          absl::StrCat("no answer within ", absl::FormatDuration(patience), ": ",
                                       status.message(), "; is `coordinator up` running?"));
    }
    Thread::SleepFor(pause);  // nobody else can wake this one: there is no job yet
    pause = std::min(2 * pause, kLongestPause);
  }
}

absl::Duration EnterJob::pause() const {
  const absl::Duration until =
      asked_ + absl::Milliseconds(std::max(10u, reply_.retry_ms())) - options_.clock->Now();
  return std::max(absl::ZeroDuration(), until);
}

void EnterJob::Again() {
  LOG(WARNING) << "job " << reply_.job() << ": its initial parameters are lost; enters again";
  options_.again = reply_.job();
  options_.only_enter = true;
  asked_ = -absl::InfiniteDuration();
  reply_.clear_part();
  written_ = 0;
  sealed_ = 0;
}

void EnterJob::StartWriting(std::span<const float> initial) {
  if (writer_ == nullptr) {
    writer_ = std::make_unique<BackgroundCall<absl::Status>>();
  }
  written_ = reply_.writer();
  LOG(INFO) << "job " << reply_.job() << ": writes its initial parameters";
  writer_->Start([this, turn = reply_, initial] {
    if (options_.halves) {
      const AlignedFloats floats = FloatsOfHalves(initial);
      return options_.write(turn, floats.span(), &silent_);
    }
    return options_.write(turn, initial, &silent_);
  });
}

absl::Status EnterJob::Poll(std::span<const float> initial) {
  if (writer_ != nullptr) {
    if (const std::optional<absl::Status> wrote = writer_->TryTake()) {
      if (wrote->ok()) {
        sealed_ = written_;
        asked_ = -absl::InfiniteDuration();
      } else {
        // Perhaps a shard was started anew, or it is another's turn: the coordinator knows.
        LOG(WARNING) << "initial parameters: " << std::string(wrote->message());
        written_ = 0;
      }
    }
  }
  if (pause() == absl::ZeroDuration()) {
    if (const absl::Status status = Ask(); !status.ok()) {
      if (!IsTransient(status)) {
        return status;
      }
      LOG(WARNING) << std::string(status.message());
    }
  }
  const bool my_turn = reply_.part() == EnterReply::INITIALIZE && reply_.writer() != written_ &&
                       reply_.writer() != sealed_;
  if (my_turn && !initial.empty() && !writing()) {
    StartWriting(initial);
  }
  return absl::OkStatus();
}

}  // namespace monsoon
