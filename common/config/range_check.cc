#include "common/config/range_check.h"

#include <google/protobuf/descriptor.h>

#include <limits>
#include <span>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "common/base/number_rule.h"
#include "common/config/job_limits.h"
#include "common/config/location_map.h"
#include "common/optimizer/optimizer_kinds.h"
#include "proto/model.pb.h"

namespace monsoon {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

constexpr double kLargest = kLargestFloat;
constexpr double kSmallest = kSmallestFloat;
// The largest that is finite once rounded to float32.
constexpr double kRoundsToFloat = 0x1.fffffefffffffp127;
constexpr double kAboveZero = std::numeric_limits<double>::denorm_min();
// Seconds and epochs that no job reaches; catches slipped units and infinities.
constexpr double kMaxAmount = 1e9;
// A model fetched or a gradient pushed less often than this has lost touch.
constexpr uint32_t kMaxSteps = 65536;
// Of workers, which programs may join in any number.
constexpr uint32_t kMaxQuorum = 4096;
constexpr uint32_t kMaxFragments = 1024;
// More workers than any cluster has.
constexpr uint32_t kMaxWorkers = 4096;
constexpr uint32_t kMaxExtent = 1u << 24;  // as ParameterLayout has it
constexpr double kHourMs = 3600 * 1000;
constexpr double kDayMs = 24 * kHourMs;
constexpr double kHourSeconds = 3600;
constexpr double kDaySeconds = 24 * kHourSeconds;
// Shorter than it takes to write anything; catches slipped units.
constexpr double kLeastCheckpointSeconds = 0.1;

constexpr char kNotFloat[] = "$0 is not a finite float32";
constexpr char kNegativeFloat[] = "$0 is not a finite float32 of at least 0";
constexpr char kNoAmount[] = "$0 is outside 0 .. 1e+09";
constexpr char kOverAnHour[] = "$0 ms is more than an hour";
constexpr char kNoSeconds[] = "$0 is outside 0 .. $1 seconds";

// But for those of optimizers, which stand in their table.
constexpr NumberRule kRanges[] = {
    {"WorkerTask.threads", 0, 1024, "$0 threads are more than $1"},
    {"WorkerTask.replicas", 0, 64, "$0 replicas are more than $1"},
    {"WorkerTask.device_index", 0, 1023, "$0 is no device; GPUs count from 0"},
    {"WorkerTask.device_memory_limit_mib", 0, 1 << 20, "$0 MiB are more than $1"},
    {"Cluster.lost_after_ms", 0, kHourMs, kOverAnHour},
    {"Cluster.ps_lost_after_ms", 0, kHourMs, kOverAnHour},
    {"Cluster.rpc_deadline_ms", 0, kHourMs, kOverAnHour},
    {"Cluster.worker_wait_ms", 0, kDayMs, "$0 ms is more than a day"},
    {"Cluster.keep_ended_jobs", 0, 10000, "$0 jobs are more than $1"},
    {"Dense.units", 1, kMaxExtent, kTooMany},
    {"Conv2d.filters", 1, kMaxExtent, kTooMany},
    {"Conv2d.kernel", 1, kMaxExtent, kTooMany},
    {"Conv2d.stride", 0, kMaxExtent, kTooMany},
    {"Pool2d.window", 1, kMaxExtent, kTooMany},
    {"Pool2d.stride", 0, kMaxExtent, kTooMany},
    {"Dropout.rate", 0, kBelowOneFloat, "$0 is outside [0, 1)"},
    {"LocallyConnected2d.filters", 1, kMaxExtent, kTooMany},
    {"LocallyConnected2d.kernel", 1, kMaxExtent, kTooMany},
    {"LocallyConnected2d.stride", 0, kMaxExtent, kTooMany},
    {"LocalContrastNorm.window", 3, kMaxExtent, "$0 is outside 3 .. $1", true},
    {"LocalContrastNorm.epsilon", kSmallest, kLargest, kNotPositive, true},
    {"BatchNorm.momentum", kSmallest, 1, "$0 is outside (0, 1]", true},
    {"BatchNorm.epsilon", kSmallest, kLargest, kNotPositive, true},
    {"LayerNorm.epsilon", kSmallest, kLargest, kNotPositive, true},
    {"Embedding.rows", 1, kMaxExtent, kTooMany},
    {"Embedding.columns", 1, kMaxExtent, kTooMany},
    {"Lstm.units", 1, kMaxExtent / 8, kTooMany},
    {"SelfAttention.heads", 0, kMaxExtent, kTooMany},
    {"Rescale.scale", -kLargest, kLargest, kNotFloat},
    {"Rescale.offset", -kLargest, kLargest, kNotFloat},
    {"Augment.shift", 0, kMaxExtent, kTooMany},
    {"Augment.crop", 0, kMaxExtent, kTooMany},
    {"LossSettings.label_smoothing", 0, kBelowOneFloat, "$0 is outside [0, 1)"},
    {"Initializer.constant", -kRoundsToFloat, kRoundsToFloat, kNotFloat},
    {"Initializer.normal", 0, kRoundsToFloat, kNegativeFloat},
    {"Initializer.uniform", 0, kRoundsToFloat, kNegativeFloat},
    {"Dataset.mean", -kLargest, kLargest, kNotFloat},
    {"Dataset.scale", -kLargest, kLargest, kNotFloat},
    {"CsvSource.missing_value", -kRoundsToFloat, kRoundsToFloat, kNotFloat},
    {"SyntheticSource.noise", 0, kLargest, kNegative},
    {"Job.batch_size", 0, kMaxBatch, kTooMany},
    {"Job.stripe_kib", 0, 1024, kTooMany},
    {"Evaluation.batch_size", 0, kMaxBatch, kTooMany},
    {"Evaluation.every_epochs", 0, kMaxAmount, kNoAmount},
    {"Stop.epochs", 0, kMaxAmount, kNoAmount},
    {"Stop.seconds", 0, kMaxAmount, kNoAmount},
    {"Checkpoint.every_seconds", kLeastCheckpointSeconds, kDaySeconds,
     "$0 is outside 0.1 .. $1 seconds", true},
    {"Downpour.n_fetch", 0, kMaxSteps, kTooMany},
    {"Downpour.n_push", 0, kMaxSteps, kTooMany},
    {"Downpour.workers", 0, kMaxWorkers, kTooMany},
    {"LocalSteps.weight_reference", 0, kLargest, kNegative},
    {"LocalSteps.mixing", 0, kBelowOneFloat, "$0 is outside [0, 1)"},
    {"Fragments.count", 2, kMaxFragments, "$0 is outside 2 .. $1"},
    {"Rounds.quorum", 0, kMaxQuorum, kTooMany},
    {"Rounds.grace_seconds", 0, kHourSeconds, kNoSeconds},
    {"LocalUpdate.sgd_rate", kSmallest, kLargest, kNotPositive},
    {"LocalUpdate.adagrad_rate", kSmallest, kLargest, kNotPositive},
    {"Warmstart.seconds", 0, kLargest, kNegative},
    {"StepSchedule.every_pushes", 1, kRoundsToFloat, kTooMany},
    {"StepSchedule.factor", kAboveZero, 1, "$0 is outside (0, 1]"},
    {"CosineSchedule.pushes", 1, kRoundsToFloat, kTooMany},
    {"CosineSchedule.final", 0, 1, "$0 is outside [0, 1]"},
    {"Sandblaster.history", 0, kMaxHistory, kTooMany},
    {"Sandblaster.l2", 0, kLargest, kNegative},
    {"Sandblaster.gradient_tolerance", 0, kLargest, kNegative},
    {"Sandblaster.relative_gradient_tolerance", 0, kLargest, kNegative},
    {"Sandblaster.f_tolerance", 0, kLargest, kNegative},
    {"Sandblaster.target_accuracy", 0, 1, "$0 is outside (0, 1]"},
    {"Sandblaster.workers", 0, kMaxWorkers, kTooMany},
    {"Sandblaster.chunk_examples", 0, kMaxChunk, kTooMany},
    // Keeps a contribution's samples far from the end of 32 bits, as kMaxChunk does.
    {"Sandblaster.chunks_per_contribution", 0, 2048, kTooMany},
    {"LineSearch.max_evaluations", 0, 1000, kTooMany},
    {"ChaosPlan.seconds", 0, kMaxAmount, kNoAmount},
    {"ChaosPlan.back_within_s", 0, kDaySeconds, kNoSeconds},
    {"ChaosPlan.checkpoint_within_s", 0, kDaySeconds, kNoSeconds},
    {"ChaosPlan.Span.min", 0, kDaySeconds, kNoSeconds},
    {"ChaosPlan.Span.max", 0, kDaySeconds, kNoSeconds},
    {"ChaosPlan.Fault.share", 0, kBelowOneFloat, "$0 is outside [0, 1)"},
    // A signal takes some ten microseconds, and who waits for the end wakes a little late.
    {"ChaosPlan.Fault.period_s", 0.01, 10, "$0 is outside 0.01 .. $1 seconds", true},
    {"ChaosPlan.Fault.times", 0, 100000, kTooMany},
    {"ChaosPlan.Fault.from_s", 0, kDaySeconds, kNoSeconds},
};

template <typename Number>
void CheckNumber(const FieldDescriptor& field, Number value, const std::string& path,
                 Reporter* reporter) {
  const auto check = [&](std::span<const NumberRule> rules, absl::string_view name) {
    for (const NumberRule& rule : rules) {
      const std::string complaint = rule.field == name ? NumberComplaint(rule, value) : "";
      if (!complaint.empty()) {
        reporter->Error(path, complaint);
      }
    }
  };
  check(kRanges, absl::StripPrefix(field.full_name(), "monsoon."));
  check(OptimizerNumbers(*field.containing_type()), field.name());
}

// Whether 0 means that another field tells the number.
bool ToldElsewhere(const Message& message, const FieldDescriptor& field) {
  const auto* const dense = google::protobuf::DynamicCastToGenerated<Dense>(&message);
  return dense != nullptr && field.number() == Dense::kUnitsFieldNumber && dense->units() == 0 &&
         !dense->tied_to().empty();
}

}  // namespace

