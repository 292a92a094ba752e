#include <optional>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/status.h"
#include "common/config/address.h"
#include "common/security/certificate.h"
#include "common/security/credential_store.h"
#include "common/security/host_names.h"
#include "common/security/identity.h"
#include "coordinator/cli/member_commands.h"

namespace monsoon {
namespace {

struct InitFlags {
  std::string hosts;
  bool replace = false;
};

// Under which names this machine is reached.
std::vector<std::string> HostsOf(const InitFlags& flags, const Environment& environment) {
  if (!flags.hosts.empty()) {
    return absl::StrSplit(flags.hosts, ',', absl::SkipEmpty());
  }
  const std::vector<std::string> own = {environment.host};
  return !environment.host.empty() && CheckHostNames(own).ok() ? own : std::vector<std::string>();
}

// Says what to do next.
void PrintNext(const Invocation& call, const LoadedCluster& cluster) {
  call.Print(absl::StrCat("next: ", call.CommandLine("up"), "\n      ",
                          call.CommandLine("token create --role=worker")));
  if (IsLoopback(cluster.cluster.coordinator().address())) {
    call.Note(absl::StrCat(cluster.path, ": the coordinator is at ",
                           cluster.cluster.coordinator().address(),
                           ", where no other machine reaches it; write this machine's name there "
                           "before you invite others"));
  }
}

absl::Status Init(const Invocation& call, const InitFlags& flags, const LoadedCluster& cluster) {
  const Environment& env = call.env();
  const std::string& name = cluster.cluster.name();
  const absl::Time now = env.clock->WallTime();
  const OtherAuthority other = flags.replace ? OtherAuthority::kSetAside : OtherAuthority::kRefuse;
  ASSIGN_OR_RETURN(const CredentialStore store, CredentialStore::Find(env.variable));
  const absl::StatusOr<CertificateAuthority> known = store.Authority(name);
  if (known.ok()) {
    call.Print(absl::StrCat("cluster ", name, " has its authority already, in ",
                            store.AuthorityPath(name), ", until ",
                            TimeText(absl::ToUnixMillis(known->facts().validity.end))));
    PrintNext(call, cluster);
    return absl::OkStatus();
  }
  if (!absl::IsNotFound(known.status())) {
    return known.status();
  }
  ASSIGN_OR_RETURN(const CertificateAuthority authority, CertificateAuthority::Create(name, now));
  const Identity person = {Role::kOperator, PersonsName(env), name, ""};
  ASSIGN_OR_RETURN(const Credential member,
                   IssueLocal(authority, person, HostsOf(flags, env), now));
  RETURN_IF_ERROR(store.Save(authority, other));
  RETURN_IF_ERROR(store.Save(member, other));
  call.Print(absl::StrCat("made the authority of cluster ", name, ": ", store.AuthorityPath(name),
                          "\nwhoever can read that file can let anybody in; keep a copy where "
                          "nobody else can\nthis user is ",
                          MemberName(person), ": ", store.MemberPath(person)));
  PrintNext(call, cluster);
  return absl::OkStatus();
}

}  // namespace

std::string TimeText(int64_t unix_ms) {
  return unix_ms == 0 ? "-"
                      : absl::FormatTime(absl::RFC3339_sec, absl::FromUnixMillis(unix_ms),
                                         absl::UTCTimeZone());
}

std::string PersonsName(const Environment& environment) {
  std::string name = environment.variable("USER").value_or("").substr(0, kMostNameBytes);
  for (char& c : name) {
    const bool plain =
        absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '.' || c == '_' || c == '-';
    c = plain ? c : '-';
  }
  return CheckIdentity({Role::kOperator, name, "any", ""}).ok() ? name : "somebody";
}

int RunCluster(Invocation& call) {
  InitFlags flags;
  ClusterFlag cluster(&call);
  call.flags().Add("hosts", &flags.hosts,
                   "names and addresses of this machine, with commas; else its own name");
  call.flags().Add("replace", &flags.replace,
                   "set aside what is here of another cluster of this name");
  if (const std::optional<int> code = call.Parse(1, 1)) {
    return *code;
  }
  if (call.positional()[0] != "init") {
    return call.Usage(absl::StrCat("`cluster` has no \"", call.positional()[0], "\"; say init"));
  }
  const absl::StatusOr<LoadedCluster> loaded = cluster.Load();
  const absl::Status status = loaded.ok() ? Init(call, flags, *loaded) : loaded.status();
  return status.ok() ? kExitOk : call.Fail(status);
}

}  // namespace monsoon
