// AlternativeNames: the extension of a certificate, or of a request for one, that says whose it
// is (a URI, identity.h) and where its holder is reached (host_names.h). Shared by the sources of
// this folder.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/security/identity.h"
#include "common/security/openssl.h"

namespace monsoon {

struct AlternativeNames {
  Identity identity;
  std::vector<std::string> hosts;
};

// InvalidArgument where the identity or a host's name is none.
absl::StatusOr<OwnedExtension> MakeExtension(const AlternativeNames& names);

// Both take null for "no such extension". InvalidArgument where there is not exactly one URI, or
// where it is no identity; names of other types count for nothing.
absl::StatusOr<AlternativeNames> ReadNames(const GENERAL_NAMES* names);
absl::StatusOr<AlternativeNames> ReadNames(const X509& certificate);

}  // namespace monsoon
