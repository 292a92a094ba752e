#include "common/transport/grpc/diagnosis.h"

#include <optional>

#include "absl/strings/match.h"
#include "common/config/address.h"
#include "common/security/credential_file.h"
#include "common/security/tls_probe.h"
#include "common/transport/grpc/status_conversion.h"

namespace monsoon {
namespace {

constexpr absl::Duration kLook = absl::Seconds(1);

}  // namespace

absl::Status Diagnose(const absl::Status& status, const std::string& address,
                      const std::shared_ptr<Tls>& tls) {
  const absl::StatusOr<Address> parsed = ParseAddress(address);
  if (!absl::IsUnavailable(status) || !absl::StrContains(status.message(), kConnectionBroke) ||
      !parsed.ok() || parsed->kind != Address::Kind::kTcp) {
    return status;
  }
  std::optional<Credential> shown;
  if (tls != nullptr && !tls->file().empty()) {
    if (absl::StatusOr<Credential> kept = LoadCredential(tls->file()); kept.ok()) {
      shown = *std::move(kept);
    }
  }
  const absl::StatusOr<ProbedServer> server = ProbeTls(parsed->host, parsed->port, shown, kLook);
  if (!server.ok() || server->refusal.ok()) {
    return status;
  }
  // What is wrong with a certificate may pass, as with a clock; that there is none does not.
  return shown.has_value() ? absl::UnavailableError(server->refusal.message())
                           : absl::FailedPreconditionError(server->refusal.message());
}

}  // namespace monsoon
