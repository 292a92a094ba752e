#include "common/config/address.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace monsoon {
namespace {

constexpr char kForms[] = "use host:port, [ipv6]:port or unix:PATH";
constexpr char kUnix[] = "unix:";
constexpr char kUnixAbstract[] = "unix-abstract:";

absl::StatusOr<Address> UnixAddress(const std::string& path, const std::string& text) {
  if (path.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("\"", text, "\" has an empty name"));
  }
  if (path.size() > kMaxUnixPathBytes) {
    return absl::InvalidArgumentError(absl::StrCat("the socket's path has ", path.size(),
                                                   " bytes, the system takes ", kMaxUnixPathBytes,
                                                   " at most"));
  }
  Address address;
  address.kind = Address::Kind::kUnix;
  address.path = path;
  return address;
}

bool IsHostCharacter(char c) { return absl::ascii_isalnum(c) || c == '.' || c == '-' || c == '_'; }

bool IsIpv6Character(char c) { return absl::ascii_isxdigit(c) || c == ':' || c == '.'; }

bool IsIpv6(const std::string& text) {
  in6_addr address;
  return inet_pton(AF_INET6, text.c_str(), &address) == 1;
}

// What is wrong with `text` if it is an IPv6 address, with a port or without one, whose brackets
// are missing; "": it is none.
std::string Ipv6Complaint(const std::string& text) {
  if (text.size() > 2 && text.front() == '[' && text.back() == ']' &&
      IsIpv6(text.substr(1, text.size() - 2))) {
    return absl::StrCat("\"", text, "\" has no port: write ", text, ":PORT");
  }
  const bool may_be = std::count(text.begin(), text.end(), ':') > 1 &&
                      std::all_of(text.begin(), text.end(), IsIpv6Character);
  if (!may_be) {
    return "";
  }
  const size_t colon = text.rfind(':');
  const std::string host = text.substr(0, colon);
  const std::string guess =
      IsIpv6(host) ? absl::StrCat("[", host, "]", text.substr(colon)) : "[ADDRESS]:PORT";
  return absl::StrCat("\"", text, "\" is an IPv6 address without brackets: write ", guess);
}

bool IsAnyHost(const std::string& host) { return host == "0.0.0.0" || host == "::"; }

// Spellings of one host made equal, as far as that goes without a resolver.
std::string CanonicalHost(const std::string& host) {
  std::string lower = absl::AsciiStrToLower(host);
  if (in6_addr six; inet_pton(AF_INET6, lower.c_str(), &six) == 1) {
    char text[INET6_ADDRSTRLEN] = "";
    return inet_ntop(AF_INET6, &six, text, sizeof(text));
  }
  if (lower.size() > 1 && lower.back() == '.') {
    lower.pop_back();  // a name's root
  }
  return lower == "localhost" ? "127.0.0.1" : lower;
}

}  // namespace

absl::StatusOr<Address> ParseAddress(const std::string& text) {
  if (absl::StartsWith(text, kUnixAbstract)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "\"", text, "\" is an abstract Unix socket, to which every user of the machine ",
        "can connect: use unix:PATH, as in unix:/run/user/1000/ps0"));
  }
  if (absl::StartsWith(text, kUnix)) {
    return UnixAddress(text.substr(sizeof(kUnix) - 1), text);
  }
  if (const std::string complaint = Ipv6Complaint(text); !complaint.empty()) {
    return absl::InvalidArgumentError(complaint);
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
  if (bracketed && !IsIpv6(address.host)) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", address.host, "\" is not an IPv6 address"));
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

bool IsTcp(const std::string& address) { return !absl::StartsWith(address, "unix"); }

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
