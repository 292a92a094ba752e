#include "coordinator/launcher/root_cause_box.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace monsoon {

std::string RootCauseBox(const std::string& task, pid_t pid, const ProcessEnd& end,
                         absl::Duration lived, const std::deque<std::string>& last_lines,
                         absl::string_view consequence) {
  std::string box = absl::StrFormat("+---- %s died: %s; pid %d, after %.1f s\n", task,
                                    end.Describe(), pid, absl::ToDoubleSeconds(lived));
  absl::StrAppend(&box,
                  last_lines.empty() ? "| it has logged nothing\n" : "| last lines of its log:\n");
  for (const std::string& line : last_lines) {
    absl::StrAppend(&box, "|   ", line, "\n");
  }
  absl::StrAppend(&box, "| ", consequence, "\n+----\n");
  return box;
}

}  // namespace monsoon
