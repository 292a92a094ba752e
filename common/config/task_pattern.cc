#include "common/config/task_pattern.h"

#include <algorithm>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/base/shorten.h"
#include "common/config/cluster.h"
#include "common/config/suggest.h"

namespace monsoon {
namespace {

constexpr size_t kMaxShown = 40;

const std::vector<std::string>& Roles() {
  static const auto* const roles = new std::vector<std::string>{"coordinator", "ps", "worker"};
  return *roles;
}

absl::Status Wrong(const std::string& text, absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat("\"", Shorten(text, kMaxShown), "\" ", why));
}

}  // namespace

bool TaskPattern::Matches(const std::string& task) const {
  const size_t slash = task.find('/');
  uint32_t number = 0;
  if (slash == std::string::npos || !absl::SimpleAtoi(task.substr(slash + 1), &number)) {
    return false;
  }
  return (role.empty() || role == task.substr(0, slash)) && (!index || *index == number);
}

absl::StatusOr<TaskPattern> ParseTaskPattern(const std::string& text) {
  if (text == "*") {
    return TaskPattern();
  }
  const size_t slash = text.find('/');
  TaskPattern pattern{.role = text.substr(0, slash)};
  if (std::ranges::find(Roles(), pattern.role) == Roles().end()) {
    const std::string hint = DidYouMean(pattern.role, Roles());
    return Wrong(text, absl::StrCat("is no task: there are coordinator/0, ps/N and worker/N",
                                    hint.empty() ? "" : "; ", hint));
  }
  const std::string number = slash == std::string::npos ? "" : text.substr(slash + 1);
  if (number.empty()) {
    return Wrong(text, absl::StrCat("does not say which; write ", pattern.role, "/0, or ",
                                    pattern.role, "/* for any"));
  }
  if (number == "*") {
    return pattern;
  }
  uint32_t index = 0;
  if (!absl::SimpleAtoi(number, &index) || index >= kMaxTasksOfAKind ||
      number != absl::StrCat(index)) {
    return Wrong(text, absl::StrCat("is no task: after the / stands a number below ",
                                    kMaxTasksOfAKind, ", or * for any"));
  }
  if (pattern.role == "coordinator" && index != 0) {
    return Wrong(text, "is no task: a cluster has one coordinator; write coordinator/0");
  }
  pattern.index = index;
  return pattern;
}

}  // namespace monsoon
