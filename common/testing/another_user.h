// Processes of another user, for tests of what other users may do. Only root can have them, and
// not in Bazel's sandbox, in which there is one user alone: such a test has the tag `no-sandbox`.
//
//   if (!CanBeAnotherUser()) {
//     GTEST_SKIP() << kNoOtherUser;
//   }
//   EXPECT_EQ(RunAsAnotherUser([&] { return connect(...) == 0 ? 0 : 1; }), 1);
#pragma once

#include <sys/types.h>

#include "absl/functional/function_ref.h"

namespace monsoon::testing {

inline constexpr uid_t kAnotherUser = 65534;
inline constexpr char kNoOtherUser[] =
    "this process cannot become another user: it is not root, or runs in a sandbox";

bool CanBeAnotherUser();

// What `act` returns in a forked child of that user, 0 to 99; -1: it did not come to that. `act`
// takes no locks: another thread may have held one at the fork.
int RunAsAnotherUser(absl::FunctionRef<int()> act);

}  // namespace monsoon::testing
