#include "ps_server/shard/sessions_to_open.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/base/shorten.h"
#include "common/base/status.h"
#include "ps_server/shard/shard_job_plan.h"

namespace monsoon {

absl::StatusOr<std::vector<SessionId>> SessionsToOpen(const RestoreShardJobRequest& request) {
  if (request.session_size() > kMaxRestoredSessions) {
    return absl::InvalidArgumentError(absl::StrCat(
        request.session_size(), " sessions to restore; the limit is ", kMaxRestoredSessions));
  }
  std::map<uint32_t, uint64_t> newest;
  for (const SessionKey& session : request.session()) {
    if (session.job() != request.create().job() ||
        session.job_term() != request.create().job_term()) {
      return absl::InvalidArgumentError(
          absl::StrCat("a session of job \"", Shorten(session.job(), kMaxJobName), "\" of term ",
                       session.job_term(), " in a request to restore job \"",
                       Shorten(request.create().job(), kMaxJobName), "\" of term ",
                       request.create().job_term()));
    }
    uint64_t& incarnation = newest[session.worker()];
    incarnation = std::max(incarnation, session.incarnation());
  }
  std::vector<SessionId> open;
  for (const auto& [worker, incarnation] : newest) {
    open.push_back({worker, incarnation});
  }
  return open;
}

absl::StatusOr<std::map<SessionId, SessionOwner>> OwnersToBind(
    const RestoreShardJobRequest& request) {
  const int members = request.session_member_size();
  if (members != 0 && members != request.session_size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("a request to restore job \"", Shorten(request.create().job(), kMaxJobName),
                     "\" has ", request.session_size(), " sessions of ", members, " members"));
  }
  std::map<SessionId, SessionOwner> owners;
  for (int i = 0; i < request.session_size(); ++i) {
    const SessionKey& session = request.session(i);
    SessionOwner& owner = owners[{session.worker(), session.incarnation()}];
    if (members != 0) {
      ASSIGN_OR_RETURN(owner, ParseMemberId(request.session_member(i)));
    }
  }
  return owners;
}

}  // namespace monsoon
