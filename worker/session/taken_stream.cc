#include "worker/session/taken_stream.h"

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "proto/coordinator.pb.h"
#include "worker/session/work_source.h"

namespace monsoon {
namespace {

constexpr absl::Duration kPause = absl::Milliseconds(200);

}  // namespace

absl::StatusOr<StreamPosition> TakeStream(ReplicaClient* client, const SessionKey& session,
                                          const std::string& stream, SessionControl* control) {
  TakeStreamRequest request;
  *request.mutable_session() = session;
  request.set_stream(stream);
  for (absl::Duration waited;;) {
    const absl::StatusOr<TakeStreamReply> reply = client->TakeStream(request);
    if (!reply.ok() && !IsTransient(reply.status())) {
      return reply.status();
    }
    absl::Duration pause = kPause;
    if (reply.ok()) {
      if (reply->retry_ms() == 0) {
        return reply->position();
      }
      if (waited >= absl::Milliseconds(reply->patience_ms())) {
        return absl::InvalidArgumentError(absl::StrCat(
            "stream ", stream, " is being read by ", reply->held_by(),
            ", which is alive: each program reads streams of its own; give this one another name"));
      }
      pause = absl::Milliseconds(reply->retry_ms());
      waited += pause;
    }
    if (control->Sleep(pause) != SessionControl::State::kRunning) {
      return absl::CancelledError("the session ends while a stream is taken");
    }
  }
}

}  // namespace monsoon
