#include "common/security/wrong_tries.h"

#include <arpa/inet.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace monsoon {
namespace {

constexpr size_t kNetworkBytes = 8;  // of an IPv6 address

// An IPv4 address may come in an IPv6 one, from a socket that takes both.
constexpr absl::string_view kMappedPrefix("\0\0\0\0\0\0\0\0\0\0\xff\xff", 12);

std::string HostOf(absl::string_view address) {
  char bytes[sizeof(in6_addr)];
  if (inet_pton(AF_INET6, std::string(address).c_str(), bytes) != 1) {
    return std::string(address);
  }
  const absl::string_view all(bytes, sizeof(bytes));
  if (all.substr(0, kMappedPrefix.size()) == kMappedPrefix) {
    char text[INET_ADDRSTRLEN];
    return inet_ntop(AF_INET, bytes + kMappedPrefix.size(), text, sizeof(text));
  }
  return absl::StrCat("/64:", all.substr(0, kNetworkBytes));
}

}  // namespace

absl::Status WrongTries::Check(absl::string_view address, absl::Duration now) const {
  const auto found = tries_.find(HostOf(address));
  if (found == tries_.end() || now >= found->second.last + found->second.wait) {
    return absl::OkStatus();
  }
  return absl::ResourceExhaustedError(absl::StrCat(
      found->second.wrong, " wrong tokens came from ", address, "; it may try again in ",
      absl::FormatDuration(
          absl::Ceil(found->second.last + found->second.wait - now, absl::Seconds(1)))));
}

void WrongTries::Note(absl::string_view address, absl::Duration now) {
  std::string host = HostOf(address);
  if (!tries_.contains(host)) {
    MakeRoom(now);
  }
  Tries& tries = tries_[std::move(host)];
  if (now - tries.last >= kForgottenAfter) {
    tries = {};
  }
  tries.last = now;
  if (++tries.wrong >= kSlowedAt) {
    tries.wait = std::clamp(2 * tries.wait, kFirstWait, kLongestWait);
  }
}

void WrongTries::MakeRoom(absl::Duration now) {
  if (tries_.size() < kMostAddresses) {
    return;
  }
  std::erase_if(tries_,
                [&](const auto& entry) { return now - entry.second.last >= kForgottenAfter; });
  if (tries_.size() == kMostAddresses) {
    tries_.erase(
        std::ranges::min_element(tries_, {}, [](const auto& entry) { return entry.second.last; }));
  }
}

}  // namespace monsoon
