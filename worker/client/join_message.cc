#include "worker/client/join_message.h"

#include "common/base/version.h"

namespace monsoon {
namespace {

constexpr uint32_t kConnectTimeoutMs = 30000;

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

uint32_t ConnectTimeoutMs(const monsoon_join_options& options) {
  return options.connect_timeout_ms > 0 ? options.connect_timeout_ms : kConnectTimeoutMs;
}

Result WriteJoin(const monsoon_join_options& options, std::string* join) {
  if (options.coordinator == nullptr || options.job == nullptr) {
    return Invalid("coordinator and job must be set");
  }
  if (options.tensor_count == 0 || options.tensors == nullptr) {
    return Invalid("a model needs at least one tensor");
  }
  if (options.format != MONSOON_FLOAT32 && options.format != MONSOON_BFLOAT16) {
    return Invalid("the vectors' format is " + std::to_string(options.format) +
                   ", neither MONSOON_FLOAT32 nor MONSOON_BFLOAT16");
  }
  FieldWriter fields;
  fields.Number(uint32_t{MONSOON_ABI});
  fields.String(kVersion);
  fields.Number(ConnectTimeoutMs(options));
  fields.String(options.coordinator);
  fields.String(options.job);
  fields.Number(static_cast<uint8_t>(options.only_enter != 0));
  if (Result written = WriteTensors(options, &fields); !written.ok()) {
    return written;
  }
  fields.String(options.tables == nullptr ? "" : options.tables);
  fields.Number(static_cast<uint8_t>(options.format));
  fields.Number(uint64_t{options.replay_window_bytes});
  if (fields.bytes().size() > kMaxMessageBytes) {
    return Invalid("the job and the names of its tensors are over 64 MiB");
  }
  *join = fields.bytes();
  return {};
}

Result ReadJoined(const Message& answer, bool with_memory, monsoon_format format, EnteredJob* job) {
  FieldReader fields(answer.fields);
  if (answer.kind == MessageKind::kError) {
    const monsoon_code code = CodeOfStatus(fields.Number<uint32_t>());
    return {code, fields.String()};
  }
  job->name = fields.String();
  job->local_steps = fields.Number<uint32_t>();
  job->values = fields.Number<uint64_t>();
  job->value_bytes = format == MONSOON_BFLOAT16 ? sizeof(uint16_t) : sizeof(float);
  job->stride = fields.Number<uint64_t>();
  const auto tensors = fields.Number<uint32_t>();
  for (uint32_t i = 0; i < tensors && !fields.broken(); ++i) {
    job->offsets.push_back(fields.Number<uint64_t>());
  }
  const auto tables = fields.Number<uint32_t>();
  for (uint32_t i = 0; i < tables && !fields.broken(); ++i) {
    const auto rows = fields.Number<uint64_t>();
    job->tables.push_back({rows, fields.Number<uint32_t>()});
  }
  job->warnings = fields.String();
  return answer.kind == MessageKind::kJoined && fields.ok() && with_memory
             ? Result()
             : Result{MONSOON_INTERNAL,
                      "the sidecar's answer is malformed: it is of another build"};
}

std::vector<FloatRange> DifferencesOf(const monsoon_join_options& options, const EnteredJob& job) {
  std::vector<FloatRange> ranges;
  for (size_t i = 0; i < options.tensor_count; ++i) {
    const monsoon_tensor& tensor = options.tensors[i];
    if (tensor.kind != MONSOON_STATISTIC && job.local_steps == 0) {
      continue;
    }
    size_t count = 1;
    for (size_t d = 0; d < tensor.dimensions; ++d) {
      count *= tensor.shape[d];
    }
    ranges.push_back({job.offset(i), count});
  }
  return ranges;
}

}  // namespace monsoon
