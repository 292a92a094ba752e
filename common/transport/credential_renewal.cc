#include "common/transport/credential_renewal.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/base/clock.h"
#include "common/base/log_limit.h"
#include "common/base/logging.h"
#include "common/base/status.h"
#include "common/security/certificate.h"
#include "common/security/credential_file.h"
#include "common/security/peer_verifier.h"
#include "common/security/signing_request.h"
#include "common/transport/grpc/renew_call.h"

namespace monsoon {
namespace {

constexpr absl::Duration kBetweenWarnings = absl::Hours(1);

// The certificate that the coordinator makes of the same key.
absl::Status Renew(const std::string& coordinator, const std::shared_ptr<Tls>& tls,
                   const Credential& kept, const Peer& peer) {
  ASSIGN_OR_RETURN(const std::string request,
                   MakeSigningRequest(kept.key, peer.identity, peer.hosts));
  ASSIGN_OR_RETURN(const std::string certificate,
                   RenewCertificate(coordinator, tls, peer.identity.cluster, request));
  // A coordinator with another authority was not connected to; its answer is checked all the same,
  // and that it is of this key by SaveCredential.
  ASSIGN_OR_RETURN(const PeerVerifier verifier, PeerVerifier::Create(kept.authority));
  RETURN_IF_ERROR(verifier.Verify(certificate, absl::Now()).status());
  return SaveCredential(tls->file(), {kept.key, certificate, kept.authority});
}

}  // namespace

absl::Status RenewWhereDue(const std::string& coordinator, const std::shared_ptr<Tls>& tls,
                           const CredentialStore::Variables& variables, absl::Time now) {
  ASSIGN_OR_RETURN(const Credential kept, LoadCredential(tls->file()));
  ASSIGN_OR_RETURN(const Peer peer, ReadPeer(kept.certificate));
  if (InFirstHalf(peer.validity, now)) {
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const CredentialStore store, CredentialStore::Find(variables));
  if (store.Authority(peer.identity.cluster).ok()) {
    return store.ObtainFile(peer.identity, peer.hosts, now).status();
  }
  const absl::Status renewed = Renew(coordinator, tls, kept, peer);
  return renewed.ok()
             ? renewed
             : Annotate(renewed, absl::StrCat("the certificate of ", MemberName(peer.identity),
                                              ", which ends at ",
                                              absl::FormatTime(absl::RFC3339_sec, peer.validity.end,
                                                               absl::UTCTimeZone()),
                                              ", was not renewed"));
}

std::unique_ptr<CredentialRenewal> CredentialRenewal::Start(std::string coordinator,
                                                            std::shared_ptr<Tls> tls,
                                                            CredentialStore::Variables variables,
                                                            absl::Duration period) {
  if (tls == nullptr) {
    return nullptr;
  }
  return std::unique_ptr<CredentialRenewal>(
      new CredentialRenewal(std::move(coordinator), std::move(tls), std::move(variables), period));
}

CredentialRenewal::CredentialRenewal(std::string coordinator, std::shared_ptr<Tls> tls,
                                     CredentialStore::Variables variables, absl::Duration period)
    : coordinator_(std::move(coordinator)),
      tls_(std::move(tls)),
      variables_(std::move(variables)),
      period_(period),
      thread_([this] { Run(); }) {}

CredentialRenewal::~CredentialRenewal() {
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
  }
  changed_.NotifyAll();
  thread_.join();
}

void CredentialRenewal::Run() {
  LogLimit warnings(kBetweenWarnings);
  while (true) {
    const absl::Status status = RenewWhereDue(coordinator_, tls_, variables_, absl::Now());
    if (!status.ok() && warnings.Take(Clock::Real()->Now())) {
      LOG(WARNING) << status.message() << "; trying again";
    }
    MutexLock lock(&mutex_);
    changed_.WaitFor(&mutex_, period_, [this] {
      mutex_.AssertHeld();
      return stopping_;
    });
    if (stopping_) {
      return;
    }
  }
}

}  // namespace monsoon
