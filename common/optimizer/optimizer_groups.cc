#include "common/optimizer/optimizer_groups.h"

#include <fnmatch.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"

namespace monsoon {
namespace {

using ::google::protobuf::FieldDescriptor;
using ::google::protobuf::Message;

// What is not a field of the kind's message, too.
constexpr absl::string_view kRateFactor = "rate_factor";
constexpr absl::string_view kWeightDecay = "weight_decay";

Message* MutableKind(Optimizer* optimizer) {
  const OptimizerKind* const kind = FindKind(*optimizer);
  CHECK(kind != nullptr);
  return optimizer->GetReflection()->MutableMessage(
      optimizer, optimizer->GetDescriptor()->FindFieldByName(std::string(kind->name())));
}

const FieldDescriptor* FieldNamed(const Message& message, absl::string_view name) {
  return message.GetDescriptor()->FindFieldByName(std::string(name));
}

// The numbers that the group sets.
std::vector<const FieldDescriptor*> NumbersOf(const OptimizerGroup& group) {
  std::vector<const FieldDescriptor*> numbers;
  std::vector<const FieldDescriptor*> set;
  group.GetReflection()->ListFields(group, &set);
  std::ranges::copy_if(set, std::back_inserter(numbers), [](const FieldDescriptor* field) {
    return field->cpp_type() == FieldDescriptor::CPPTYPE_DOUBLE;
  });
  return numbers;
}

bool DecaysItself(const Optimizer& optimizer) { return FindKind(optimizer)->own_decay != nullptr; }

}  // namespace

bool IsOfGroup(const OptimizerGroup& group, const std::string& tensor) {
  return std::ranges::any_of(group.tensors(), [&](const std::string& pattern) {
    return fnmatch(pattern.c_str(), tensor.c_str(), FNM_NOESCAPE) == 0;
  });
}

std::optional<int> GroupOf(const Optimizer& optimizer, const std::string& tensor) {
  for (int i = 0; i < optimizer.group_size(); ++i) {
    if (IsOfGroup(optimizer.group(i), tensor)) {
      return i;
    }
  }
  return std::nullopt;
}

Optimizer OfGroup(const Optimizer& optimizer, const OptimizerGroup& group) {
  Optimizer own = optimizer;
  own.clear_group();
  Message* const kind = MutableKind(&own);
  for (const FieldDescriptor* const number : NumbersOf(group)) {
    const double value = group.GetReflection()->GetDouble(group, number);
    if (number->name() == kRateFactor) {
      kind->GetReflection()->SetDouble(kind, FieldNamed(*kind, "rate"), value * RateOf(optimizer));
    } else if (number->name() == kWeightDecay && !DecaysItself(optimizer)) {
      own.set_weight_decay(value);
    } else if (const FieldDescriptor* const field = FieldNamed(*kind, number->name())) {
      kind->GetReflection()->SetDouble(kind, field, value);
    }
  }
  return own;
}

std::optional<FieldProblem> GroupProblem(const Optimizer& optimizer, const OptimizerGroup& group) {
  const std::vector<const FieldDescriptor*> numbers = NumbersOf(group);
  if (group.tensors().empty()) {
    return FieldProblem{"tensors", "the group names no tensors", "as in tensors: \"*bias\""};
  }
  if (group.frozen() && !numbers.empty()) {
    return FieldProblem{numbers.front()->name(), "means nothing with frozen: nothing moves",
                        "leave one of them out"};
  }
  if (!group.frozen() && numbers.empty()) {
    return FieldProblem{"tensors", "the group has nothing of its own",
                        "as in weight_decay: 0, rate_factor: 0.1 or frozen: true"};
  }
  if (group.has_rate() && group.has_rate_factor()) {
    return FieldProblem{kRateFactor, "stands in place of rate", "leave one of them out"};
  }
  Optimizer whole = optimizer;
  const Message& kind = *MutableKind(&whole);
  const std::string name(FindKind(optimizer)->name());
  for (const FieldDescriptor* const number : numbers) {
    if (number->name() != kRateFactor && number->name() != kWeightDecay &&
        FieldNamed(kind, number->name()) == nullptr) {
      return FieldProblem{number->name(), absl::StrCat(name, " has no ", number->name()),
                          "leave it out"};
    }
  }
  if (group.frozen()) {
    return std::nullopt;
  }
  const Optimizer own = OfGroup(optimizer, group);
  if (OptimizerStateSlots(own) != OptimizerStateSlots(optimizer)) {
    return FieldProblem{"momentum",
                        absl::StrCat("a group has a momentum where the optimizer has one, and none "
                                     "where it has none: ",
                                     name, " keeps as much state for each parameter"),
                        absl::StrCat("write a small one in place of 0")};
  }
  if (const auto check = FindKind(own)->check; check != nullptr) {
    if (const std::optional<FieldProblem> problem = check(own)) {
      return problem;
    }
  }
  return std::nullopt;
}

std::optional<IdlePattern> FindIdlePattern(const Optimizer& optimizer, int group,
                                           const ParameterLayout& layout) {
  for (const std::string& pattern : optimizer.group(group).tensors()) {
    OptimizerGroup alone;
    alone.add_tensors(pattern);
    bool named = false, owned = false;
    for (const TensorInfo& tensor : layout.tensors()) {
      if (IsOfGroup(alone, tensor.name)) {
        named = true;
        owned |= GroupOf(optimizer, tensor.name) == group;
      }
    }
    if (!owned) {
      return IdlePattern{pattern, named};
    }
  }
  return std::nullopt;
}

absl::Status CheckGroups(const Optimizer& optimizer) {
  if (optimizer.group_size() > kMaxOptimizerGroups) {
    return absl::InvalidArgumentError(absl::StrCat("optimizer has ", optimizer.group_size(),
                                                   " groups, more than ", kMaxOptimizerGroups));
  }
  for (int i = 0; i < optimizer.group_size(); ++i) {
    const OptimizerGroup& group = optimizer.group(i);
    const std::string path = absl::StrCat("optimizer.group[", i, "]");
    if (const auto problem = GroupProblem(optimizer, group)) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ".", problem->field, ": ", problem->message));
    }
    if (!group.frozen()) {
      RETURN_IF_ERROR(Annotate(CheckOptimizer(OfGroup(optimizer, group)), path));
    }
  }
  return absl::OkStatus();
}

}  // namespace monsoon
