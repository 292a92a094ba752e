// GoogleTest helpers for absl::Status, which Abseil 20220623 does not bring.
//
//   ASSERT_OK(Save(path));
//   ASSERT_OK_AND_ASSIGN(auto layout, ParameterLayout::Create(model));
//   EXPECT_THAT(Load(path).status(), StatusIs(absl::StatusCode::kNotFound, HasSubstr(path)));
#pragma once

#include <ostream>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace monsoon::testing {

inline const absl::Status& GetStatus(const absl::Status& status) { return status; }
template <typename T>
const absl::Status& GetStatus(const absl::StatusOr<T>& status) {
  return status.status();
}

MATCHER(IsOk, "is OK") {
  if (!GetStatus(arg).ok()) {
    *result_listener << GetStatus(arg).ToString();
  }
  return GetStatus(arg).ok();
}

// The code is `code` and the message matches `message`.
MATCHER_P2(StatusIs, code, message, "has the given code and message") {
  const absl::Status& status = GetStatus(arg);
  *result_listener << status.ToString();
  return status.code() == code &&
         ::testing::ExplainMatchResult(message, std::string(status.message()), result_listener);
}

}  // namespace monsoon::testing

#define EXPECT_OK(expr) EXPECT_THAT(expr, ::monsoon::testing::IsOk())
#define ASSERT_OK(expr) ASSERT_THAT(expr, ::monsoon::testing::IsOk())

#define MONSOON_TEST_CONCAT_INNER(a, b) a##b
#define MONSOON_TEST_CONCAT(a, b) MONSOON_TEST_CONCAT_INNER(a, b)
#define ASSERT_OK_AND_ASSIGN(lhs, expr) \
  ASSERT_OK_AND_ASSIGN_IMPL(MONSOON_TEST_CONCAT(test_status_or_, __LINE__), lhs, expr)
#define ASSERT_OK_AND_ASSIGN_IMPL(tmp, lhs, expr) \
  auto tmp = (expr);                              \
  ASSERT_OK(tmp);                                 \
  lhs = *std::move(tmp)
