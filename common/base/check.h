// CHECK stops the process on a violated invariant of our own code. Never for
// input or environment: those are absl::Status.
#pragma once

#include <string>

#include "absl/status/status.h"

namespace monsoon::internal {

[[noreturn]] void CheckFailed(const char* file, int line, const char* condition,
                              const std::string& detail);

}  // namespace monsoon::internal

#define CHECK(condition)                                                    \
  do {                                                                      \
    if (!(condition)) [[unlikely]] {                                        \
      ::monsoon::internal::CheckFailed(__FILE__, __LINE__, #condition, {}); \
    }                                                                       \
  } while (false)

#define CHECK_EQ(a, b) CHECK((a) == (b))
#define CHECK_NE(a, b) CHECK((a) != (b))
#define CHECK_LE(a, b) CHECK((a) <= (b))
#define CHECK_LT(a, b) CHECK((a) < (b))
#define CHECK_GE(a, b) CHECK((a) >= (b))
#define CHECK_GT(a, b) CHECK((a) > (b))

#define CHECK_OK(expr)                                                                 \
  do {                                                                                 \
    if (const absl::Status status_ = (expr); !status_.ok()) [[unlikely]] {             \
      ::monsoon::internal::CheckFailed(__FILE__, __LINE__, #expr, status_.ToString()); \
    }                                                                                  \
  } while (false)
