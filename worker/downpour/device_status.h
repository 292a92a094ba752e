// What an error of the device's comes to.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "worker/session/session_status.h"

namespace monsoon {

// An error of a call that only a device can fail, of that worker: a DeviceError, but for want of
// memory, which breaks no device.
inline absl::Status OfDevice(uint32_t worker, const absl::Status& status) {
  if (status.ok() || IsDeviceError(status) || absl::IsResourceExhausted(status)) [[likely]] {
    return status;
  }
  return DeviceError(absl::StrCat("worker/", worker, ": ", status.message()));
}

}  // namespace monsoon
