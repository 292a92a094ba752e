#include "common/security/alternative_names.h"

#include <arpa/inet.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status.h"
#include "common/security/host_names.h"

namespace monsoon {
namespace {

void Add(int type, absl::string_view text, GENERAL_NAMES* names) {
  ASN1_STRING* value = nullptr;
  if (type == GEN_IPADD) {
    value = a2i_IPADDRESS(std::string(text).c_str());
    CHECK(value != nullptr);
  } else {
    value = ASN1_IA5STRING_new();
    CHECK(value != nullptr &&
          ASN1_STRING_set(value, text.data(), static_cast<int>(text.size())) == 1);
  }
  GENERAL_NAME* const name = GENERAL_NAME_new();
  CHECK(name != nullptr);
  GENERAL_NAME_set0_value(name, type, value);
  CHECK(sk_GENERAL_NAME_push(names, name) > 0);
}

absl::string_view TextOfName(const ASN1_STRING* text) {
  return absl::string_view(reinterpret_cast<const char*>(ASN1_STRING_get0_data(text)),
                           static_cast<size_t>(ASN1_STRING_length(text)));
}

// "" for what is no address.
std::string AddressOf(absl::string_view bytes) {
  char text[INET6_ADDRSTRLEN];
  const int family = bytes.size() == 4 ? AF_INET : AF_INET6;
  const bool readable = (bytes.size() == 4 || bytes.size() == 16) &&
                        inet_ntop(family, bytes.data(), text, sizeof(text)) != nullptr;
  return readable ? text : "";
}

}  // namespace

absl::StatusOr<OwnedExtension> MakeExtension(const AlternativeNames& names) {
  RETURN_IF_ERROR(CheckIdentity(names.identity));
  RETURN_IF_ERROR(CheckHostNames(names.hosts));
  const OwnedNames list(sk_GENERAL_NAME_new_null());
  CHECK(list != nullptr);
  Add(GEN_URI, ToUri(names.identity), list.get());
  for (const std::string& host : names.hosts) {
    Add(IsIpAddress(host) ? GEN_IPADD : GEN_DNS, host, list.get());
  }
  OwnedExtension extension(X509V3_EXT_i2d(NID_subject_alt_name, 0, list.get()));
  CHECK(extension != nullptr);
  return extension;
}

absl::StatusOr<AlternativeNames> ReadNames(const GENERAL_NAMES* names) {
  AlternativeNames read;
  int identities = 0;
  for (int i = 0; i < (names == nullptr ? 0 : sk_GENERAL_NAME_num(names)); ++i) {
    int type = 0;
    const auto* const value = static_cast<const ASN1_STRING*>(
        GENERAL_NAME_get0_value(sk_GENERAL_NAME_value(names, i), &type));
    if (type == GEN_URI) {
      ASSIGN_OR_RETURN(read.identity, ParseIdentity(TextOfName(value)));
      ++identities;
    } else if (type == GEN_DNS) {
      read.hosts.emplace_back(TextOfName(value));
    } else if (type == GEN_IPADD) {
      read.hosts.push_back(AddressOf(TextOfName(value)));
    }
  }
  if (identities != 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("it has ", identities == 0 ? "no identity" : "several identities", " (a name ",
                     kIdentityScheme, "CLUSTER/ROLE/NAME)"));
  }
  RETURN_IF_ERROR(CheckHostNames(read.hosts));
  return read;
}

absl::StatusOr<AlternativeNames> ReadNames(const X509& certificate) {
  const OwnedNames names(static_cast<GENERAL_NAMES*>(
      X509_get_ext_d2i(&certificate, NID_subject_alt_name, nullptr, nullptr)));
  return ReadNames(names.get());
}

}  // namespace monsoon
