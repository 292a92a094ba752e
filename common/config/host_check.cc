#include "common/config/host_check.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <memory>

#include "absl/strings/str_cat.h"
#include "common/base/clock.h"

namespace monsoon {
namespace {

// A look-up in the background, as the resolver wants it: at a fixed place.
struct LookUp {
  std::string host;
  gaicb request{};
};

std::vector<std::string> AddressesOf(const addrinfo* found) {
  std::vector<std::string> addresses;
  for (; found != nullptr; found = found->ai_next) {
    char text[NI_MAXHOST] = "";
    if (getnameinfo(found->ai_addr, found->ai_addrlen, text, sizeof(text), nullptr, 0,
                    NI_NUMERICHOST) == 0 &&
        std::ranges::find(addresses, text) == addresses.end()) {
      addresses.emplace_back(text);
    }
  }
  return addresses;
}

// Nobody has to be asked about it.
bool IsNumeric(const std::string& host) {
  in6_addr address;
  return inet_pton(AF_INET, host.c_str(), &address) == 1 ||
         inet_pton(AF_INET6, host.c_str(), &address) == 1;
}

}  // namespace

absl::StatusOr<std::vector<std::string>> LookUpHost(const std::string& host,
                                                    absl::Duration timeout) {
  if (IsNumeric(host)) {
    return std::vector<std::string>{host};
  }
  auto look_up = std::make_unique<LookUp>();
  look_up->host = host;
  look_up->request.ar_name = look_up->host.c_str();
  gaicb* const request = &look_up->request;
  gaicb* list[] = {request};
  int error = getaddrinfo_a(GAI_NOWAIT, list, 1, /*sevp=*/nullptr);
  if (error == 0) {
    const absl::Duration deadline = Clock::Real()->Now() + timeout;
    absl::Duration left = timeout;
    // It may return early, with nothing done.
    while ((error = gai_error(request)) == EAI_INPROGRESS && left > absl::ZeroDuration()) {
      const timespec limit = absl::ToTimespec(left);
      (void)gai_suspend(list, 1, &limit);
      left = deadline - Clock::Real()->Now();
    }
  }
  if (error == EAI_INPROGRESS && gai_cancel(request) != EAI_CANCELED) {
    (void)look_up.release();  // the resolver still writes there
    return absl::UnavailableError(absl::StrCat("the resolver does not answer for host \"", host,
                                               "\" within ", absl::FormatDuration(timeout)));
  }
  std::vector<std::string> addresses = AddressesOf(request->ar_result);
  if (request->ar_result != nullptr) {
    freeaddrinfo(request->ar_result);
  }
  if (error == 0) {
    return addresses;
  }
  if (error == EAI_AGAIN || error == EAI_INPROGRESS) {
    return absl::UnavailableError(
        absl::StrCat("host \"", host, "\" cannot be looked up: ", gai_strerror(error)));
  }
  return absl::NotFoundError(
      absl::StrCat("host \"", host, "\" is not known here: ", gai_strerror(error)));
}

}  // namespace monsoon
