#include "common/security/identity.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/base/check.h"
#include "common/base/shorten.h"
#include "common/base/status.h"

namespace monsoon {
namespace {

struct NamedRole {
  Role role;
  absl::string_view name;
};

constexpr std::array<NamedRole, 5> kRoles = {{{Role::kCoordinator, "coordinator"},
                                              {Role::kPs, "ps"},
                                              {Role::kWorker, "worker"},
                                              {Role::kOperator, "operator"},
                                              {Role::kViewer, "viewer"}}};

constexpr absl::string_view kJobQuery = "?job=";
constexpr size_t kMostQuoted = 200;

std::string Quoted(absl::string_view text) {
  return absl::StrCat("\"", Shorten(absl::CHexEscape(text), kMostQuoted), "\"");
}

bool IsPlain(char c) { return absl::ascii_isalnum(c) || c == '.' || c == '_' || c == '-'; }

absl::Status CheckPart(absl::string_view what, absl::string_view part, size_t most) {
  if (part.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("it has no ", what));
  }
  if (part.size() > most) {
    return absl::InvalidArgumentError(
        absl::StrCat("its ", what, " has ", part.size(), " bytes, and ", most, " are the most"));
  }
  if (!absl::ascii_isalnum(part.front()) || !std::ranges::all_of(part, IsPlain)) {
    return absl::InvalidArgumentError(
        absl::StrCat("its ", what, " is ", Quoted(part),
                     ", but may have letters, digits, '.', '_' and '-' only, and begins with a "
                     "letter or digit"));
  }
  return absl::OkStatus();
}

// Tasks that a cluster file numbers have no other name.
absl::Status CheckTaskName(Role role, absl::string_view name) {
  const bool numbered = role == Role::kCoordinator || role == Role::kPs;
  const bool digits = std::ranges::all_of(name, [](char c) { return absl::ascii_isdigit(c); });
  if (numbered && !digits) {
    return absl::InvalidArgumentError(
        absl::StrCat("a ", RoleName(role), " has a number, not the name ", Quoted(name)));
  }
  if (digits && name.size() > 1 && name.front() == '0') {
    return absl::InvalidArgumentError(
        absl::StrCat("its number is ", Quoted(name), ", which begins with 0"));
  }
  return absl::OkStatus();
}

// What stands in `rest` before `end`, which is cut off with it; all of it where there is none.
absl::string_view TakeUntil(char end, absl::string_view* rest) {
  const size_t at = rest->find(end);
  const absl::string_view part = rest->substr(0, at);
  rest->remove_prefix(at == absl::string_view::npos ? rest->size() : at + 1);
  return part;
}

absl::StatusOr<Identity> ParseParts(absl::string_view rest) {
  Identity identity;
  const size_t query = rest.find('?');
  if (query != absl::string_view::npos) {
    absl::string_view job = rest.substr(query);
    if (!absl::ConsumePrefix(&job, kJobQuery)) {
      return absl::InvalidArgumentError(
          absl::StrCat("it has ", Quoted(job), " where only ", kJobQuery, "JOB may stand"));
    }
    RETURN_IF_ERROR(CheckPart("job", job, kMostJobBytes));
    identity.job = std::string(job);
    rest = rest.substr(0, query);
  }
  identity.cluster = std::string(TakeUntil('/', &rest));
  RETURN_IF_ERROR(CheckPart("cluster", identity.cluster, kMostClusterBytes));
  ASSIGN_OR_RETURN(identity.role, ParseRole(TakeUntil('/', &rest)));
  identity.name = std::string(rest);
  RETURN_IF_ERROR(CheckIdentity(identity));
  return identity;
}

}  // namespace

absl::string_view RoleName(Role role) {
  const auto found = std::ranges::find(kRoles, role, &NamedRole::role);
  CHECK(found != kRoles.end());
  return found->name;
}

absl::StatusOr<Role> ParseRole(absl::string_view name) {
  const auto found = std::ranges::find(kRoles, name, &NamedRole::name);
  if (found == kRoles.end()) {
    return absl::InvalidArgumentError(
        absl::StrCat("there is no role ", Quoted(name),
                     "; there are coordinator, ps, worker, operator, viewer"));
  }
  return found->role;
}

absl::Status CheckIdentity(const Identity& identity) {
  RETURN_IF_ERROR(CheckPart("cluster", identity.cluster, kMostClusterBytes));
  RETURN_IF_ERROR(CheckPart("name", identity.name, kMostNameBytes));
  RETURN_IF_ERROR(CheckTaskName(identity.role, identity.name));
  return identity.job.empty() ? absl::OkStatus() : CheckPart("job", identity.job, kMostJobBytes);
}

std::string MemberName(const Identity& identity) {
  return absl::StrCat(RoleName(identity.role), "/", identity.name);
}

std::string ToUri(const Identity& identity) {
  return absl::StrCat(kIdentityScheme, identity.cluster, "/", MemberName(identity),
                      identity.job.empty() ? "" : kJobQuery, identity.job);
}

absl::StatusOr<Identity> ParseIdentity(absl::string_view uri) {
  absl::string_view rest = uri;
  if (!absl::ConsumePrefix(&rest, kIdentityScheme)) {
    return absl::InvalidArgumentError(
        absl::StrCat(Quoted(uri), " is no identity: it does not begin with ", kIdentityScheme));
  }
  absl::StatusOr<Identity> identity = ParseParts(rest);
  if (!identity.ok()) {
    return Annotate(identity.status(), absl::StrCat(Quoted(uri), " is no identity"));
  }
  return identity;
}

}  // namespace monsoon
