#include <memory>
#include <optional>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "common/base/status.h"
#include "common/config/address.h"
#include "common/json/json_writer.h"
#include "common/security/identity.h"
#include "coordinator/cli/member_commands.h"

namespace monsoon {
namespace {

struct TokenFlags {
  // "": not given; `list` and `revoke` take none of the first five.
  std::string role;
  std::string ttl;
  std::string uses;
  std::string job;
  std::string note;
  bool json = false;
};

void AppendToken(const TokenStatus& token, JsonWriter* json) {
  const auto time = [](int64_t unix_ms) {
    return unix_ms == 0 ? std::nullopt : std::make_optional(unix_ms);
  };
  json->Member("id", token.id()).Member("role", token.role());
  json->Member("job", token.job().empty() ? std::nullopt : std::make_optional(token.job()));
  json->Member("note", token.note()).Member("state", token.state());
  json->Member("uses_left", token.uses_left()).Member("joined", token.joined());
  json->Member("created_ms", token.created_ms()).Member("expires_ms", token.expires_ms());
  json->Member("last_used_ms", time(token.last_used_ms()));
  json->Member("revoked_ms", time(token.revoked_ms()));
}

absl::StatusOr<CreateTokenRequest> RequestOf(const TokenFlags& flags) {
  CreateTokenRequest request;
  if (flags.role.empty()) {
    return absl::InvalidArgumentError(
        "--role says as what the token lets somebody join: worker, ps, operator or viewer");
  }
  ASSIGN_OR_RETURN(const Role role, ParseRole(flags.role));
  ASSIGN_OR_RETURN(const absl::Duration ttl, ParseLifetime(flags.ttl.empty() ? "24h" : flags.ttl));
  uint32_t uses = 1;
  if (!flags.uses.empty() && !absl::SimpleAtoi(flags.uses, &uses)) {
    return absl::InvalidArgumentError("--uses is a number: how many may join with the token");
  }
  request.set_role(std::string(RoleName(role)));
  request.set_ttl_ms(absl::ToInt64Milliseconds(ttl));
  request.set_uses(uses);
  request.set_job(flags.job);
  request.set_note(flags.note);
  return request;
}

int CreateToken(const Invocation& call, const TokenFlags& flags, const ClusterFlag& cluster,
                MemberClient* client) {
  const absl::StatusOr<CreateTokenRequest> request = RequestOf(flags);
  if (!request.ok()) {
    return call.Usage(request.status().message());
  }
  const absl::StatusOr<LoadedCluster> loaded = cluster.Load();
  if (!loaded.ok()) {
    return call.Fail(loaded.status());
  }
  const absl::StatusOr<CreateTokenReply> made = client->CreateToken(*request);
  if (!made.ok()) {
    return call.Fail(made.status());
  }
  const std::string& address = loaded->cluster.coordinator().address();
  const std::string invitation = absl::StrCat(made->token(), "@", address);
  const TokenStatus& token = made->status();
  if (flags.json) {
    JsonWriter json;
    json.BeginObject().Member("schema_version", 1).Member("invitation", invitation);
    AppendToken(token, &json);
    call.Print(json.EndObject().text());
  } else {
    call.Print(absl::StrCat(call.env().program, " join ", invitation));
  }
  call.Note(absl::StrFormat(
      "token %s: %d may join as %s until %s; it is shown this once, and whoever has it can use it",
      token.id(), token.uses_left(), token.role(), TimeText(token.expires_ms())));
  if (IsLoopback(address)) {
    call.Note(absl::StrCat(loaded->path, ": the coordinator is at ", address,
                           ", where no other machine reaches it"));
  }
  return kExitOk;
}

int ListTokens(const Invocation& call, bool as_json, MemberClient* client) {
  const absl::StatusOr<ListTokensReply> list = client->ListTokens();
  if (!list.ok()) {
    return call.Fail(list.status());
  }
  if (as_json) {
    JsonWriter json;
    json.BeginObject().Member("schema_version", 1).Key("tokens").BeginArray();
    for (const TokenStatus& token : list->token()) {
      json.BeginObject();
      AppendToken(token, &json);
      json.EndObject();
    }
    call.Print(json.EndArray().EndObject().text());
    return kExitOk;
  }
  constexpr char kLine[] = "%-12s  %-8s  %-8s  %6s  %4s  %-25s  %s\n";
  *call.env().out << absl::StrFormat(kLine, "token", "role", "state", "joined", "left", "expires",
                                     "job, note");
  for (const TokenStatus& token : list->token()) {
    *call.env().out << absl::StrFormat(
        kLine, token.id(), token.role(), token.state(), absl::StrCat(token.joined()),
        absl::StrCat(token.uses_left()), TimeText(token.expires_ms()),
        absl::StrCat(token.job(), token.job().empty() || token.note().empty() ? "" : ", ",
                     token.note()));
  }
  return kExitOk;
}

int RevokeToken(const Invocation& call, const std::string& id, bool as_json, MemberClient* client) {
  const absl::StatusOr<TokenStatus> token = client->RevokeToken(id);
  if (!token.ok()) {
    return call.Fail(token.status());
  }
  if (as_json) {
    JsonWriter json;
    json.BeginObject().Member("schema_version", 1);
    AppendToken(*token, &json);
    call.Print(json.EndObject().text());
  } else {
    call.Print(absl::StrCat("token ", token->id(), " lets nobody in any more; ", token->joined(),
                            " joined with it, and stay"));
  }
  return kExitOk;
}

}  // namespace

absl::StatusOr<absl::Duration> ParseLifetime(absl::string_view text) {
  absl::Duration lifetime;
  absl::string_view days = text;
  double count = 0;
  if (absl::ConsumeSuffix(&days, "d") && absl::SimpleAtod(days, &count)) {
    lifetime = count * absl::Hours(24);
  } else if (!absl::ParseDuration(text, &lifetime)) {
    return absl::InvalidArgumentError("a lifetime is a number with its unit, as 90m, 24h or 7d");
  }
  return lifetime;
}

int RunToken(Invocation& call) {
  TokenFlags flags;
  ClusterFlag cluster(&call);
  call.flags().Add("role", &flags.role, "as what others join: worker, ps, operator or viewer");
  call.flags().Add("ttl", &flags.ttl, "for how long the token counts: 90m, 24h, 7d; else 24h");
  call.flags().Add("uses", &flags.uses, "how many may join with it; else 1");
  call.flags().Add("job", &flags.job, "who joins is there for this job alone");
  call.flags().Add("note", &flags.note, "for people: whom it is for");
  call.flags().Add("json", &flags.json, "one JSON object on the standard output");
  if (const std::optional<int> code = call.Parse(1, 2)) {
    return *code;
  }
  const std::string& what = call.positional()[0];
  const bool makes = what == "create";
  if (!makes && what != "list" && what != "revoke") {
    return call.Usage(absl::StrCat("`token` has no \"", what, "\"; say create, list or revoke"));
  }
  if (call.positional().size() != (what == "revoke" ? 2u : 1u)) {
    return call.Usage(what == "revoke" ? "whose? say token revoke ID"
                                       : absl::StrCat("`token ", what, "` takes no argument"));
  }
  if (!makes && !(flags.role + flags.ttl + flags.uses + flags.job + flags.note).empty()) {
    return call.Usage("--role, --ttl, --uses, --job and --note are for `token create`");
  }
  const absl::StatusOr<std::unique_ptr<MemberClient>> client = cluster.ConnectMembers();
  if (!client.ok()) {
    return call.Fail(client.status());
  }
  if (makes) {
    return CreateToken(call, flags, cluster, client->get());
  }
  return what == "list" ? ListTokens(call, flags.json, client->get())
                        : RevokeToken(call, call.positional()[1], flags.json, client->get());
}

}  // namespace monsoon
