#include "common/security/access.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/peer_text.h"

namespace monsoon {
namespace {

constexpr absl::string_view kColumns[kAccessColumns] = {"coordinator", "ps",     "worker",
                                                        "operator",    "viewer", "stranger"};
constexpr size_t kStranger = 5;

constexpr bool y = true;
constexpr bool n = false;

constexpr AccessRow kTable[] = {
    //                                            coord. ps worker oper. viewer stranger
    {"/monsoon.JobService/Submit", {n, n, n, y, n, n}},
    {"/monsoon.JobService/Start", {n, n, n, y, n, n}},
    // A program looks at the job that it trains, and exports its model.
    {"/monsoon.JobService/List", {n, n, y, y, y, n}},
    {"/monsoon.JobService/Describe", {n, n, y, y, y, n}},
    {"/monsoon.JobService/Cancel", {n, n, n, y, n, n}},
    {"/monsoon.JobService/Delete", {n, n, n, y, n, n}},
    {"/monsoon.JobService/Locate", {n, n, y, y, y, n}},
    {"/monsoon.JobService/Info", {y, y, y, y, y, n}},
    {"/monsoon.JobService/Drain", {n, n, n, y, n, n}},
    {"/monsoon.JobService/GiveUp", {n, n, n, y, n, n}},
    {"/monsoon.JobService/Checkpoint", {n, n, n, y, n, n}},
    {"/monsoon.JobService/Set", {n, n, n, y, n, n}},
    {"/monsoon.ReplicaService/Enter", {n, n, y, n, n, n}},
    {"/monsoon.ReplicaService/Heartbeat", {n, n, y, n, n, n}},
    {"/monsoon.ReplicaService/NextWork", {n, n, y, n, n, n}},
    {"/monsoon.ReplicaService/ReportEvaluation", {n, n, y, n, n, n}},
    {"/monsoon.ReplicaService/ReportFailure", {n, n, y, n, n, n}},
    {"/monsoon.ReplicaService/TakeStream", {n, n, y, n, n, n}},
    {"/monsoon.ReplicaService/TellClock", {n, n, y, n, n, n}},
    {"/monsoon.MemberService/Join", {y, y, y, y, y, y}},
    {"/monsoon.MemberService/Renew", {n, y, y, y, y, n}},
    {"/monsoon.MemberService/CreateToken", {n, n, n, y, n, n}},
    {"/monsoon.MemberService/ListTokens", {n, n, n, y, n, n}},
    {"/monsoon.MemberService/RevokeToken", {n, n, n, y, n, n}},
    {"/monsoon.MemberService/ListMembers", {n, n, n, y, y, n}},
    {"/monsoon.MemberService/RevokeMember", {n, n, n, y, n, n}},
    // Whoever reads parameters or writes initial ones asks a shard where its memory is.
    {"/monsoon.ParameterServer/GetStatus", {y, n, y, y, y, n}},
    {"/monsoon.ParameterServer/CreateJob", {y, n, n, n, n, n}},
    {"/monsoon.ParameterServer/RestoreJob", {y, n, n, n, n, n}},
    {"/monsoon.ParameterServer/DeleteJob", {y, n, n, n, n, n}},
    {"/monsoon.ParameterServer/OpenSession", {y, n, n, n, n, n}},
    {"/monsoon.ParameterServer/CloseSession", {y, n, n, n, n, n}},
    {"/monsoon.ParameterServer/Checkpoint", {y, n, n, n, n, n}},
    {"/monsoon.ParameterServer/ReduceRate", {y, n, n, n, n, n}},
    {"/monsoon.ParameterServer/Adopt", {y, n, n, n, n, n}},
    {"/monsoon.ParameterServer/ChangeSettings", {y, n, n, n, n, n}},
    {"/monsoon.ParameterServer/Vector", {y, n, n, n, n, n}},
    {"/monsoon.ParameterServer/Data", {n, n, y, y, y, n}},
    {"/monsoon.Worker/Ping", {y, y, y, y, y, n}},
    {"/grpc.health.v1.Health/Check", {y, y, y, y, y, n}},
    {"frame push", {n, n, y, n, n, n}},
    {"frame fetch", {n, n, y, y, y, n}},
    // Initial parameters: of a program that is a worker, or of `submit --init`. With a session it
    // is
    // that one's worker's alone (ps_server/server/session_guard.h).
    {"frame write", {n, n, y, y, n, n}},
    {"frame contribute", {n, n, y, n, n, n}},
    {"frame marks", {n, n, y, n, n, n}},
    {"frame row_push", {n, n, y, n, n, n}},
    {"frame row_fetch", {n, n, y, y, y, n}},
    {"frame row_write", {n, n, y, y, n, n}},
    // Among workers: what they sum together.
    {"frame peer", {n, n, y, n, n, n}},
};

absl::string_view FrameRow(DataHeader::KindCase kind) {
  switch (kind) {
    case DataHeader::kPush:
      return "frame push";
    case DataHeader::kFetch:
      return "frame fetch";
    case DataHeader::kWrite:
      return "frame write";
    case DataHeader::kContribute:
      return "frame contribute";
    case DataHeader::kMarks:
      return "frame marks";
    case DataHeader::kRowPush:
      return "frame row_push";
    case DataHeader::kRowFetch:
      return "frame row_fetch";
    case DataHeader::kRowWrite:
      return "frame row_write";
    case DataHeader::kPeer:
      return "frame peer";
    default:
      return "";
  }
}

size_t ColumnOf(const Caller& caller) {
  return caller.member.has_value() ? static_cast<size_t>(caller.member->identity.role) : kStranger;
}

absl::Status Check(const Caller& caller, absl::string_view what) {
  if (caller.open) {
    return absl::OkStatus();
  }
  const auto* const row =
      std::ranges::find_if(kTable, [&](const AccessRow& row) { return row.what == what; });
  if (row == std::end(kTable)) {
    return absl::PermissionDeniedError(absl::StrCat(what, " is open to nobody"));
  }
  const size_t column = ColumnOf(caller);
  if (row->allowed[column]) {
    return absl::OkStatus();
  }
  std::vector<absl::string_view> who;
  for (size_t i = 0; i < kAccessColumns; ++i) {
    if (row->allowed[i]) {
      who.push_back(kColumns[i]);
    }
  }
  const std::string may = absl::StrCat(what, " is for who joined as ", absl::StrJoin(who, " or "));
  if (column == kStranger) {
    return absl::UnauthenticatedError(
        absl::StrCat(may, ", and this connection shows no certificate; join the cluster first"));
  }
  return absl::PermissionDeniedError(
      absl::StrCat(may, ", and this one has joined as ", MemberName(caller.member->identity)));
}

}  // namespace

std::span<const AccessRow> AccessTable() { return kTable; }

absl::string_view AccessColumn(size_t column) { return kColumns[column]; }

absl::Status CheckCall(const Caller& caller, absl::string_view method) {
  return Check(caller, method);
}

const std::string* JobOf(const DataHeader& request) {
  switch (request.kind_case()) {
    case DataHeader::kPush:
      return &request.push().session().job();
    case DataHeader::kFetch:
      return &request.fetch().session().job();
    case DataHeader::kWrite:
      return request.write().has_session() ? &request.write().session().job()
                                           : &request.write().job();
    case DataHeader::kContribute:
      return &request.contribute().session().job();
    case DataHeader::kMarks:
      return &request.marks().session().job();
    case DataHeader::kRowPush:
      return &request.row_push().session().job();
    case DataHeader::kRowFetch:
      return &request.row_fetch().session().job();
    case DataHeader::kRowWrite:
      return &request.row_write().job();
    default:
      return nullptr;
  }
}

absl::Status CheckJob(const Caller& caller, absl::string_view job) {
  if (caller.open || !caller.member.has_value()) {
    return absl::OkStatus();
  }
  const Identity& identity = caller.member->identity;
  if (identity.job.empty() || identity.job == job) {
    return absl::OkStatus();
  }
  return absl::PermissionDeniedError(
      absl::StrCat(MemberName(identity), " has joined for job ", identity.job,
                   " alone, and this is of ", job.empty() ? "none" : PeerText(job, kMostPeerName)));
}

absl::Status CheckFrame(const Caller& caller, const DataHeader& request) {
  const absl::Status status = Check(caller, FrameRow(request.kind_case()));
  if (!status.ok()) {
    return status;
  }
  const std::string* const job = JobOf(request);
  return CheckJob(caller, job == nullptr ? absl::string_view() : *job);
}

}  // namespace monsoon
