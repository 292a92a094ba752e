#include "common/config/known_names.h"

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "common/optimizer/optimizer_kinds.h"
#include "proto/setting.pb.h"

namespace monsoon {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::EnumDescriptor;
using google::protobuf::FieldDescriptor;

// Of other frameworks, and nowhere here.
constexpr absl::string_view kNoOptimizers = "adamax nadam adadelta lion lamb";

// Of names that stand for no field or value here.
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
    {"Downpour", "replicas num_replicas num_workers", kWriteWorkers},
    {"Sandblaster", "replicas num_replicas num_workers", kWriteWorkers},
    {"Layer", "softmax log_softmax", "leave it out: the loss applies it to the last layer"},
    {"Loss", "mae l1 huber hinge smooth_l1",
     "there are SOFTMAX_CROSS_ENTROPY, ONE_VERSUS_ALL_LOGISTIC, BINARY_CROSS_ENTROPY and "
     "MEAN_SQUARED_ERROR"},
    {"Job", "checkpoint_dir state_dir output_dir save_dir",
     "checkpoints are kept in the folder that the cluster file names (state_dir)"},
    {"Checkpoint", "dir folder path directory state_dir",
     "they are kept in the folder that the cluster file names (state_dir)"},
    {"Checkpoint", "on enable enabled", "they are written unless it says off: true"},
};

bool IsOneOf(absl::string_view name, absl::string_view names) {
  return !names.empty() && absl::c_linear_search(absl::StrSplit(names, ' '), name);
}

std::string Hint(const KnownAs& known, const std::string& name) {
  return absl::StrCat("write ", known.write().empty() ? name : known.write());
}

// Where `name` is one that `field` has in the message `in`; "": in its own.
std::string HintOfField(const FieldDescriptor& field, absl::string_view name,
                        absl::string_view in) {
  const google::protobuf::FieldOptions& options = field.options();
  for (int i = 0; i < options.ExtensionSize(known_as); ++i) {
    const KnownAs& known = options.GetExtension(known_as, i);
    if (known.in() == in && IsOneOf(name, known.names())) {
      return Hint(known, field.name());
    }
  }
  return "";
}

std::string HintOfFields(const Descriptor& type, absl::string_view name, absl::string_view in) {
  for (int i = 0; i < type.field_count(); ++i) {
    if (std::string hint = HintOfField(*type.field(i), name, in); !hint.empty()) {
      return hint;
    }
  }
  return "";
}

std::string HintForNobodys(absl::string_view type, absl::string_view name) {
  for (const KnownName& known : kKnownNames) {
    if (known.type == type && IsOneOf(name, known.names)) {
      return known.hint;
    }
  }
  const bool is_optimizer = type == Optimizer::descriptor()->name() && IsOneOf(name, kNoOptimizers);
  return is_optimizer ? absl::StrCat("there are ", OptimizerNames("and")) : "";
}

}  // namespace

std::string HintForName(const Descriptor& type, const std::string& name) {
  const std::string lower = absl::AsciiStrToLower(name);
  if (std::string hint = HintOfFields(type, lower, ""); !hint.empty()) {
    return hint;
  }
  for (int i = 0; i < type.field_count(); ++i) {
    if (const Descriptor* const inner = type.field(i)->message_type(); inner != nullptr) {
      if (std::string hint = HintOfFields(*inner, lower, type.name()); !hint.empty()) {
        return hint;
      }
    }
  }
  return HintForNobodys(type.name(), lower);
}

std::string HintForName(const EnumDescriptor& type, const std::string& name) {
  const std::string lower = absl::AsciiStrToLower(name);
  for (int i = 0; i < type.value_count(); ++i) {
    const KnownAs& known = type.value(i)->options().GetExtension(value_known_as);
    if (IsOneOf(lower, known.names())) {
      return Hint(known, type.value(i)->name());
    }
  }
  return HintForNobodys(type.name(), lower);
}

}  // namespace monsoon
