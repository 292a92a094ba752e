// ClusterWatch: the newest that is known of a cluster, without waiting for it: a
// coordinator that is away answers late, and signals are due meanwhile.
#pragma once

#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "coordinator/chaos/cluster_view.h"

namespace monsoon {

// Asks the coordinator once.
using ClusterQuestion = std::function<absl::StatusOr<ClusterView>()>;

struct ClusterNews {
  std::shared_ptr<const ClusterView> view;  // the newest answer; null: none yet
  absl::Status status;                      // of the newest question
};

// Thread safety: one caller.
class ClusterWatch {
 public:
  virtual ~ClusterWatch() = default;
  virtual ClusterNews Newest() = 0;
};

// Asks in a thread of its own, first at once and then `pause` after each answer. The
// question's own deadline bounds how long the destructor takes.
std::unique_ptr<ClusterWatch> WatchInBackground(ClusterQuestion question, absl::Duration pause);

// Asks with each call of Newest, in the caller's thread. For tests.
std::unique_ptr<ClusterWatch> WatchOnDemand(ClusterQuestion question);

}  // namespace monsoon
