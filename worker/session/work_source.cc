#include "worker/session/work_source.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "common/base/logging.h"
#include "common/base/status.h"

namespace monsoon {
namespace {

constexpr absl::Duration kFirstPause = absl::Milliseconds(50);
constexpr absl::Duration kLongestPause = absl::Seconds(1);

// In place of an earlier one of the same stream.
void AddPosition(StreamPosition position, NextWorkRequest* request) {
  for (StreamPosition& earlier : *request->mutable_stream()) {
    if (earlier.name() == position.name()) {
      earlier = std::move(position);
      return;
    }
  }
  *request->add_stream() = std::move(position);
}

}  // namespace

bool IsTransient(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status) ||
         absl::IsCancelled(status) || absl::IsResourceExhausted(status);
}

WorkSource::WorkSource(ReplicaClient* client, SessionKey session, const StatsCollector* stats,
                       SessionControl* control)
    : client_(client), session_(std::move(session)), stats_(stats), control_(control) {}

NextWorkRequest WorkSource::MakeRequest(FinishedWork done) {
  NextWorkRequest request;
  *request.mutable_session() = session_;
  request.set_request(++request_);
  request.set_no_more_samples(no_more_samples_);
  request.set_end_job(end_job_);
  for (DonePart& part : done.parts) {
    if (BlockId* const block = std::get_if<BlockId>(&part)) {
      *request.add_done() = std::move(*block);
    } else {
      AddPosition(std::get<StreamPosition>(std::move(part)), &request);
    }
  }
  for (ContributionResult& result : done.contributions) {
    *request.add_contribution() = std::move(result);
  }
  request.mutable_ready_epoch()->Assign(done.ready_epochs.begin(), done.ready_epochs.end());
  request.mutable_durable_in()->Assign(done.durable_in.begin(), done.durable_in.end());
  request.set_pushes(done.pushes);
  if (done.synchronous) {
    *request.mutable_synchronous() = *std::move(done.synchronous);
  }
  return request;
}

absl::StatusOr<NextWorkReply> WorkSource::Next(FinishedWork done) {
  NextWorkRequest request = MakeRequest(std::move(done));
  absl::Duration pause = kFirstPause;
  while (true) {
    *request.mutable_stats() = stats_->Snapshot();
    absl::StatusOr<NextWorkReply> reply = client_->NextWork(request);
    if (reply.ok()) {
      control_->Heard();
      if (reply->request() != request.request()) {
        return absl::InternalError(absl::StrCat("coordinator answered request ", reply->request(),
                                                " to request ", request.request()));
      }
      return reply;
    }
    if (!IsTransient(reply.status())) {
      return absl::FailedPreconditionError(
          absl::StrCat("no more work from the coordinator: ", reply.status().message()));
    }
    LOG(DEBUG) << "asking for work again: " << std::string(reply.status().message());
    if (control_->Sleep(pause) != SessionControl::State::kRunning) {
      return absl::CancelledError("session ends while asking for work");
    }
    pause = std::min(pause * 2, kLongestPause);
  }
}

absl::Status WorkSource::ReportLast(FinishedWork done, absl::Duration patience) {
  NextWorkRequest request = MakeRequest(std::move(done));
  absl::Duration pause = kFirstPause;
  while (true) {
    *request.mutable_stats() = stats_->Snapshot();
    const absl::Status status = client_->NextWork(request).status();
    if (status.ok() || !IsTransient(status) || patience < pause ||
        control_->Sleep(pause) == SessionControl::State::kStop) {
      return status;
    }
    patience -= pause;
    pause = std::min(pause * 2, kLongestPause);
  }
}

}  // namespace monsoon
