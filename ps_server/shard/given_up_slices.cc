#include "ps_server/shard/given_up_slices.h"

#include <algorithm>

#include "common/base/check.h"
#include "proto/parameter_server.pb.h"

namespace monsoon {

void GivenUpSlices::Deleter::operator()(const ShardJob* slice) const {
  delete slice;  // first: then its memory is free
  MutexLock lock(&slices->mutex_);
  if (slices->slices_.erase(number) > 0) {
    slices->destroyed_.NotifyAll();
  }
}

std::shared_ptr<ShardJob> GivenUpSlices::Watch(std::unique_ptr<ShardJob> slice) {
  uint64_t number = 0;
  {
    MutexLock lock(&mutex_);
    number = ++watched_;
  }
  return {slice.release(), Deleter{this, number}};
}

void GivenUpSlices::Add(const std::shared_ptr<ShardJob>& slice) {
  const Deleter* const deleter = std::get_deleter<Deleter>(slice);
  CHECK(deleter != nullptr);
  const CreateShardJobRequest& request = slice->request();
  MutexLock lock(&mutex_);
  slices_.emplace(deleter->number, JobKey{request.job(), request.job_term()});
}

bool GivenUpSlices::AnyOf(const std::string& job, uint64_t job_term) const {
  MutexLock lock(&mutex_);
  return Has({job, job_term});
}

bool GivenUpSlices::AwaitNoneOf(const std::string& job, uint64_t job_term,
                                absl::Duration patience) const {
  MutexLock lock(&mutex_);
  return destroyed_.WaitFor(&mutex_, patience, [&] {
    mutex_.AssertHeld();
    return !Has({job, job_term});
  });
}

bool GivenUpSlices::Has(const JobKey& job) const {
  return std::ranges::any_of(slices_, [&](const auto& slice) { return slice.second == job; });
}

}  // namespace monsoon
