#include "common/security/testing/members.h"

#include <cstdlib>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/security/private_key.h"
#include "common/security/secret_file.h"
#include "common/security/signing_request.h"
#include "common/testing/unique_name.h"

namespace monsoon::testing {
namespace {

std::string MakeFolder() {
  const char* const root = std::getenv("TEST_TMPDIR");
  const std::string folder = absl::StrCat(root == nullptr ? "/tmp" : root, "/", UniqueName());
  CHECK_OK(MakeSecretFolder(folder));
  return folder;
}

template <typename T>
T Value(absl::StatusOr<T> value) {
  CHECK_OK(value.status());
  return *std::move(value);
}

}  // namespace

TestAuthority::TestAuthority(const std::string& cluster, absl::Time now)
    : authority_(Value(CertificateAuthority::Create(cluster, now))), folder_(MakeFolder()) {}

Credential TestAuthority::Issue(Role role, const std::string& name, const std::string& job,
                                absl::Time at, absl::Duration lifetime) const {
  const PrivateKey key = PrivateKey::Generate();
  const Identity identity = {role, name, authority_.facts().cluster, job};
  const std::string request = Value(MakeSigningRequest(key, identity, {}));
  return {key, Value(authority_.Sign(request, {identity, {}, lifetime}, at)),
          authority_.certificate()};
}

std::string TestAuthority::File(Role role, const std::string& name, const std::string& job,
                                absl::Time at, absl::Duration lifetime) const {
  const std::string path = absl::StrCat(folder_, "/", RoleName(role), "-", name, ".pem");
  CHECK_OK(SaveCredential(path, Issue(role, name, job, at, lifetime)));
  return path;
}

std::string TestAuthority::OwnFile(Role role, const std::string& name,
                                   const std::string& job) const {
  const std::string path =
      absl::StrCat(folder_, "/", RoleName(role), "-", name, "-", UniqueName(), ".pem");
  CHECK_OK(SaveCredential(path, Issue(role, name, job)));
  return path;
}

}  // namespace monsoon::testing
