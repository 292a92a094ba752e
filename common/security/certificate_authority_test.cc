#include "common/security/certificate_authority.h"

#include <string>
#include <vector>

#include "common/security/openssl.h"
#include "common/security/peer_verifier.h"
#include "common/security/signing_request.h"
#include "common/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "openssl/pem.h"

namespace monsoon {
namespace {

using ::monsoon::testing::StatusIs;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const absl::Time kNow = absl::FromUnixSeconds(1'800'000'000);
const std::vector<std::string> kHosts = {"beta.lab", "10.0.0.2", "fe80::2"};
const Identity kWorker = {Role::kWorker, "7", "lab", ""};

class CertificateAuthorityTest : public ::testing::Test {
 protected:
  std::string Request(const Identity& identity, const std::vector<std::string>& hosts = {}) {
    return *MakeSigningRequest(key_, identity, hosts);
  }

  CertificateAuthority authority_ = *CertificateAuthority::Create("lab", kNow);
  PrivateKey key_ = PrivateKey::Generate();
};

TEST_F(CertificateAuthorityTest, SignsWhatItIsTold) {
  const Identity guest = {Role::kWorker, "guest-5f3a", "lab", "lenet-1"};
  ASSERT_OK_AND_ASSIGN(const std::string certificate,
                       authority_.Sign(Request(guest, kHosts), {guest, kHosts}, kNow));
  ASSERT_OK_AND_ASSIGN(const PeerVerifier verifier, PeerVerifier::Create(authority_.certificate()));
  ASSERT_OK_AND_ASSIGN(const Peer peer, verifier.Verify(certificate, kNow));
  EXPECT_EQ(peer.identity, guest);
  EXPECT_EQ(peer.hosts, kHosts);
  EXPECT_EQ(peer.key_fingerprint, key_.Fingerprint());
  EXPECT_EQ(peer.validity.begin, kNow - absl::Minutes(5));
  EXPECT_EQ(peer.validity.end, kNow + absl::Hours(7 * 24));
  EXPECT_OK(CheckPair(key_, certificate));
}

TEST_F(CertificateAuthorityTest, KnowsItself) {
  EXPECT_EQ(authority_.facts().cluster, "lab");
  EXPECT_EQ(authority_.facts().fingerprint, authority_.key().Fingerprint());
  EXPECT_EQ(authority_.facts().validity.begin, kNow - absl::Minutes(5));
  EXPECT_EQ(authority_.facts().validity.end, kNow + absl::Hours(24 * 3653));
  ASSERT_OK_AND_ASSIGN(const CertificateAuthority again,
                       CertificateAuthority::FromPem(authority_.key(), authority_.certificate()));
  EXPECT_EQ(again.certificate(), authority_.certificate());
  EXPECT_THAT(CertificateAuthority::FromPem(key_, authority_.certificate()).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("is of another key")));
  EXPECT_THAT(CertificateAuthority::Create("two words", kNow).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("\"two words\"")));
}

// What it may sign stands in its certificate, for whoever verifies.
TEST_F(CertificateAuthorityTest, SignsMembersOfItsOwnClusterOnly) {
  const OwnedCertificate own = *ReadCertificate(authority_.certificate());
  EXPECT_EQ(X509_get_pathlen(own.get()), 0);
  EXPECT_EQ(X509_get_key_usage(own.get()), uint32_t{KU_KEY_CERT_SIGN});
  int critical = 0;
  auto* const constraints = static_cast<NAME_CONSTRAINTS*>(
      X509_get_ext_d2i(own.get(), NID_name_constraints, &critical, nullptr));
  ASSERT_NE(constraints, nullptr);
  EXPECT_EQ(critical, 1);
  NAME_CONSTRAINTS_free(constraints);

  ASSERT_OK_AND_ASSIGN(const std::string certificate,
                       authority_.Sign(Request(kWorker), {kWorker}, kNow));
  const OwnedCertificate member = *ReadCertificate(certificate);
  EXPECT_EQ(X509_get_extension_flags(member.get()) & EXFLAG_CA, 0u);
  EXPECT_EQ(X509_get_key_usage(member.get()), uint32_t{KU_DIGITAL_SIGNATURE});
  EXPECT_EQ(X509_get_extended_key_usage(member.get()), uint32_t{XKU_SSL_SERVER | XKU_SSL_CLIENT});
}

TEST_F(CertificateAuthorityTest, AMembersCertificateIsNoAuthoritys) {
  ASSERT_OK_AND_ASSIGN(const std::string certificate,
                       authority_.Sign(Request(kWorker), {kWorker}, kNow));
  EXPECT_THAT(PeerVerifier::Create(certificate).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("not that of a cluster's")));
  EXPECT_THAT(CertificateAuthority::FromPem(key_, certificate).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("not that of a cluster's")));
}

