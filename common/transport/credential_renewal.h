// CredentialRenewal: keeps this process's certificate from ending. Once half of its time is over,
// the authority makes another one, where it is on this host, or the coordinator does; it takes the
// other's place in the credential's file, where Tls finds it. What fails is tried again and told in
// the log, more than three days before the certificate ends.
//
// Thread safe. In a thread of its own.
#pragma once

#include <memory>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/base/mutex.h"
#include "common/security/credential_store.h"
#include "common/transport/grpc/tls.h"

namespace monsoon {

// Renews the credential of `tls` (OwnTls) where that is due; `coordinator` is the address of its
// cluster's. OK: it is not due, or was done. Blocks for some seconds.
absl::Status RenewWhereDue(const std::string& coordinator, const std::shared_ptr<Tls>& tls,
                           const CredentialStore::Variables& variables, absl::Time now);

class CredentialRenewal {
 public:
  // Looks at once and then every `period`, until it is destroyed. Null: there is no credential.
  static std::unique_ptr<CredentialRenewal> Start(std::string coordinator, std::shared_ptr<Tls> tls,
                                                  CredentialStore::Variables variables,
                                                  absl::Duration period = absl::Minutes(1));
  ~CredentialRenewal();

 private:
  CredentialRenewal(std::string coordinator, std::shared_ptr<Tls> tls,
                    CredentialStore::Variables variables, absl::Duration period);

  void Run();

  const std::string coordinator_;
  const std::shared_ptr<Tls> tls_;
  const CredentialStore::Variables variables_;
  const absl::Duration period_;
  Mutex mutex_;
  CondVar changed_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // last: it uses the others
};

}  // namespace monsoon
