#include "common/process/own_machine.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "common/process/host_name.h"

namespace monsoon {
namespace {

std::string Text(const sockaddr* address) {
  char text[INET6_ADDRSTRLEN] = "";
  if (address->sa_family == AF_INET) {
    inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(address)->sin_addr, text,
              sizeof(text));
  } else if (address->sa_family == AF_INET6) {
    inet_ntop(AF_INET6, &reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr, text,
              sizeof(text));
  }
  return text;
}

std::set<std::string> AddressesOfInterfaces() {
  std::set<std::string> addresses;
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) {
    return addresses;
  }
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr != nullptr) {
      addresses.insert(Text(entry->ifa_addr));
    }
  }
  freeifaddrs(list);
  addresses.erase("");
  return addresses;
}

std::vector<std::string> Resolve(const std::string& host) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  std::vector<std::string> addresses;
  if (getaddrinfo(host.c_str(), nullptr, &hints, &found) != 0) {
    return addresses;
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(found, &freeaddrinfo);
  for (; found != nullptr; found = found->ai_next) {
    addresses.push_back(Text(found->ai_addr));
  }
  return addresses;
}

// One spelling of an IP address; "": it is none.
std::string CanonicalAddress(const std::string& host) {
  char text[INET6_ADDRSTRLEN] = "";
  in_addr four;
  in6_addr six;
  if (inet_pton(AF_INET, host.c_str(), &four) == 1) {
    inet_ntop(AF_INET, &four, text, sizeof(text));
  } else if (inet_pton(AF_INET6, host.c_str(), &six) == 1) {
    inet_ntop(AF_INET6, &six, text, sizeof(text));
  }
  return text;
}

}  // namespace

OwnMachine OwnMachine::Look() { return OwnMachine(HostName(), AddressesOfInterfaces(), &Resolve); }

OwnMachine::OwnMachine(std::string name, std::set<std::string> addresses, HostResolver resolve)
    : name_(std::move(name)), addresses_(std::move(addresses)), resolve_(std::move(resolve)) {}

// All of 127.0.0.0/8 is, though the interface lists 127.0.0.1 alone: Debian gives a machine's own
// name the address 127.0.1.1.
bool OwnMachine::IsOwnAddress(const std::string& ip) const {
  return absl::StartsWith(ip, "127.") || ip == "::1" || addresses_.contains(ip);
}

bool OwnMachine::Is(const std::string& host) const {
  if (const std::string ip = CanonicalAddress(host); !ip.empty()) {
    return IsOwnAddress(ip);
  }
  if (!name_.empty() && absl::EqualsIgnoreCase(host, name_)) {
    return true;
  }
  const std::vector<std::string> found = resolve_(host);
  return std::ranges::any_of(found, [this](const std::string& ip) { return IsOwnAddress(ip); });
}

}  // namespace monsoon
