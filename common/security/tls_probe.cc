#include "common/security/tls_probe.h"

#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/base/check.h"
#include "common/base/status.h"
#include "common/process/unique_fd.h"
#include "common/security/certificate.h"
#include "common/security/identity.h"
#include "common/security/openssl.h"
#include "openssl/err.h"
#include "openssl/ssl.h"

namespace monsoon {
namespace {

using OwnedTlsContext = std::unique_ptr<SSL_CTX, FreeWith<SSL_CTX_free>>;
using OwnedTls = std::unique_ptr<SSL, FreeWith<SSL_free>>;
using OwnedAddresses = std::unique_ptr<addrinfo, FreeWith<freeaddrinfo>>;

// A TLS 1.3 server looks at our certificate after our handshake is over; what it says of it comes
// within this.
constexpr absl::Duration kVerdict = absl::Milliseconds(500);
// HTTP/2, as gRPC asks for it.
constexpr unsigned char kProtocols[] = {2, 'h', '2'};

// False: not before `end`.
bool Await(int fd, int16_t events, absl::Time end) {
  while (true) {
    const absl::Duration left = std::max(absl::ZeroDuration(), end - absl::Now());
    pollfd ready{.fd = fd, .events = events};
    const int count =
        poll(&ready, 1,
             static_cast<int>(absl::ToInt64Milliseconds(absl::Ceil(left, absl::Milliseconds(1)))));
    if (count > 0) {
      return true;
    }
    if (count == 0 || errno != EINTR) {
      return false;
    }
  }
}

absl::Status ConnectError(int error) {
  return absl::UnavailableError(error == ECONNREFUSED
                                    ? "connection refused"
                                    : absl::StrCat("no connection: ", strerror(error)));
}

absl::StatusOr<UniqueFd> ConnectOne(const addrinfo& address, absl::Time end) {
  UniqueFd fd(socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.valid()) {
    return ConnectError(errno);
  }
  if (connect(fd.get(), address.ai_addr, address.ai_addrlen) != 0) {
    if (errno != EINPROGRESS) {
      return ConnectError(errno);
    }
    if (!Await(fd.get(), POLLOUT, end)) {
      return absl::UnavailableError("no connection in time");
    }
    int error = 0;
    socklen_t length = sizeof(error);
    getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &length);
    if (error != 0) {
      return ConnectError(error);
    }
  }
  return fd;
}

absl::StatusOr<UniqueFd> Connect(const std::string& host, uint16_t port, absl::Time end) {
  addrinfo wanted{};
  wanted.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(host.c_str(), absl::StrCat(port).c_str(), &wanted, &found);
  const OwnedAddresses addresses(found);
  if (error != 0) {
    return absl::UnavailableError("its host name is not known");
  }
  absl::StatusOr<UniqueFd> fd = absl::UnavailableError("no connection");
  for (const addrinfo* one = found; one != nullptr && !fd.ok(); one = one->ai_next) {
    fd = ConnectOne(*one, end);
  }
  return fd;
}

absl::StatusOr<OwnedTlsContext> MakeContext(const std::optional<Credential>& credential) {
  OwnedTlsContext context(SSL_CTX_new(TLS_client_method()));
  CHECK(context != nullptr);
  CHECK(SSL_CTX_set_min_proto_version(context.get(), TLS1_2_VERSION) == 1);
  SSL_CTX_set_verify(context.get(), SSL_VERIFY_NONE, nullptr);
  CHECK(SSL_CTX_set_alpn_protos(context.get(), kProtocols, sizeof(kProtocols)) == 0);
  if (credential.has_value()) {
    ASSIGN_OR_RETURN(const OwnedCertificate certificate, ReadCertificate(credential->certificate));
    if (SSL_CTX_use_certificate(context.get(), certificate.get()) != 1 ||
        SSL_CTX_use_PrivateKey(context.get(), credential->key.mutable_key()) != 1) {
      return OpensslError(absl::StatusCode::kFailedPrecondition,
                          "the certificate and the private key do not belong together");
    }
  }
  return context;
}

// gRPC's servers close a connection whose certificate they do not take, without an alert.
absl::Status Refusal(const std::optional<Credential>& credential) {
  if (!credential.has_value()) {
    return absl::UnauthenticatedError(
        "it asks for a certificate, and this user has none of its cluster on this host: join the "
        "cluster first");
  }
  const absl::StatusOr<Peer> self = ReadPeer(credential->certificate);
  return absl::UnauthenticatedError(absl::StrCat(
      "it does not take the certificate of ", self.ok() ? MemberName(self->identity) : "this user",
      self.ok()
          ? absl::StrCat(", which ends at ", absl::FormatTime(absl::RFC3339_sec, self->validity.end,
                                                              absl::UTCTimeZone()))
          : "",
      ": compare the two hosts' clocks; where the cluster was made anew since, join again"));
}

std::string ChainOf(const SSL& tls) {
  std::string chain;
  const STACK_OF(X509)* const certificates = SSL_get_peer_cert_chain(&tls);
  for (int i = 0; certificates != nullptr && i < sk_X509_num(certificates); ++i) {
    chain += WritePem(*sk_X509_value(certificates, i));
  }
  return chain;
}

// One operation of OpenSSL's until it is done, has failed or is late. OK: done.
template <typename Operation>
absl::Status Drive(SSL* tls, int fd, absl::Time end, Operation operation) {
  while (true) {
    ERR_clear_error();
    const int result = operation();
    if (result > 0) {
      return absl::OkStatus();
    }
    switch (SSL_get_error(tls, result)) {
      case SSL_ERROR_WANT_READ:
        if (!Await(fd, POLLIN, end)) {
          return absl::DeadlineExceededError("no answer in time");
        }
        break;
      case SSL_ERROR_WANT_WRITE:
        if (!Await(fd, POLLOUT, end)) {
          return absl::DeadlineExceededError("no answer in time");
        }
        break;
      default:
        return absl::UnavailableError("the connection broke");
    }
  }
}

}  // namespace

absl::StatusOr<ProbedServer> ProbeTls(const std::string& host, uint16_t port,
                                      const std::optional<Credential>& credential,
                                      absl::Duration deadline) {
  const absl::Time end = absl::Now() + deadline;
  ASSIGN_OR_RETURN(const UniqueFd fd, Connect(host, port, end));
  ASSIGN_OR_RETURN(const OwnedTlsContext context, MakeContext(credential));
  const OwnedTls tls(SSL_new(context.get()));
  CHECK(tls != nullptr && SSL_set_fd(tls.get(), fd.get()) == 1);
  ProbedServer server;
  const absl::Status met = Drive(tls.get(), fd.get(), end, [&] { return SSL_connect(tls.get()); });
  server.chain = ChainOf(*tls);
  server.speaks_tls = met.ok() || !server.chain.empty();
  if (absl::IsDeadlineExceeded(met)) {
    return absl::UnavailableError("it takes the connection and says nothing");
  }
  if (!server.speaks_tls) {
    return server;
  }
  if (!met.ok()) {
    server.refusal = Refusal(credential);
    return server;
  }
  char byte = 0;
  const absl::Status verdict = Drive(tls.get(), fd.get(), std::min(end, absl::Now() + kVerdict),
                                     [&] { return SSL_read(tls.get(), &byte, sizeof(byte)); });
  // It waits for our first words, or says its own: it has taken us.
  server.refusal =
      verdict.ok() || absl::IsDeadlineExceeded(verdict) ? absl::OkStatus() : Refusal(credential);
  return server;
}

}  // namespace monsoon
