// CallWithFaults: one call under --fault, at either end of it.
#pragma once

#include <algorithm>

#include "absl/status/status.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/transport/frame/fault.h"

namespace monsoon {

// Runs `call`, which gives absl::Status or absl::StatusOr, as `injector` rolls
// the dice: waits first, for `longest_delay` at most, and may lose the request,
// so that `call` is not run, or what it gives. Lost is Unavailable.
template <typename Call>
auto CallWithFaults(FaultInjector* injector, absl::Duration longest_delay, Call call)
    -> decltype(call()) {
  if (!injector->enabled()) {
    return call();
  }
  const Fault fault = injector->Next();
  absl::SleepFor(std::min(fault.delay, longest_delay));
  if (fault.loss == Fault::Loss::kRequest) {
    return absl::UnavailableError("request lost by --fault");
  }
  auto result = call();
  if (fault.loss == Fault::Loss::kReply) {
    return absl::UnavailableError("answer lost by --fault");
  }
  return result;
}

template <typename Call>
auto CallWithFaults(FaultInjector* injector, Call call) -> decltype(call()) {
  return CallWithFaults(injector, absl::InfiniteDuration(), call);
}

}  // namespace monsoon
