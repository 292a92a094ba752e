#include "common/security/peer_verifier.h"

#include <string>
#include <vector>

#include "common/security/certificate_authority.h"
#include "common/security/openssl.h"
#include "common/security/signing_request.h"
#include "common/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace monsoon {
namespace {

using ::monsoon::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr absl::StatusCode kRefused = absl::StatusCode::kUnauthenticated;
const absl::Time kNow = absl::FromUnixSeconds(1'800'000'000);  // 2027-01-15T08:00:00Z
const Identity kWorker = {Role::kWorker, "7", "lab", ""};

std::string SignedBy(const CertificateAuthority& authority, const Identity& identity,
                     const PrivateKey& key, absl::Time now) {
  return *authority.Sign(*MakeSigningRequest(key, identity, {}), {identity}, now);
}

// Signed by the authority's key, as no code of ours does: with these names, and without any
// where there are none.
std::string Forged(const CertificateAuthority& authority, const std::vector<std::string>& uris) {
  const PrivateKey key = PrivateKey::Generate();
  const OwnedCertificate issuer = *ReadCertificate(authority.certificate());
  const OwnedCertificate forged(X509_new());
  X509_set_version(forged.get(), X509_VERSION_3);
  const OwnedTime begin(ASN1_TIME_set(nullptr, absl::ToTimeT(kNow)));
  const OwnedTime end(ASN1_TIME_set(nullptr, absl::ToTimeT(kNow + absl::Hours(1))));
  X509_set1_notBefore(forged.get(), begin.get());
  X509_set1_notAfter(forged.get(), end.get());
  X509_set_issuer_name(forged.get(), X509_get_subject_name(issuer.get()));
  X509_set_pubkey(forged.get(), key.mutable_key());
  std::string names;
  for (const std::string& uri : uris) {
    names += (names.empty() ? "URI:" : ",URI:") + uri;
  }
  if (!uris.empty()) {
    const OwnedExtension extension(
        X509V3_EXT_nconf_nid(nullptr, nullptr, NID_subject_alt_name, names.c_str()));
    X509_add_ext(forged.get(), extension.get(), -1);
  }
  X509_sign(forged.get(), authority.key().mutable_key(), EVP_sha256());
  return WritePem(*forged);
}

class PeerVerifierTest : public ::testing::Test {
 protected:
  CertificateAuthority authority_ = *CertificateAuthority::Create("lab", kNow);
  PrivateKey key_ = PrivateKey::Generate();
  std::string certificate_ = SignedBy(authority_, kWorker, key_, kNow);
  PeerVerifier verifier_ = *PeerVerifier::Create(authority_.certificate());
};

TEST_F(PeerVerifierTest, AMemberIsKnownFromItsFirstSecondToItsLast) {
  for (const absl::Time now : {kNow - absl::Minutes(5), kNow, kNow + absl::Hours(7 * 24)}) {
    ASSERT_OK_AND_ASSIGN(const Peer peer, verifier_.Verify(certificate_, now));
    EXPECT_EQ(peer.identity, kWorker);
    EXPECT_EQ(peer.key_fingerprint, key_.Fingerprint());
  }
  // What a server sends beside it counts for nothing.
  EXPECT_OK(verifier_.Verify(certificate_ + authority_.certificate(), kNow));
  EXPECT_EQ(verifier_.authority().cluster, "lab");
}

TEST_F(PeerVerifierTest, AnEndedOneSaysSinceWhenAndByWhichClock) {
  EXPECT_THAT(
      verifier_.Verify(certificate_, kNow + absl::Hours(7 * 24 + 3) + absl::Seconds(1)).status(),
      StatusIs(kRefused,
               "the certificate of worker/7 ended at 2027-01-22T08:00:00+00:00, 3h1s ago "
               "by this host's clock, which says 2027-01-22T11:00:01+00:00"));
  EXPECT_THAT(
      verifier_.Verify(certificate_, kNow + absl::Hours(7 * 24) + absl::Seconds(1)).status(),
      StatusIs(kRefused, HasSubstr("1s ago")));
}

TEST_F(PeerVerifierTest, OneThatHasNotBegunSaysThatClocksDiffer) {
  EXPECT_THAT(
      verifier_.Verify(SignedBy(authority_, kWorker, key_, kNow + absl::Hours(2)), kNow).status(),
      StatusIs(kRefused,
               "the certificate of worker/7 begins at 2027-01-15T09:55:00+00:00, 1h55m from now by "
               "this host's clock, which says 2027-01-15T08:00:00+00:00: the clocks of two hosts "
               "differ by that much or more; set the one that is wrong (NTP)"));
  EXPECT_THAT(verifier_.Verify(certificate_, kNow - absl::Hours(1)).status(),
              StatusIs(kRefused, HasSubstr("the authority of cluster lab begins at")));
}

TEST_F(PeerVerifierTest, AnotherAuthoritysMemberIsRefused) {
  const CertificateAuthority beta = *CertificateAuthority::Create("beta", kNow);
  const Identity stranger = {Role::kOperator, "ada", "beta", ""};
  EXPECT_THAT(verifier_.Verify(SignedBy(beta, stranger, key_, kNow), kNow).status(),
              StatusIs(kRefused, AllOf(HasSubstr("says monsoon://beta/operator/ada"),
                                       HasSubstr("not signed by the authority of cluster lab"))));
}

// Even where it has the same name, and says the same.
TEST_F(PeerVerifierTest, TheAuthorityMadeAnewIsAnother) {
  const CertificateAuthority again = *CertificateAuthority::Create("lab", kNow);
  const std::string certificate = SignedBy(again, kWorker, key_, kNow);
  EXPECT_THAT(verifier_.Verify(certificate, kNow).status(),
              StatusIs(kRefused, HasSubstr("the authority was made anew since; join again")));
  EXPECT_THAT(verifier_.Verify(certificate + authority_.certificate(), kNow).status(),
              StatusIs(kRefused, HasSubstr("not signed by the authority of cluster lab")));
  EXPECT_THAT(verifier_.Verify(again.certificate(), kNow).status(),
              StatusIs(kRefused, HasSubstr("not signed by the authority of cluster lab")));
}

// The authority's own key cannot make a member of another cluster.
TEST_F(PeerVerifierTest, AnotherClustersMemberIsRefused) {
  EXPECT_THAT(verifier_.Verify(Forged(authority_, {"monsoon://beta/worker/7"}), kNow).status(),
              StatusIs(kRefused, HasSubstr("is of another cluster than lab")));
  EXPECT_THAT(verifier_.Verify(Forged(authority_, {"monsoon://LAB/worker/7"}), kNow).status(),
              StatusIs(kRefused, HasSubstr("is of another cluster than lab")));
}

TEST_F(PeerVerifierTest, OneWithoutAnIdentityIsRefused) {
  EXPECT_OK(verifier_.Verify(Forged(authority_, {"monsoon://lab/worker/7"}), kNow));
  EXPECT_THAT(verifier_.Verify(Forged(authority_, {}), kNow).status(),
              StatusIs(kRefused, HasSubstr("it has no identity")));
  EXPECT_THAT(
      verifier_
          .Verify(Forged(authority_, {"monsoon://lab/worker/7", "monsoon://lab/operator/a"}), kNow)
          .status(),
      StatusIs(kRefused, HasSubstr("it has several identities")));
  EXPECT_THAT(verifier_.Verify(Forged(authority_, {"https://lab/"}), kNow).status(),
              StatusIs(kRefused, HasSubstr("does not begin with monsoon://")));
  EXPECT_THAT(verifier_.Verify(authority_.certificate(), kNow).status(),
              StatusIs(kRefused, HasSubstr("it has no identity")));
}

TEST_F(PeerVerifierTest, WhatIsNoCertificateIsRefused) {
  for (const std::string& text : {std::string(), std::string("x"), certificate_.substr(0, 300),
                                  key_.ToPem(), std::string(100'000, 'x')}) {
    EXPECT_THAT(verifier_.Verify(text, kNow).status(),
                StatusIs(kRefused, HasSubstr("certificate")));
  }
}

TEST_F(PeerVerifierTest, AChangedByteIsSeen) {
  int refused = 0;
  const size_t begin = certificate_.find('\n') + 1;
  for (size_t at = begin; at < certificate_.find("\n-----END"); at += 7) {
    std::string changed = certificate_;
    changed[at] = changed[at] == 'A' ? 'B' : 'A';
    refused += changed != certificate_ && !verifier_.Verify(changed, kNow).ok();
  }
  EXPECT_GT(refused, 80);
}

TEST_F(PeerVerifierTest, AHalfRenewedPairIsTold) {
  EXPECT_OK(CheckPair(key_, certificate_));
  EXPECT_THAT(CheckPair(PrivateKey::Generate(), certificate_),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("one of the two was renewed alone")));
}

}  // namespace
}  // namespace monsoon
