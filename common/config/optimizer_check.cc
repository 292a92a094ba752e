#include "common/config/optimizer_check.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/config/location_map.h"
#include "common/config/schedule_shares.h"
#include "common/optimizer/optimizer_groups.h"
#include "common/optimizer/optimizer_kinds.h"
#include "common/optimizer/schedule.h"
#include "common/optimizer/schedule_lengths.h"
#include "common/optimizer/tensor_ranges.h"

namespace monsoon {
namespace {

// Numbers of pushes, or shares of them all: `stop` must then tell how many there are.
void CheckSchedule(const Schedule& schedule, const std::string& path, const Stop& stop,
                   Reporter* reporter) {
  for (const ScheduleLength& length : LengthsOf(schedule)) {
    if (length.pushes != 0 && length.share != 0) {
      reporter->Error(JoinPath(path, length.share_name),
                      absl::StrCat("stands in place of ", length.name), "leave one of them out");
    } else if (length.needed && length.pushes == 0 && length.share == 0) {
      reporter->Error(JoinPath(path, length.name), "must be at least 1");
    }
  }
  if (const std::string complaint = PointsComplaint(schedule.points());
      schedule.has_points() && !complaint.empty()) {
    reporter->Error(JoinPath(path, "points"), complaint,
                    "as in points { point { factor: 1 } point { pushes: 1000 factor: 0.1 } }");
  }
  if (HasShares(schedule) && stop.steps() == 0 && stop.epochs() == 0) {
    reporter->Error(path, "a share is of all pushes until `stop`, which nobody knows here",
                    "set stop.epochs or stop.steps");
  }
}

void CheckKind(const Optimizer& optimizer, const std::string& path, Reporter* reporter) {
  if (optimizer.weight_decay_weights_only() && !Decays(optimizer) &&
      std::ranges::none_of(optimizer.group(), &OptimizerGroup::has_weight_decay)) {
    reporter->Error(JoinPath(path, "weight_decay_weights_only"),
                    "means nothing without weight_decay");
  }
  const OptimizerKind* const kind = FindKind(optimizer);
  if (kind == nullptr) {
    return;
  }
  const std::string name(kind->name());
  if (kind->own_decay != nullptr && optimizer.weight_decay() != 0.0) {
    reporter->Error(JoinPath(path, "weight_decay"),
                    absl::StrCat(name, " has a weight_decay of its own"),
                    absl::StrCat("as in ", kind->own_decay));
  }
  if (const auto problem = kind->check == nullptr ? std::nullopt : kind->check(optimizer)) {
    reporter->Error(JoinPath(path, absl::StrCat(name, ".", problem->field)), problem->message,
                    problem->suggestion);
  }
  if (const char* const field = StateBegunElsewhere(optimizer); field != nullptr) {
    for (const auto& [is_set, part] :
         {std::pair<bool, const char*>{optimizer.has_average(), "average"},
          std::pair<bool, const char*>{optimizer.has_muon(), "muon"}}) {
      if (is_set) {
        reporter->Error(JoinPath(path, part), absl::StrCat("is not for ", name, " with an ", field),
                        "leave one of them out");
      }
    }
  }
}

std::string SomeTensors(const ParameterLayout& layout) {
  constexpr size_t kNamed = 6;
  std::string names;
  for (size_t i = 0; i < std::min(kNamed, layout.tensors().size()); ++i) {
    absl::StrAppend(&names, i == 0 ? "" : ", ", layout.tensors()[i].name);
  }
  return absl::StrCat("tensors are ", names, layout.tensors().size() > kNamed ? ", ..." : "");
}

void CheckGroup(const Optimizer& optimizer, int index, const std::string& path,
                const std::optional<ParameterLayout>& layout, Reporter* reporter) {
  const OptimizerGroup& group = optimizer.group(index);
  if (const auto problem = GroupProblem(optimizer, group)) {
    reporter->Error(JoinPath(path, std::string(problem->field)), problem->message,
                    problem->suggestion);
    return;
  }
  if (!layout.has_value()) {
    return;
  }
  if (const auto idle = FindIdlePattern(optimizer, index, *layout)) {
    reporter->Error(
        JoinPath(path, "tensors"),
        absl::StrCat("\"", idle->pattern,
                     idle->taken ? "\" names tensors of earlier groups alone"
                                 : "\" names no tensor of the model"),
        idle->taken ? "a tensor is of the first group that names it" : SomeTensors(*layout));
  }
}

}  // namespace

void CheckOptimizer(const Optimizer& optimizer, const std::string& path, const Stop& stop,
                    const std::optional<ParameterLayout>& layout, Reporter* reporter) {
  CheckKind(optimizer, path, reporter);
  CheckSchedule(optimizer.schedule(), JoinPath(path, "schedule"), stop, reporter);
  if (optimizer.group_size() > kMaxOptimizerGroups) {
    reporter->Error(
        JoinPath(path, "group"),
        absl::StrCat(optimizer.group_size(), " groups are more than ", kMaxOptimizerGroups));
  } else if (FindKind(optimizer) != nullptr) {
    for (int i = 0; i < optimizer.group_size(); ++i) {
      CheckGroup(optimizer, i, JoinPath(path, absl::StrCat("group[", i, "]")), layout, reporter);
    }
  }
}

void CheckMuon(const Downpour& downpour, const Model& model,
               const std::optional<ParameterLayout>& layout, Reporter* reporter) {
  if (downpour.optimizer().has_muon()) {
    reporter->Error(
        "downpour.optimizer.muon",
        "moves whole matrices, and the shards have slices of equal size, which cut them",
        "put it where replicas take steps by themselves: local { steps: 50 inner { "
        "adam_w { rate: 0.001 } muon { rate: 0.02 } } }; a program in Python gives "
        "torch.optim.Muon to Local");
  }
  const Optimizer& inner = downpour.local().inner();
  // Programs may have no inner optimizer at all, which is told elsewhere.
  if (!inner.has_muon() || !layout.has_value() || layout->layers().empty()) {
    return;
  }
  if (TensorRanges::OfModel(model, *layout, inner).matrices.empty()) {
    reporter->Error("downpour.local.inner.muon",
                    "the model has no matrix for it: no weight of two dimensions or more that is "
                    "no embedding's and that no group names",
                    absl::StrCat("leave it out; ", SomeTensors(*layout)));
  }
}

}  // namespace monsoon
