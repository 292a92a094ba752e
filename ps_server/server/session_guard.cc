#include "ps_server/server/session_guard.h"

#include <optional>

#include "ps_server/shard/session_table.h"

namespace monsoon {

SessionKey* SessionOf(DataHeader* request) {
  switch (request->kind_case()) {
    case DataHeader::kPush:
      return request->mutable_push()->mutable_session();
    case DataHeader::kFetch:
      return request->fetch().read_only() ? nullptr : request->mutable_fetch()->mutable_session();
    case DataHeader::kWrite:
      return request->write().has_session() ? request->mutable_write()->mutable_session() : nullptr;
    case DataHeader::kContribute:
      return request->mutable_contribute()->mutable_session();
    case DataHeader::kMarks:
      return request->mutable_marks()->mutable_session();
    case DataHeader::kRowPush:
      return request->mutable_row_push()->mutable_session();
    case DataHeader::kRowFetch:
      return request->row_fetch().read_only() ? nullptr
                                              : request->mutable_row_fetch()->mutable_session();
    default:
      return nullptr;
  }
}

absl::Status GuardSession(const Shard& shard, const Caller& caller, DataHeader* request) {
  SessionKey* const session = caller.open ? nullptr : SessionOf(request);
  if (session == nullptr) {
    return absl::OkStatus();
  }
  std::optional<absl::Status> its_own = shard.CheckOwner(*session, caller);
  if (!its_own.has_value()) {
    session->set_incarnation(kNoIncarnation);
    return absl::OkStatus();
  }
  return *std::move(its_own);
}

}  // namespace monsoon
