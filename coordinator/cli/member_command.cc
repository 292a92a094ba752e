#include <algorithm>
#include <memory>
#include <optional>
#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "common/json/json_writer.h"
#include "coordinator/cli/member_commands.h"

namespace monsoon {
namespace {

void AppendMember(const MemberStatus& member, JsonWriter* json) {
  const auto time = [](int64_t unix_ms) {
    return unix_ms == 0 ? std::nullopt : std::make_optional(unix_ms);
  };
  json->Member("member", member.member()).Member("identity", member.identity());
  json->Member("state", member.state()).Member("key", absl::BytesToHexString(member.key()));
  json->Key("hosts").BeginArray();
  for (const std::string& host : member.host()) {
    json->Value(host);
  }
  json->EndArray().Member("token", member.token()).Member("joined_ms", member.joined_ms());
  json->Member("renewed_ms", time(member.renewed_ms()));
  json->Member("not_after_ms", member.not_after_ms());
  json->Member("revoked_ms", time(member.revoked_ms()));
  json->Key("tasks").BeginArray();
  for (const std::string& task : member.task()) {
    json->Value(task);
  }
  json->EndArray();
}

int ListMembers(const Invocation& call, bool as_json, MemberClient* client) {
  const absl::StatusOr<ListMembersReply> list = client->ListMembers();
  if (!list.ok()) {
    return call.Fail(list.status());
  }
  if (as_json) {
    JsonWriter json;
    json.BeginObject().Member("schema_version", 1).Key("members").BeginArray();
    for (const MemberStatus& member : list->member()) {
      json.BeginObject();
      AppendMember(member, &json);
      json.EndObject();
    }
    call.Print(json.EndArray().EndObject().text());
    return kExitOk;
  }
  size_t name = 6;
  for (const MemberStatus& member : list->member()) {
    name = std::max(name, member.member().size());
  }
  const auto line = [&](const std::string& member, const std::string& state,
                        const std::string& until, const std::string& tasks,
                        const std::string& hosts) {
    *call.env().out << absl::StrFormat("%-*s  %-7s  %-25s  %-9s  %s\n", static_cast<int>(name),
                                       member, state, until, tasks, hosts);
  };
  line("member", "state", "certificate until", "tasks", "hosts");
  for (const MemberStatus& member : list->member()) {
    line(member.member(), member.state(), TimeText(member.not_after_ms()),
         member.task().empty() ? "-" : absl::StrJoin(member.task(), ","),
         member.host().empty() ? "-" : absl::StrJoin(member.host(), ","));
  }
  return kExitOk;
}

int RevokeMember(const Invocation& call, const std::string& member, bool as_json,
                 MemberClient* client) {
  const absl::StatusOr<RevokeMemberReply> reply = client->RevokeMember(member);
  if (!reply.ok()) {
    return call.Fail(reply.status());
  }
  if (as_json) {
    JsonWriter json;
    json.BeginObject().Member("schema_version", 1);
    AppendMember(reply->member(), &json);
    json.Key("ended_tasks").BeginArray();
    for (const std::string& task : reply->ended_task()) {
      json.Value(task);
    }
    call.Print(json.EndArray().EndObject().text());
  } else {
    call.Print(
        absl::StrCat(reply->member().member(), " is thrown out",
                     reply->ended_task().empty()
                         ? ""
                         : absl::StrCat("; the work of ", absl::StrJoin(reply->ended_task(), ", "),
                                        " goes to others")));
  }
  return kExitOk;
}

}  // namespace

int RunMember(Invocation& call) {
  bool json = false;
  ClusterFlag cluster(&call);
  call.flags().Add("json", &json, "one JSON object on the standard output");
  if (const std::optional<int> code = call.Parse(1, 2)) {
    return *code;
  }
  const std::string& what = call.positional()[0];
  if (what != "list" && what != "revoke") {
    return call.Usage(absl::StrCat("`member` has no \"", what, "\"; say list or revoke"));
  }
  if (call.positional().size() != (what == "revoke" ? 2u : 1u)) {
    return call.Usage(what == "revoke" ? "whom? say member revoke ROLE/NAME, as worker/7"
                                       : "`member list` takes no argument");
  }
  const absl::StatusOr<std::unique_ptr<MemberClient>> client = cluster.ConnectMembers();
  if (!client.ok()) {
    return call.Fail(client.status());
  }
  return what == "list" ? ListMembers(call, json, client->get())
                        : RevokeMember(call, call.positional()[1], json, client->get());
}

}  // namespace monsoon
