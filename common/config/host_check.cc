#include "common/config/host_check.h"

#include <netdb.h>
#include <sys/socket.h>

#include <cerrno>
#include <memory>

#include "absl/strings/str_cat.h"

namespace monsoon {
namespace {

// A look-up in the background, as the resolver wants it: at a fixed place.
struct LookUp {
  std::string host;
  gaicb request{};
};

}  // namespace

absl::Status CheckHostIsKnown(const std::string& host, absl::Duration timeout) {
  auto look_up = std::make_unique<LookUp>();
  look_up->host = host;
  look_up->request.ar_name = look_up->host.c_str();
  gaicb* const request = &look_up->request;
  gaicb* list[] = {request};
  int error = getaddrinfo_a(GAI_NOWAIT, list, 1, /*sevp=*/nullptr);
  if (error == 0) {
    const timespec limit = absl::ToTimespec(timeout);
    while (gai_suspend(list, 1, &limit) == EAI_INTR) {
    }
    error = gai_error(request);
  }
  if (error == EAI_INPROGRESS && gai_cancel(request) != EAI_CANCELED) {
    (void)look_up.release();  // the resolver still writes there
    return absl::UnavailableError(absl::StrCat("the resolver does not answer for host \"", host,
                                               "\" within ", absl::FormatDuration(timeout)));
  }
  if (request->ar_result != nullptr) {
    freeaddrinfo(request->ar_result);
  }
  if (error == 0) {
    return absl::OkStatus();
  }
  if (error == EAI_AGAIN || error == EAI_INPROGRESS) {
    return absl::UnavailableError(
        absl::StrCat("host \"", host, "\" cannot be looked up: ", gai_strerror(error)));
  }
  return absl::NotFoundError(
      absl::StrCat("host \"", host, "\" is not known here: ", gai_strerror(error)));
}

}  // namespace monsoon
