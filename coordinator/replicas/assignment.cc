#include "coordinator/replicas/assignment.h"

namespace monsoon {

Assignment AssignmentOf(const JobRecord& job, const SessionKey& session, const Cluster& cluster,
                        bool is_durable) {
  Assignment assignment;
  *assignment.mutable_session() = session;
  *assignment.mutable_job() = job.plan.job;
  assignment.set_settings_revision(job.plan.settings_revision);
  assignment.set_layout_hash(job.plan.layout_hash);
  assignment.set_max_stripe_bytes(job.plan.max_stripe_bytes);
  assignment.set_connections(cluster.connections());
  for (int shard = 0; shard < cluster.ps_size(); ++shard) {
    assignment.add_shard_address(cluster.ps(shard).address());
    assignment.add_shard_epoch(job.state().shard_epoch(shard));
  }
  // The same for the whole session: a chain pushes again only in its first part.
  assignment.set_keep_pushes(job.plan.job.has_downpour() && is_durable);
  assignment.set_train_fingerprint(job.state().train_fingerprint().value());
  assignment.set_test_fingerprint(job.state().test_fingerprint().value());
  return assignment;
}

}  // namespace monsoon
