#include "common/config/address.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace monsoon {
namespace {

constexpr char kForms[] = "use host:port, unix:PATH or unix-abstract:NAME";
constexpr char kUnix[] = "unix:";
constexpr char kUnixAbstract[] = "unix-abstract:";

absl::StatusOr<Address> UnixAddress(Address::Kind kind, const std::string& path,
                                    const std::string& text) {
  if (path.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("\"", text, "\" has an empty name"));
  }
  if (path.size() > kMaxUnixPathBytes) {
    return absl::InvalidArgumentError(absl::StrCat("the socket's path has ", path.size(),
                                                   " bytes, the system takes ", kMaxUnixPathBytes,
                                                   " at most"));
  }
  Address address;
  address.kind = kind;
  address.path = path;
  return address;
}

bool IsHostCharacter(char c) { return absl::ascii_isalnum(c) || c == '.' || c == '-' || c == '_'; }

bool IsIpv6Character(char c) { return absl::ascii_isxdigit(c) || c == ':' || c == '.'; }

bool IsAnyHost(const std::string& host) { return host == "0.0.0.0" || host == "::"; }

// Spellings of one host made equal, as far as that goes without a resolver.
std::string CanonicalHost(const std::string& host) {
  const std::string lower = absl::AsciiStrToLower(host);
  return lower == "localhost" ? "127.0.0.1" : lower;
}

}  // namespace

absl::StatusOr<Address> ParseAddress(const std::string& text) {
  if (absl::StartsWith(text, kUnixAbstract)) {
    return UnixAddress(Address::Kind::kUnixAbstract, text.substr(sizeof(kUnixAbstract) - 1), text);
  }
  if (absl::StartsWith(text, kUnix)) {
    return UnixAddress(Address::Kind::kUnix, text.substr(sizeof(kUnix) - 1), text);
  }
  const size_t colon = text.rfind(':');
  if (colon == std::string::npos) {
    return absl::InvalidArgumentError(absl::StrCat("\"", text, "\" has no port"));
  }
  Address address;
  address.host = text.substr(0, colon);
  const bool bracketed =
      address.host.size() >= 2 && address.host.front() == '[' && address.host.back() == ']';
  if (bracketed) {
    address.host = address.host.substr(1, address.host.size() - 2);
  }
  if (address.host.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("\"", text, "\" has no host"));
  }
  if (!std::all_of(address.host.begin(), address.host.end(),
                   bracketed ? IsIpv6Character : IsHostCharacter)) {
    return absl::InvalidArgumentError(absl::StrCat("\"", text, "\" is not an address: ", kForms));
  }
  const std::string port = text.substr(colon + 1);
  uint64_t number = 0;
  if (port.empty() || !std::all_of(port.begin(), port.end(), absl::ascii_isdigit)) {
    return absl::InvalidArgumentError(absl::StrCat("port \"", port, "\" is not a number"));
  }
  if (!absl::SimpleAtoi(port, &number) || number > 65535) {
    return absl::InvalidArgumentError(absl::StrCat("port ", port, " is out of range 0 .. 65535"));
  }
  address.port = static_cast<uint16_t>(number);
  return address;
}

bool IsLoopback(const std::string& address) {
  const absl::StatusOr<Address> parsed = ParseAddress(address);
  if (!parsed.ok()) {
    return false;
  }
  if (parsed->kind != Address::Kind::kTcp) {
    return true;
  }
  const std::string host = CanonicalHost(parsed->host);
  if (host == "::1") {
    return true;
  }
  // "127.evil.example" is a name, not an address.
  return absl::StartsWith(host, "127.") && std::count(host.begin(), host.end(), '.') == 3 &&
         std::all_of(host.begin(), host.end(),
                     [](char c) { return c == '.' || absl::ascii_isdigit(c); });
}

bool SameEndpoint(const Address& a, const Address& b) {
  if (a.kind != b.kind) {
    return false;
  }
  if (a.kind != Address::Kind::kTcp) {
    return a.path == b.path;
  }
  return a.port == b.port && a.port != 0 &&
         (CanonicalHost(a.host) == CanonicalHost(b.host) || IsAnyHost(a.host) || IsAnyHost(b.host));
}

}  // namespace monsoon