TEST_F(CertificateAuthorityTest, ARequestForSomebodyElseIsRefusedByName) {
  const std::vector<Identity> others = {{Role::kCoordinator, "0", "lab", ""},
                                        {Role::kOperator, "7", "lab", ""},
                                        {Role::kPs, "7", "lab", ""},
                                        {Role::kWorker, "8", "lab", ""},
                                        {Role::kWorker, "7", "lab", "lenet-1"},
                                        {Role::kWorker, "7", "beta", ""}};
  for (const Identity& other : others) {
    EXPECT_THAT(authority_.Sign(Request(other), {kWorker}, kNow).status(),
                StatusIs(absl::StatusCode::kPermissionDenied,
                         AllOf(HasSubstr("asks for " + ToUri(other)),
                               HasSubstr("may be monsoon://lab/worker/7 only"))));
  }
}

TEST_F(CertificateAuthorityTest, ARequestForAnothersHostIsRefusedByName) {
  EXPECT_THAT(
      authority_.Sign(Request(kWorker, {"beta", "alpha"}), {kWorker, {"beta"}}, kNow).status(),
      StatusIs(absl::StatusCode::kPermissionDenied, HasSubstr("host's name alpha")));
  // What a request leaves out it gets all the same.
  ASSERT_OK_AND_ASSIGN(const std::string certificate,
                       authority_.Sign(Request(kWorker), {kWorker, {"beta"}}, kNow));
  ASSERT_OK_AND_ASSIGN(const Peer peer, ReadPeer(certificate));
  EXPECT_THAT(peer.hosts, ElementsAre("beta"));
}

TEST_F(CertificateAuthorityTest, AGrantThatMakesNoSenseIsRefused) {
  const Identity beta = {Role::kWorker, "7", "beta", ""};
  EXPECT_THAT(authority_.Sign(Request(beta), {beta}, kNow).status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("of cluster lab signs no member of cluster beta")));
  const Identity nobody = {Role::kWorker, "", "lab", ""};
  EXPECT_THAT(authority_.Sign(Request(kWorker), {nobody}, kNow).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("no name")));
}

TEST_F(CertificateAuthorityTest, ARequestProvesItsKey) {
  std::string request = Request(kWorker);
  ASSERT_OK_AND_ASSIGN(const SigningRequest read, ReadSigningRequest(request));
  EXPECT_EQ(read.identity, kWorker);
  EXPECT_THAT(read.hosts, IsEmpty());
  EXPECT_EQ(read.key_fingerprint, key_.Fingerprint());
  // The signature stands at the end; another base64 digit there is another signature.
  const size_t end = request.find("\n-----END");
  char& digit = request[end - 8];
  digit = digit == 'A' ? 'B' : 'A';
  EXPECT_THAT(authority_.Sign(request, {kWorker}, kNow).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("not signed by the key")));
  for (const std::string& text : {std::string(), std::string("x"), request.substr(0, 200),
                                  authority_.certificate(), std::string(100'000, 'x')}) {
    EXPECT_THAT(authority_.Sign(text, {kWorker}, kNow).status(),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("request")));
  }
}

// With a good signature of its own.
TEST_F(CertificateAuthorityTest, AKeyOfAnotherKindIsRefused) {
  const OwnedKey key(EVP_EC_gen("P-384"));
  const OwnedRequest request(X509_REQ_new());
  ASSERT_EQ(X509_REQ_set_pubkey(request.get(), key.get()), 1);
  ASSERT_GT(X509_REQ_sign(request.get(), key.get(), EVP_sha256()), 0);
  const OwnedBio bio(BIO_new(BIO_s_mem()));
  ASSERT_EQ(PEM_write_bio_X509_REQ(bio.get(), request.get()), 1);
  EXPECT_THAT(authority_.Sign(TextOf(bio.get()), {kWorker}, kNow).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("key is not an elliptic")));
}

TEST_F(CertificateAuthorityTest, NoCertificateOutlivesTheAuthority) {
  const absl::Time end = authority_.facts().validity.end;
  ASSERT_OK_AND_ASSIGN(const std::string certificate,
                       authority_.Sign(Request(kWorker), {kWorker}, end - absl::Hours(1)));
  ASSERT_OK_AND_ASSIGN(const Peer peer, ReadPeer(certificate));
  EXPECT_EQ(peer.validity.end, end);
  EXPECT_THAT(authority_.Sign(Request(kWorker), {kWorker}, end).status(),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("ended at 2037-")));
}

}  // namespace
}  // namespace monsoon
