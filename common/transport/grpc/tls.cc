#include "common/transport/grpc/tls.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/security/credential_file.h"
#include "common/transport/grpc/prepare_grpc.h"
#include "common/transport/grpc/status_conversion.h"
#include "grpcpp/security/credentials.h"
#include "grpcpp/security/server_credentials.h"
#include "grpcpp/security/tls_certificate_provider.h"
#include "grpcpp/security/tls_certificate_verifier.h"
#include "grpcpp/security/tls_credentials_options.h"

namespace monsoon {
namespace {

using grpc::experimental::CertificateProviderInterface;
using grpc::experimental::ExternalCertificateVerifier;
using grpc::experimental::TlsCustomVerificationCheckRequest;

constexpr unsigned kLookAtFileSeconds = 1;
// Of a cluster's members; more begin anew.
constexpr size_t kMostVerified = 4096;

// What gRPC asks after a handshake that has proved the key.
class MemberVerifier final : public ExternalCertificateVerifier {
 public:
  // `server`: the role that the other end must have; none: any. `strangers`: it may have no
  // certificate.
  MemberVerifier(std::shared_ptr<Tls> tls, std::optional<Role> server, bool strangers)
      : tls_(std::move(tls)), server_(server), strangers_(strangers) {}

  bool Verify(TlsCustomVerificationCheckRequest* request, std::function<void(grpc::Status)>,
              grpc::Status* status) override {
    const grpc::string_ref certificate = request->peer_cert();
    *status = ToGrpcStatus(Check(std::string(certificate.data(), certificate.size())));
    return true;
  }
  void Cancel(TlsCustomVerificationCheckRequest*) override {}

 private:
  absl::Status Check(const std::string& certificate) {
    if (certificate.empty()) {
      return strangers_ ? absl::OkStatus()
                        : absl::UnauthenticatedError("the other end shows no certificate");
    }
    const absl::StatusOr<Peer> peer = tls_->Verify(certificate);
    // A clock may be set; what another authority has signed stays a stranger's.
    if (!peer.ok() && !tls_->IsSigned(certificate)) {
      return absl::FailedPreconditionError(peer.status().message());
    }
    RETURN_IF_ERROR(peer.status());
    if (server_.has_value() && peer->identity.role != *server_) {
      return absl::FailedPreconditionError(
          absl::StrCat("it is ", MemberName(peer->identity), " of cluster ", peer->identity.cluster,
                       " that answers there, and not its ", RoleName(*server_),
                       "; look at the addresses in the cluster file"));
    }
    return absl::OkStatus();
  }

  const std::shared_ptr<Tls> tls_;
  const std::optional<Role> server_;
  const bool strangers_;
};

}  // namespace

Tls::Tls(std::string file, PeerVerifier verifier, Peer self,
         std::shared_ptr<CertificateProviderInterface> provider)
    : file_(std::move(file)),
      verifier_(std::move(verifier)),
      self_(std::move(self)),
      provider_(std::move(provider)) {}

Tls::~Tls() = default;

absl::StatusOr<std::shared_ptr<Tls>> Tls::Open(const std::string& credential_file, absl::Time now) {
  PrepareGrpc();
  ASSIGN_OR_RETURN(const Credential credential, LoadCredential(credential_file));
  ASSIGN_OR_RETURN(PeerVerifier verifier, PeerVerifier::Create(credential.authority));
  absl::StatusOr<Peer> self = verifier.Verify(credential.certificate, now);
  if (!self.ok()) {
    return Annotate(self.status(), credential_file);
  }
  return std::shared_ptr<Tls>(
      new Tls(credential_file, std::move(verifier), *std::move(self),
              std::make_shared<grpc::experimental::FileWatcherCertificateProvider>(
                  credential_file, credential_file, credential_file, kLookAtFileSeconds)));
}

absl::StatusOr<std::shared_ptr<Tls>> Tls::ForJoining(const std::string& authority) {
  PrepareGrpc();
  ASSIGN_OR_RETURN(PeerVerifier verifier, PeerVerifier::Create(authority));
  return std::shared_ptr<Tls>(
      new Tls("", std::move(verifier), Peer(),
              std::make_shared<grpc::experimental::StaticDataCertificateProvider>(authority)));
}

absl::StatusOr<Peer> Tls::Verify(const std::string& certificate) {
  const absl::Time now = absl::Now();
  {
    MutexLock lock(&mutex_);
    const auto found = verified_.find(certificate);
    if (found != verified_.end() && now >= found->second.validity.begin &&
        now <= found->second.validity.end) {
      return found->second;
    }
  }
  ASSIGN_OR_RETURN(Peer peer, verifier_.Verify(certificate, now));
  MutexLock lock(&mutex_);
  if (verified_.size() >= kMostVerified) {
    verified_.clear();
  }
  verified_.insert_or_assign(certificate, peer);
  return peer;
}

std::shared_ptr<grpc::ServerCredentials> Tls::MakeServerCredentials(bool strangers) {
  grpc::experimental::TlsServerCredentialsOptions options(provider_);
  options.watch_root_certs();
  options.watch_identity_key_cert_pairs();
  options.set_cert_request_type(strangers
                                    ? GRPC_SSL_REQUEST_CLIENT_CERTIFICATE_BUT_DONT_VERIFY
                                    : GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  options.set_certificate_verifier(ExternalCertificateVerifier::Create<MemberVerifier>(
      shared_from_this(), std::nullopt, strangers));
  return grpc::experimental::TlsServerCredentials(options);
}

std::shared_ptr<grpc::ChannelCredentials> Tls::MakeChannelCredentials(Role server) {
  grpc::experimental::TlsChannelCredentialsOptions options;
  options.set_certificate_provider(provider_);
  // MemberVerifier verifies it, and can say what is wrong.
  options.set_verify_server_certs(false);
  if (!self().cluster.empty()) {
    options.watch_identity_key_cert_pairs();
  }
  options.set_check_call_host(false);
  options.set_certificate_verifier(
      ExternalCertificateVerifier::Create<MemberVerifier>(shared_from_this(), server, false));
  return grpc::experimental::TlsCredentials(options);
}

}  // namespace monsoon
