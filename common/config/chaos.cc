#include "common/config/chaos.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/base/status.h"
#include "common/config/load_text.h"
#include "common/config/range_check.h"
#include "common/config/reporter.h"
#include "common/config/task_pattern.h"
#include "common/settings/number_rule.h"

namespace monsoon {
namespace {

using Fault = ChaosPlan::Fault;

// Each is looked at many times a second; more than anybody writes.
constexpr int kMaxFaults = 1000;

class ChaosCheck {
 public:
  explicit ChaosCheck(Reporter* reporter) : reporter_(*reporter) {}

  void Run(const ChaosPlan& plan) {
    if (plan.fault_size() == 0) {
      reporter_.Error("fault", "a plan needs at least one fault",
                      "add fault { task: \"ps/0\" kind: KILL }");
    }
    if (plan.fault_size() > kMaxFaults) {
      reporter_.Error(absl::StrCat("fault[", kMaxFaults, "]"),
                      absl::StrCat(plan.fault_size(), " entries are more than ", kMaxFaults));
    }
    for (int i = 0; i < std::min(plan.fault_size(), kMaxFaults); ++i) {
      CheckFault(plan.fault(i), absl::StrCat("fault[", i, "]"));
    }
    CheckRanges(plan, "", &reporter_);
  }

 private:
  void CheckFault(const Fault& fault, const std::string& path) {
    CheckTasks(fault, path + ".task");
    if (!fault.has_kind()) {
      reporter_.Error(path + ".kind", "no kind is set", "write KILL, TERMINATE, STOP or SLOW");
    } else if (!reporter_.Refused(path + ".kind")) {
      CheckLength(fault, path);
    }
    CheckSpan(fault.lasts_s(), path + ".lasts_s");
    CheckSpan(fault.pause_s(), path + ".pause_s");
    if (fault.times() != 0 && fault.until_the_end()) {
      reporter_.Error(path + ".times", "it goes on until_the_end, so nobody counts",
                      "keep one of them");
    }
  }

  void CheckTasks(const Fault& fault, const std::string& path) {
    if (fault.task_size() == 0) {
      reporter_.Error(path, "no task is named", "as in task: \"ps/0\", \"worker/*\" or \"*\"");
    }
    for (int i = 0; i < fault.task_size(); ++i) {
      if (const auto pattern = ParseTaskPattern(fault.task(i)); !pattern.ok()) {
        reporter_.Error(absl::StrCat(path, "[", i, "]"), std::string(pattern.status().message()));
      }
    }
  }

  void CheckLength(const Fault& fault, const std::string& path) {
    const bool slow = fault.kind() == Fault::SLOW;
    const bool lasts = slow || fault.kind() == Fault::STOP;
    const std::string kind = Fault::Kind_Name(fault.kind());
    if (lasts && !fault.has_lasts_s()) {
      reporter_.Error(path + ".lasts_s", absl::StrCat("a ", kind, " must end"),
                      "as in lasts_s { min: 1 max: 2 }");
    } else if (lasts && fault.lasts_s().min() == 0 && fault.lasts_s().max() == 0) {
      reporter_.Error(path + ".lasts_s", absl::StrCat("a ", kind, " of 0 s is none"),
                      "as in lasts_s { min: 1 max: 2 }");
    } else if (!lasts && fault.has_lasts_s()) {
      reporter_.Error(path + ".lasts_s", absl::StrCat("a ", kind, " has no length"),
                      "leave it out, or write kind: STOP");
    }
    if (!slow && fault.share() != 0) {
      reporter_.Error(path + ".share", absl::StrCat("a ", kind, " has no share"),
                      "leave it out, or write kind: SLOW");
    }
    if (!slow && fault.period_s() != 0) {
      reporter_.Error(path + ".period_s", absl::StrCat("a ", kind, " has no periods"),
                      "leave it out, or write kind: SLOW");
    }
  }

  void CheckSpan(const ChaosPlan::Span& span, const std::string& path) {
    if (span.has_max() && span.max() < span.min()) {
      reporter_.Error(path + ".max", absl::StrCat(span.max(), " is less than min, ", span.min()),
                      "swap them");
    }
  }

  Reporter& reporter_;
};

void FillSpan(ChaosPlan::Span* span) {
  if (!span->has_max()) {
    span->set_max(span->min());
  }
}

}  // namespace

void FillChaosDefaults(ChaosPlan* plan) {
  FillUnset(plan);
  for (Fault& fault : *plan->mutable_fault()) {
    std::vector<absl::string_view> meaningless;
    if (fault.until_the_end()) {
      meaningless.push_back("times");
    }
    if (fault.kind() != Fault::SLOW) {
      meaningless.insert(meaningless.end(), {"share", "period_s"});
    }
    FillUnset(&fault, meaningless);
    if (fault.has_lasts_s()) {
      FillSpan(fault.mutable_lasts_s());
    }
    FillSpan(fault.mutable_pause_s());
  }
}

absl::Status ValidateChaosPlan(const ChaosPlan& plan) {
  return CheckWithoutFile([&](Reporter* reporter) { ChaosCheck(reporter).Run(plan); });
}

absl::StatusOr<ChaosPlan> LoadChaosPlan(const std::string& path,
                                        std::vector<Diagnostic>* diagnostics,
                                        const std::string* contents) {
  ChaosPlan plan;
  RETURN_IF_ERROR(LoadText(
      path, &plan, [&](Reporter* reporter) { ChaosCheck(reporter).Run(plan); }, diagnostics,
      contents));
  FillChaosDefaults(&plan);
  return plan;
}

}  // namespace monsoon
