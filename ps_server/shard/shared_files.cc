#include "ps_server/shard/shared_files.h"

#include <vector>

namespace monsoon {

void SharedFiles::Add(const std::shared_ptr<ShardJob>& made) {
  std::vector<std::shared_ptr<ShardJob>> jobs;  // whoever holds one last frees it: not locked
  {
    MutexLock lock(&mutex_);
    std::erase_if(jobs_, [](const auto& job) { return job.expired(); });
    jobs_.push_front(made);
    for (const std::weak_ptr<ShardJob>& each : jobs_) {
      if (std::shared_ptr<ShardJob> job = each.lock()) {
        jobs.push_back(std::move(job));
      }
    }
  }
  size_t idle = 0;
  for (const std::shared_ptr<ShardJob>& job : jobs) {
    if (job != made && job->sessions()->IsIdle() && ++idle > kIdle) {
      job->sessions()->CloseFile();
    }
  }
}

}  // namespace monsoon
