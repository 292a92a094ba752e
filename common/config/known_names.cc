#include "common/config/known_names.h"

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "common/codec/wire_formats.h"
#include "common/optimizer/optimizer_kinds.h"

namespace monsoon {
namespace {

// Of other frameworks, and nowhere here.
constexpr absl::string_view kNoOptimizers = "adamax nadam adadelta lion lamb";
constexpr absl::string_view kRates = "lr eta step_size";

struct KnownName {
  absl::string_view type;
  absl::string_view names;  // in lower case, with a space between them
  const char* hint;
};

constexpr char kWriteWorkers[] =
    "write workers: it counts worker processes; how many replicas each has is said in the cluster "
    "file (worker { replicas: N })";

constexpr KnownName kKnownNames[] = {
    {"Optimizer", "lbfgs", "that is batch training: a job with sandblaster { }"},
    {"Optimizer", "rate lr learning_rate eta",
     "write it inside the optimizer's kind, as in sgd { rate: 0.1 }"},
    {"Downpour", "replicas num_replicas num_workers", kWriteWorkers},
    {"Sandblaster", "replicas num_replicas num_workers", kWriteWorkers},
    {"Downpour", "quorum grace grace_seconds", "write rounds { quorum: 1 grace_seconds: 2 }"},
    {"Downpour", "synchronous sync barrier",
     "write rounds { }: all workers, with local { steps: N }"},
    {"Downpour", "local_steps", "write local { steps: N }"},
    {"Downpour", "inner", "write local { steps: N inner { ... } }"},
    {"Downpour", "dynamic_local_steps", "write local { steps: N dynamic: true }"},
    {"Downpour", "fragments", "write local { steps: N fragments { count: M } }"},
    {"Downpour", "landing_steps", "write local { steps: N landing_steps: M }"},
    {"Downpour", "mixing", "write local { steps: N mixing: 0.5 }"},
    {"Downpour", "weight", "write local { steps: N weight: STEPS }"},
    {"Downpour", "weight_reference", "write local { steps: N weight_reference: W }"},
    {"LocalSteps", "local_steps n every count h", "write steps"},
    {"LocalSteps", "optimizer inner_optimizer", "write inner { ... }"},
    {"LocalSteps", "dynamic_local_steps", "write dynamic: true"},
    {"Rounds", "grace grace_s grace_window timeout", "write grace_seconds"},
    {"Rounds", "k minimum min_workers workers replicas", "write quorum: workers, 0 for all"},
    {"Downpour", "lr learning_rate rate",
     "write it inside the optimizer, as in optimizer { sgd { rate: 0.1 } }"},
    {"Job", "lr learning_rate rate",
     "write it inside the optimizer, as in downpour { optimizer { sgd { rate: 0.1 } } }"},
    {"Layer", "linear fc fully_connected inner_product", "write dense { units: N }"},
    {"Layer", "softmax log_softmax", "leave it out: the loss applies it to the last layer"},
    {"Layer", "batchnorm bn batch_normalization", "write batch_norm { }"},
    {"Layer", "layernorm ln layer_normalization", "write layer_norm { }"},
    {"Layer", "attention mha multi_head_attention", "write self_attention { heads: N }"},
    {"Layer", "gru rnn", "write lstm { units: N }"},
    {"Loss", "mse l2 squared_error regression", "write MEAN_SQUARED_ERROR"},
    {"Loss", "mae l1 huber hinge smooth_l1",
     "there are SOFTMAX_CROSS_ENTROPY, ONE_VERSUS_ALL_LOGISTIC, BINARY_CROSS_ENTROPY and "
     "MEAN_SQUARED_ERROR"},
    {"Loss", "bce log_loss logistic sigmoid bce_with_logits", "write BINARY_CROSS_ENTROPY"},
    {"Loss", "cross_entropy crossentropy categorical_crossentropy nll xent softmax",
     "write SOFTMAX_CROSS_ENTROPY"},
    {"Device", "gpu nvidia cuda0", "write CUDA"},
    {"Job", "checkpoints checkpoint_every save_every save_interval checkpoint_interval",
     "write checkpoint { every_seconds: 10 }"},
    {"Job", "checkpoint_dir state_dir output_dir save_dir",
     "checkpoints are kept in the folder that the cluster file names (state_dir)"},
    {"Checkpoint", "every seconds interval period every_s interval_s save_every",
     "write every_seconds"},
    {"Checkpoint", "steps pushes every_steps save_steps",
     "write every_pushes: pushes that each shard has applied"},
    {"Checkpoint", "dir folder path directory state_dir",
     "they are kept in the folder that the cluster file names (state_dir)"},
    {"Checkpoint", "on enable enabled", "they are written unless it says off: true"},
    {"Cluster", "checkpoint_dir state_folder state_directory storage_dir data_dir",
     "write state_dir"},
    {"Cluster", "keep_jobs max_ended_jobs keep_checkpoints", "write keep_ended_jobs"},
    {"Precision", "fp32 float single f32", "write FLOAT32"},
    {"Precision", "fp16 half f16", "write FLOAT16"},
    {"Precision", "bf16", "write BFLOAT16"},
    {"ChaosPlan", "duration duration_s for_s seconds_s time", "write seconds"},
    {"ChaosPlan", "kill stop terminate slow action", "write fault { task: \"ps/0\" kind: KILL }"},
    {"Fault", "action signal type", "write kind: KILL, TERMINATE, STOP or SLOW"},
    {"Fault", "target who pid role node process", "write task: \"ps/0\", \"worker/*\" or \"*\""},
    {"Fault", "duration duration_s seconds stop_s length_s", "write lasts_s { min: 1 max: 2 }"},
    {"Fault", "interval every every_s wait_s delay_s", "write pause_s { min: 1 max: 2 }"},
    {"Fault", "repeat count number", "write times: 3, or until_the_end: true"},
    {"Kind", "sigkill crash die", "write KILL"},
    {"Kind", "sigterm term quit drain", "write TERMINATE"},
    {"Kind", "sigstop pause freeze hang", "write STOP"},
    {"Kind", "throttle delay", "write SLOW"},
};

bool IsOneOf(absl::string_view name, absl::string_view names) {
  return !names.empty() && absl::c_linear_search(absl::StrSplit(names, ' '), name);
}

// Of optimizers, which stand in their table.
std::string HintForOptimizer(absl::string_view type, absl::string_view name) {
  const bool of_all = type == Optimizer::descriptor()->name();
  if (of_all && IsOneOf(name, kNoOptimizers)) {
    return absl::StrCat("there are ", OptimizerNames("and"));
  }
  for (const OptimizerKind& kind : Optimizers()) {
    if (of_all && IsOneOf(name, kind.other_names)) {
      return absl::StrCat("write ", kind.name());
    }
    if (kind.message() != type) {
      continue;
    }
    for (const OtherNames& field : kind.other_fields) {
      if (IsOneOf(name, field.names)) {
        return field.hint;
      }
    }
    return IsOneOf(name, kRates) ? "write rate" : "";
  }
  return "";
}

// Of wire formats, the same.
std::string HintForFormat(absl::string_view name) {
  for (const FormatTraits& traits : WireFormats()) {
    if (IsOneOf(name, traits.other_names)) {
      return absl::StrCat("write ", traits.name());
    }
  }
  return "";
}

}  // namespace

std::string HintForName(const std::string& type, const std::string& name) {
  const std::string lower = absl::AsciiStrToLower(name);
  for (const KnownName& known : kKnownNames) {
    if (known.type == type && IsOneOf(lower, known.names)) {
      return known.hint;
    }
  }
  return type == WireFormat_descriptor()->name() ? HintForFormat(lower)
                                                 : HintForOptimizer(type, lower);
}

}  // namespace monsoon
