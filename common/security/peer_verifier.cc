#include "common/security/peer_verifier.h"

#include <memory>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status.h"
#include "common/security/openssl.h"
#include "openssl/x509_vfy.h"

namespace monsoon {
namespace {

using OwnedStore = std::unique_ptr<X509_STORE, FreeWith<X509_STORE_free>>;
using OwnedContext = std::unique_ptr<X509_STORE_CTX, FreeWith<X509_STORE_CTX_free>>;

// As much of a fingerprint as people compare.
constexpr size_t kShownBytes = 8;

std::string Shown(absl::string_view fingerprint) {
  return absl::BytesToHexString(fingerprint.substr(0, kShownBytes));
}

std::string AtText(absl::Time time) {
  return absl::FormatTime(absl::RFC3339_sec, time, absl::UTCTimeZone());
}

// Whole seconds: what certificates have.
std::string LongText(absl::Duration duration) {
  return absl::FormatDuration(absl::Trunc(duration, absl::Seconds(1)));
}

// X509_V_OK, or why `authority` has not signed `certificate`. Times are left alone.
int VerifySignature(X509* certificate, X509* authority) {
  const OwnedStore store(X509_STORE_new());
  const OwnedContext context(X509_STORE_CTX_new());
  CHECK(store != nullptr && context != nullptr);
  CHECK(X509_STORE_add_cert(store.get(), authority) == 1);
  CHECK(X509_STORE_set_flags(store.get(), X509_V_FLAG_NO_CHECK_TIME) == 1);
  CHECK(X509_STORE_CTX_init(context.get(), store.get(), certificate, nullptr) == 1);
  const bool verified = X509_verify_cert(context.get()) == 1;
  const int error = X509_STORE_CTX_get_error(context.get());
  return verified || error != X509_V_OK ? error : X509_V_ERR_UNSPECIFIED;
}

absl::Status SignatureError(int error, const Authority& authority, absl::string_view claim) {
  switch (error) {
    case X509_V_OK:
      return absl::OkStatus();
    case X509_V_ERR_PERMITTED_VIOLATION:
      return absl::UnauthenticatedError(
          absl::StrCat(claim, " is of another cluster than ", authority.cluster));
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
    case X509_V_ERR_CERT_SIGNATURE_FAILURE:
      return absl::UnauthenticatedError(absl::StrCat(
          claim, " is not signed by the authority of cluster ", authority.cluster, " (key ",
          Shown(authority.fingerprint),
          "): it is of another cluster, or the authority was made anew since; join again"));
    default:
      return absl::UnauthenticatedError(absl::StrCat(claim, " is not valid in cluster ",
                                                     authority.cluster, ": ",
                                                     X509_verify_cert_error_string(error)));
  }
}

absl::Status CheckTime(absl::string_view what, const Validity& validity, absl::Time now) {
  const std::string clock = absl::StrCat("this host's clock, which says ", AtText(now));
  if (now < validity.begin) {
    return absl::UnauthenticatedError(absl::StrCat(
        what, " begins at ", AtText(validity.begin), ", ", LongText(validity.begin - now),
        " from now by ", clock,
        ": the clocks of two hosts differ by that much or more; set the one that is wrong (NTP)"));
  }
  if (now > validity.end) {
    return absl::UnauthenticatedError(absl::StrCat(what, " ended at ", AtText(validity.end), ", ",
                                                   LongText(now - validity.end), " ago by ",
                                                   clock));
  }
  return absl::OkStatus();
}

// What an unverified certificate says of itself, for an error.
std::string Claim(const absl::StatusOr<Peer>& peer) {
  return peer.ok() ? absl::StrCat("the certificate that says ", ToUri(peer->identity))
                   : "the certificate";
}

}  // namespace

absl::StatusOr<PeerVerifier> PeerVerifier::Create(absl::string_view authority) {
  ASSIGN_OR_RETURN(const OwnedCertificate certificate, ReadCertificate(authority));
  ASSIGN_OR_RETURN(Authority facts, ReadAuthority(authority));
  return PeerVerifier(std::move(facts), WritePem(*certificate));
}

absl::StatusOr<Peer> PeerVerifier::VerifySigned(absl::string_view chain) const {
  const absl::StatusOr<OwnedCertificate> certificate = ReadCertificate(chain);
  if (!certificate.ok()) {
    return absl::UnauthenticatedError(certificate.status().message());
  }
  ASSIGN_OR_RETURN(const OwnedCertificate authority, ReadCertificate(certificate_));
  absl::StatusOr<Peer> peer = ReadPeer(chain);
  RETURN_IF_ERROR(SignatureError(VerifySignature(certificate->get(), authority.get()), authority_,
                                 Claim(peer)));
  if (!peer.ok()) {
    return absl::UnauthenticatedError(peer.status().message());
  }
  if (peer->identity.cluster != authority_.cluster) {
    return absl::UnauthenticatedError(
        absl::StrCat(Claim(peer), " is of another cluster than ", authority_.cluster));
  }
  return peer;
}

absl::StatusOr<Peer> PeerVerifier::Verify(absl::string_view chain, absl::Time now) const {
  ASSIGN_OR_RETURN(Peer peer, VerifySigned(chain));
  RETURN_IF_ERROR(CheckTime(absl::StrCat("the authority of cluster ", authority_.cluster),
                            authority_.validity, now));
  RETURN_IF_ERROR(CheckTime(absl::StrCat("the certificate of ", MemberName(peer.identity)),
                            peer.validity, now));
  return peer;
}

absl::Status CheckPair(const PrivateKey& key, absl::string_view certificate) {
  ASSIGN_OR_RETURN(const Peer peer, ReadPeer(certificate));
  if (peer.key_fingerprint != key.Fingerprint()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the certificate of ", MemberName(peer.identity),
        " is of another key than the private key beside it: one of the two was renewed alone"));
  }
  return absl::OkStatus();
}

}  // namespace monsoon
