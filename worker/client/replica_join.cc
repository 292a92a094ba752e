// Replica: how it comes to be: the sidecar is started, the job entered, the memory mapped; and
// how it ends.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <utility>

#include "worker/client/replica.h"

namespace monsoon {
namespace {

constexpr int kConnectTimeoutMs = 30000;
// Beyond what it tells the coordinator to bear, until it says why it could not join.
constexpr int kJoinGraceMs = 5000;
// A sidecar that leaves gives up its last push after 15 seconds.
constexpr int kLeaveTimeoutMs = 20000;

Result Invalid(std::string message) { return {MONSOON_INVALID_ARGUMENT, std::move(message)}; }

Result WriteTensors(const monsoon_join_options& options, FieldWriter* fields) {
  fields->Number(static_cast<uint32_t>(options.tensor_count));
  for (size_t i = 0; i < options.tensor_count; ++i) {
    const monsoon_tensor& tensor = options.tensors[i];
    if (tensor.name == nullptr || (tensor.dimensions > 0 && tensor.shape == nullptr) ||
        (tensor.alias_count > 0 && tensor.aliases == nullptr)) {
      return Invalid("tensor " + std::to_string(i) + " has no name, shape or aliases");
    }
    fields->String(tensor.name);
    fields->Number(static_cast<uint8_t>(tensor.kind));
    fields->Number(static_cast<uint32_t>(tensor.dimensions));
    for (size_t d = 0; d < tensor.dimensions; ++d) {
      if (tensor.shape[d] > UINT32_MAX) {
        return Invalid(std::string("tensor \"") + tensor.name + "\": an extent is over 2^32");
      }
      fields->Number(static_cast<uint32_t>(tensor.shape[d]));
    }
    fields->Number(static_cast<uint32_t>(tensor.alias_count));
    for (size_t a = 0; a < tensor.alias_count; ++a) {
      if (tensor.aliases[a] == nullptr) {
        return Invalid(std::string("tensor \"") + tensor.name + "\" has an alias without a name");
      }
      fields->String(tensor.aliases[a]);
    }
  }
  return {};
}

}  // namespace

monsoon_code CodeOfStatus(uint32_t value) {
  switch (value) {
    case MONSOON_CANCELLED:
    case MONSOON_INVALID_ARGUMENT:
    case MONSOON_DEADLINE_EXCEEDED:
    case MONSOON_NOT_FOUND:
    case MONSOON_RESOURCE_EXHAUSTED:
    case MONSOON_FAILED_PRECONDITION:
    case MONSOON_ABORTED:
    case MONSOON_INTERNAL:
    case MONSOON_UNAVAILABLE:
      return static_cast<monsoon_code>(value);
    default:
      return MONSOON_UNKNOWN;
  }
}

Result Replica::Join(const monsoon_join_options& options, std::unique_ptr<Replica>* replica) {
  if (options.coordinator == nullptr || options.job == nullptr) {
    return Invalid("coordinator and job must be set");
  }
  if (options.tensor_count == 0 || options.tensors == nullptr) {
    return Invalid("a model needs at least one tensor");
  }
  const uint32_t timeout_ms =
      options.connect_timeout_ms > 0 ? options.connect_timeout_ms : kConnectTimeoutMs;
  FieldWriter fields;
  fields.Number(uint32_t{MONSOON_ABI});
  fields.String(monsoon_version());
  fields.Number(timeout_ms);
  fields.String(options.coordinator);
  fields.String(options.job);
  fields.Number(static_cast<uint8_t>(options.only_enter != 0));
  if (Result written = WriteTensors(options, &fields); !written.ok()) {
    return written;
  }
  fields.String(options.tables == nullptr ? "" : options.tables);
  if (fields.bytes().size() > kMaxMessageBytes) {
    return Invalid("the job and the names of its tensors are over 64 MiB");
  }
  std::unique_ptr<Replica> made(
      new Replica({options.sidecar == nullptr ? "" : options.sidecar,
                   options.log_file == nullptr ? "" : options.log_file, fields.bytes()}));
  std::string error;
  made->sidecar_ = SidecarProcess::Start(made->start_.executable, made->start_.log_file, &error);
  if (made->sidecar_ == nullptr) {
    return {MONSOON_UNAVAILABLE, error};
  }
  if (!made->sidecar_->socket().Send(MessageKind::kJoin, made->JoinFields(""))) {
    return made->SidecarIsGone();
  }
  Message answer;
  const auto wait_ms =
      static_cast<int>(std::min<int64_t>(INT_MAX, int64_t{timeout_ms} + kJoinGraceMs));
  const auto outcome = made->sidecar_->socket().Receive(wait_ms, &answer, &made->memory_);
  Result joined;
  switch (outcome) {
    case MessageSocket::Outcome::kDone:
      joined = made->TakeJoined(answer);
      made->sidecar_->socket().LookBeforeSleep([r = made.get()] { r->ZeroTakenGradient(); });
      break;
    case MessageSocket::Outcome::kInterrupted:
      joined = {MONSOON_INTERRUPTED, "a signal came while the job was being joined; join again"};
      break;
    case MessageSocket::Outcome::kTimeout:
      joined = {MONSOON_DEADLINE_EXCEEDED, "the sidecar did not answer"};
      break;
    default:
      joined = made->SidecarIsGone();
  }
  if (joined.ok()) {
    size_t i = 0;
    for (; i < options.tensor_count; ++i) {
      const size_t begin = made->offset(i);
      size_t count = 1;
      for (size_t d = 0; d < options.tensors[i].dimensions; ++d) {
        count *= options.tensors[i].shape[d];
      }
      if (options.tensors[i].kind == MONSOON_STATISTIC || made->local_steps_ > 0) {
        made->differences_.push_back({begin, count});
      }
    }
    size_t floats = 0;
    for (const Range& range : made->differences_) {
      floats += range.size;
    }
    made->base_.assign(floats, 0.0f);
    *replica = std::move(made);
  }
  return joined;
}

std::string Replica::JoinFields(const std::string& died) const {
  FieldWriter fields;
  fields.Bytes(start_.join.data(), start_.join.size());
  fields.String(died.empty() ? "" : job_);
  fields.String(died);
  return fields.bytes();
}

Result Replica::TakeJoined(const Message& joined) {
  FieldReader fields(joined.fields);
  if (joined.kind == MessageKind::kError) {
    const monsoon_code code = CodeOfStatus(fields.Number<uint32_t>());
    return {code, fields.String()};
  }
  job_ = fields.String();
  local_steps_ = fields.Number<uint32_t>();
  steps_due_ = local_steps_;
  floats_ = fields.Number<uint64_t>();
  stride_ = fields.Number<uint64_t>();
  const auto tensors = fields.Number<uint32_t>();
  for (uint32_t i = 0; i < tensors && !fields.broken(); ++i) {
    offsets_.push_back(fields.Number<uint64_t>());
  }
  const auto tables = fields.Number<uint32_t>();
  for (uint32_t i = 0; i < tables && !fields.broken(); ++i) {
    const auto rows = fields.Number<uint64_t>();
    tables_.push_back({rows, fields.Number<uint32_t>()});
  }
  if (joined.kind != MessageKind::kJoined || !fields.ok() || memory_ < 0) {
    return Broken(MONSOON_INTERNAL, "the sidecar's answer is malformed: it is of another build");
  }
  mapped_bytes_ = SharedBytes(stride_);
  void* const mapped = mmap(nullptr, mapped_bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, memory_, 0);
  if (mapped == MAP_FAILED) {
    return {MONSOON_RESOURCE_EXHAUSTED, "no room for three vectors of " + std::to_string(floats_) +
                                            " floats: " + strerror(errno)};
  }
  vectors_ = static_cast<float*>(mapped);
  return {};
}

Result Replica::Leave() {
  if (getpid() != owner_) {
    return CheckReady();
  }
  if (left_) {
    return {};
  }
  left_ = true;
  sidecar_->TellToLeave();
  if (!sidecar_->AwaitEnd(kLeaveTimeoutMs)) {
    return {MONSOON_DEADLINE_EXCEEDED,
            "the sidecar (pid " + std::to_string(sidecar_->pid()) +
                ") did not end within 20 seconds and is killed; the coordinator finds out by "
                "silence"};
  }
  return {};
}

}  // namespace monsoon
