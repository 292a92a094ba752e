#include "common/transport/grpc/status_conversion.h"

#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/base/lasting.h"
#include "common/base/peer_text.h"
#include "common/base/status.h"
#include "common/base/unsent.h"
#include "common/base/utf8.h"

namespace monsoon {
namespace {

// In lower case.
constexpr absl::string_view kNoTls = "wrong version number";

// gRPC tells these apart in its text only. Who speaks no TLS is none of ours: its port is
// somebody else's now, and he was told nothing.
bool SaysNobodyListens(const grpc::Status& status) {
  return status.error_code() == grpc::StatusCode::UNAVAILABLE && !IsFromPeer(status) &&
         (absl::StrContains(status.error_message(), "Connection refused") ||
          absl::StrContains(status.error_message(), "No such file or directory") ||
          absl::StrContains(absl::AsciiStrToLower(status.error_message()), kNoTls));
}

// gRPC lets no more through.
constexpr size_t kMostErrorBytes = 8 << 10;

struct Words {
  absl::string_view raw;  // a part of gRPC's text, in lower case
  absl::string_view plain;
};

// The first that fits: gRPC chains causes, and the specific ones come first here.
constexpr Words kWords[] = {
    {"connection refused", "connection refused"},
    {"no such file or directory", "no such socket"},
    {"dns resolution failed", "its host name is not known"},
    {"domain name not found", "its host name is not known"},
    {"no route to host", "no route to its host"},
    {"network is unreachable", "its network cannot be reached"},
    {"permission denied", "permission denied"},
    {"http1.x server", "what listens there is no task of Monsoon"},
    {kNoTls,
     "what listens there speaks no TLS: it runs with --insecure, or it is no task of Monsoon"},
    {"deadline exceeded", "no answer in time"},
    {"keepalive watchdog timeout", "it has stopped answering"},
    {"tcp handshaker shutdown", "no connection in time"},
    {"handshake", "no connection in time"},
    {"connect failed: timeout", "no connection in time"},
    {"timed out", "no connection in time"},
    {"socket closed", kConnectionBroke},
    {"connection reset", kConnectionBroke},
    {"broken pipe", kConnectionBroke},
    {"endpoint read failed", kConnectionBroke},
    {"recvmsg", kConnectionBroke},
    {"sendmsg", kConnectionBroke},
    {"transport closed", kConnectionBroke},
    {"stream removed", kConnectionBroke},
    {"rst_stream", kConnectionBroke},
    {"cancelling all calls", "it is stopping"},
    {"goaway", "it is stopping"},
    {"failed to connect to all addresses", "no connection"},
    {"empty address list", "no connection"},
};

// What Tls says of the other end's certificate, which gRPC wraps in words of its own.
constexpr absl::string_view kVerification = "verification check failed with error: ";
constexpr absl::string_view kLastingCode = "FAILED_PRECONDITION";

bool SaysItLasts(const grpc::Status& status) {
  return !IsFromPeer(status) &&
         absl::StrContains(status.error_message(), absl::StrCat(kVerification, kLastingCode));
}

std::string InPlainWords(const grpc::Status& status) {
  if (IsFromPeer(status)) {
    return status.error_message();
  }
  if (status.error_code() == grpc::StatusCode::UNIMPLEMENTED && status.error_message().empty()) {
    return "what listens there does not know this call: another kind of task, or another version";
  }
  if (status.error_code() == grpc::StatusCode::INTERNAL && status.error_message().empty()) {
    return "what listens there cannot read the request: it is another version, or a text is not "
           "UTF-8";
  }
  const std::string raw = status.error_message();
  if (const size_t at = raw.find(kVerification.data()); at != std::string::npos) {
    const absl::string_view said = absl::string_view(raw).substr(at + kVerification.size());
    const size_t code = said.find(": ");
    return std::string(code == absl::string_view::npos ? said : said.substr(code + 2));
  }
  const std::string lower = absl::AsciiStrToLower(raw);
  for (const Words& words : kWords) {
    if (absl::StrContains(lower, words.raw)) {
      return std::string(words.plain);
    }
  }
  return status.error_message();
}

}  // namespace

bool IsFromPeer(const grpc::Status& status) { return !status.error_details().empty(); }

grpc::Status ToGrpcStatus(const absl::Status& status) {
  if (status.ok()) {
    return grpc::Status::OK;
  }
  // A google.rpc.Status with nothing but its code, as the details should be one.
  const std::string details = {'\x08', static_cast<char>(status.raw_code())};
  return grpc::Status(static_cast<grpc::StatusCode>(status.raw_code()), ValidUtf8(status.message()),
                      details);
}

absl::Status FromGrpcStatus(const grpc::Status& status) {
  // Of several mistakes each has its line.
  absl::Status result(static_cast<absl::StatusCode>(status.error_code()),
                      PeerLines(InPlainWords(status), kMostErrorBytes));
  if (SaysNobodyListens(status)) {
    MarkNobodyListens(&result);
  }
  // Whoever is there was told nothing before his certificate was looked at.
  if (!IsFromPeer(status) && absl::StrContains(status.error_message(), kVerification)) {
    MarkUnsent(&result);
  }
  if (SaysItLasts(status)) {
    MarkLasting(&result);
  }
  return result;
}

}  // namespace monsoon
