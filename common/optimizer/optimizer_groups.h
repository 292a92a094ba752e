// Optimizer.group: what some of a model's tensors have otherwise (proto/optimizer.proto).
//
// Thread safety: pure functions.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "common/model/parameter_layout.h"
#include "common/optimizer/optimizer_kinds.h"
#include "proto/optimizer.pb.h"

namespace monsoon {

inline constexpr int kMaxOptimizerGroups = 64;

// Whether one of the group's patterns is the whole of `tensor`.
bool IsOfGroup(const OptimizerGroup& group, const std::string& tensor);

// The number of the first group that names the tensor; nothing: none does.
std::optional<int> GroupOf(const Optimizer& optimizer, const std::string& tensor);

// The optimizer of the tensors of `group`, one of `optimizer`'s: without groups, and with the
// group's numbers where it has any. Not of a frozen one.
Optimizer OfGroup(const Optimizer& optimizer, const OptimizerGroup& group);

// What is wrong with a group beside the ranges of its numbers; the field is the group's.
// `optimizer` has a kind.
std::optional<FieldProblem> GroupProblem(const Optimizer& optimizer, const OptimizerGroup& group);

// Which pattern of the group names no tensor of the model, or none that no group before it has.
struct IdlePattern {
  std::string pattern;
  bool taken = false;  // groups before it have them all
};
std::optional<IdlePattern> FindIdlePattern(const Optimizer& optimizer, int group,
                                           const ParameterLayout& layout);

// All of it, for those that get an optimizer from elsewhere. InvalidArgument names the field.
absl::Status CheckGroups(const Optimizer& optimizer);

}  // namespace monsoon
