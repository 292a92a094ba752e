#include "coordinator/cli/checkpoint_lookup.h"
#include "coordinator/cli/checkpoint_report.h"
#include "coordinator/cli/model_commands.h"

namespace monsoon {

int RunInspect(Invocation& call) {
  bool json = false;
  const ClusterFlag cluster(&call);
  call.flags().Add("json", &json, "one JSON object on the standard output");
  if (const std::optional<int> code = call.Parse(1, 1)) {
    return *code;
  }
  const CheckpointLookup lookup(call.env(), &cluster);
  const absl::StatusOr<CheckpointPlace> place = lookup.Find(call.positional()[0]);
  if (!place.ok()) {
    return call.Fail(place.status());
  }
  const absl::StatusOr<CheckpointReport> report = ReadCheckpoint(call.env().storage, *place);
  if (!report.ok()) {
    return call.Fail(report.status());
  }
  const absl::Time now = call.env().clock->WallTime();
  if (json) {
    call.Print(CheckpointJson(*report, now));
  } else {
    *call.env().out << CheckpointReportText(*report, now);
  }
  const absl::Status status = report->status();
  return status.ok() ? kExitOk : call.Fail(status);
}

}  // namespace monsoon
