// TestAuthority: a cluster's authority for tests, and credential files of its members.
#pragma once

#include <string>

#include "absl/time/time.h"
#include "common/security/certificate_authority.h"
#include "common/security/credential_file.h"
#include "common/security/identity.h"

namespace monsoon::testing {

class TestAuthority {
 public:
  // Made at `now`; its files are in a folder of its own under the test's.
  explicit TestAuthority(const std::string& cluster, absl::Time now = absl::Now());

  const CertificateAuthority& authority() const { return authority_; }

  // A new key's.
  Credential Issue(Role role, const std::string& name, const std::string& job = "",
                   absl::Time at = absl::Now(), absl::Duration lifetime = kMemberLifetime) const;
  // The path of a credential file, which replaces what was there of the same role and name.
  std::string File(Role role, const std::string& name, const std::string& job = "",
                   absl::Time at = absl::Now(), absl::Duration lifetime = kMemberLifetime) const;

  // The same in a file that stays: another call makes another member.
  std::string OwnFile(Role role, const std::string& name, const std::string& job = "") const;

 private:
  const CertificateAuthority authority_;
  const std::string folder_;
};

}  // namespace monsoon::testing
