#include "common/security/signing_request.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status.h"
#include "common/security/alternative_names.h"
#include "common/security/openssl.h"
#include "openssl/pem.h"

namespace monsoon {
namespace {

using OwnedExtensions =
    std::unique_ptr<STACK_OF(X509_EXTENSION), FreeWith<[](STACK_OF(X509_EXTENSION) * list) {
                      sk_X509_EXTENSION_pop_free(list, X509_EXTENSION_free);
                    }>>;

absl::StatusOr<AlternativeNames> NamesOf(X509_REQ* request) {
  const OwnedExtensions extensions(X509_REQ_get_extensions(request));
  const OwnedNames names(static_cast<GENERAL_NAMES*>(
      X509V3_get_d2i(extensions.get(), NID_subject_alt_name, nullptr, nullptr)));
  return ReadNames(names.get());
}

}  // namespace

absl::StatusOr<std::string> MakeSigningRequest(const PrivateKey& key, const Identity& identity,
                                               const std::vector<std::string>& hosts) {
  ASSIGN_OR_RETURN(OwnedExtension names, MakeExtension({identity, hosts}));
  const OwnedRequest request(X509_REQ_new());
  OwnedExtensions extensions(sk_X509_EXTENSION_new_null());
  CHECK(request != nullptr && extensions != nullptr);
  CHECK(sk_X509_EXTENSION_push(extensions.get(), names.release()) > 0);
  CHECK(X509_REQ_set_version(request.get(), X509_REQ_VERSION_1) == 1);
  CHECK(X509_REQ_set_pubkey(request.get(), key.mutable_key()) == 1);
  CHECK(X509_REQ_add_extensions(request.get(), extensions.get()) == 1);
  CHECK(X509_REQ_sign(request.get(), key.mutable_key(), EVP_sha256()) > 0);
  const OwnedBio bio(BIO_new(BIO_s_mem()));
  CHECK(bio != nullptr && PEM_write_bio_X509_REQ(bio.get(), request.get()) == 1);
  return TextOf(bio.get());
}

absl::StatusOr<SigningRequest> ReadSigningRequest(absl::string_view pem) {
  ASSIGN_OR_RETURN(const OwnedRequest request, ReadRequest(pem));
  absl::StatusOr<AlternativeNames> names = NamesOf(request.get());
  if (!names.ok()) {
    return Annotate(names.status(), "the request for a certificate");
  }
  return SigningRequest{std::move(names->identity), std::move(names->hosts),
                        FingerprintOf(*X509_REQ_get0_pubkey(request.get()))};
}

}  // namespace monsoon
