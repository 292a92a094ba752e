#include "ps_server/vector/operation_log.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"

namespace monsoon {

absl::StatusOr<const VectorReply*> OperationLog::Find(const VectorRequest& request) const {
  const uint64_t id = request.op_id();
  if (id == last_ + 1) {
    return nullptr;
  }
  if (id > last_) {
    return absl::FailedPreconditionError(
        absl::StrCat("operation ", id, " came where ", last_ + 1, " was expected"));
  }
  if (id == 0 || last_ - id >= done_.size()) {
    return absl::FailedPreconditionError(absl::StrCat("operation ", id,
                                                      " is too old: the last one was ", last_,
                                                      ", and replies are kept for ", done_.size()));
  }
  const Done& done = done_[done_.size() - 1 - (last_ - id)];
  if (done.request != request.SerializeAsString()) {
    return absl::FailedPreconditionError(
        absl::StrCat("operation ", id, " was done before with other content"));
  }
  return &done.reply;
}

uint64_t OperationLog::BytesFor(const VectorRequest& request, uint64_t scalars) {
  constexpr uint64_t kAllocations = 64;  // the allocator's own bytes
  return sizeof(Done) + request.ByteSizeLong() + scalars * sizeof(double) + kAllocations;
}

void OperationLog::Record(const VectorRequest& request, VectorReply reply,
                          MemoryBudget::Reservation memory) {
  CHECK_EQ(request.op_id(), last_ + 1);
  last_ = request.op_id();
  done_.push_back({request.SerializeAsString(), std::move(reply), std::move(memory)});
  if (done_.size() > kKeptReplies) {
    done_.pop_front();
  }
}

}  // namespace monsoon
