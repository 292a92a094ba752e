// Result: how a call of a program ended, as libmonsoon's C interface tells it.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "worker/client/monsoon.h"

namespace monsoon {

struct Result {
  monsoon_code code = MONSOON_OK;
  std::string message;

  bool ok() const { return code == MONSOON_OK; }
};

inline Result Invalid(std::string message) {
  return {MONSOON_INVALID_ARGUMENT, std::move(message)};
}

// A code that came over the socket; MONSOON_UNKNOWN for one that has no name here.
inline monsoon_code CodeOfStatus(uint32_t value) {
  switch (value) {
    case MONSOON_CANCELLED:
    case MONSOON_INVALID_ARGUMENT:
    case MONSOON_DEADLINE_EXCEEDED:
    case MONSOON_NOT_FOUND:
    case MONSOON_RESOURCE_EXHAUSTED:
    case MONSOON_FAILED_PRECONDITION:
    case MONSOON_ABORTED:
    case MONSOON_OUT_OF_RANGE:
    case MONSOON_INTERNAL:
    case MONSOON_UNAVAILABLE:
      return static_cast<monsoon_code>(value);
    default:
      return MONSOON_UNKNOWN;
  }
}

}  // namespace monsoon