void CheckRanges(const Message& message, const std::string& path, Reporter* reporter) {
  const google::protobuf::Descriptor& type = *message.GetDescriptor();
  const google::protobuf::Reflection& reflection = *message.GetReflection();
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor& field = *type.field(i);
    const std::string inner = JoinPath(path, field.name());
    if (field.is_repeated() && field.message_type() != nullptr) {
      for (int k = 0; k < reflection.FieldSize(message, &field); ++k) {
        CheckRanges(reflection.GetRepeatedMessage(message, &field, k),
                    absl::StrCat(inner, "[", k, "]"), reporter);
      }
      continue;
    }
    if (ToldElsewhere(message, field)) {
      continue;
    }
    if (field.is_repeated() || (field.has_presence() && !reflection.HasField(message, &field))) {
      continue;
    }
    switch (field.cpp_type()) {
      case FieldDescriptor::CPPTYPE_UINT32:
        CheckNumber(field, uint64_t{reflection.GetUInt32(message, &field)}, inner, reporter);
        break;
      case FieldDescriptor::CPPTYPE_UINT64:
        CheckNumber(field, reflection.GetUInt64(message, &field), inner, reporter);
        break;
      case FieldDescriptor::CPPTYPE_DOUBLE:
        CheckNumber(field, reflection.GetDouble(message, &field), inner, reporter);
        break;
      case FieldDescriptor::CPPTYPE_ENUM:
        if (field.enum_type()->FindValueByNumber(reflection.GetEnumValue(message, &field)) ==
            nullptr) {
          // "unknown format" of a push_format.
          reporter->Error(
              inner, absl::StrCat("unknown ", field.name().substr(field.name().rfind('_') + 1)));
        }
        break;
      case FieldDescriptor::CPPTYPE_MESSAGE:
        if (field.full_name() != "monsoon.Job.model" && field.full_name() != "monsoon.Job.stop") {
          CheckRanges(reflection.GetMessage(message, &field), inner, reporter);
        }
        break;
      default:
        break;
    }
  }
}

}  // namespace monsoon
