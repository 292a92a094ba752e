// What one request may hold in texts: the one place that says so for all fields of all calls. What
// a request leaves behind, in memory and in a journal, is paid for by the server, and a text that
// nobody reads may as well be as long as a message can be.
#pragma once

#include <cstddef>

#include "absl/status/status.h"
#include "google/protobuf/message.h"

namespace monsoon {

// Of a text that no row of the table names: more than any path or reason has.
inline constexpr size_t kMostTextBytes = 16 << 10;
// Of a job, as submitted or entered: some 20000 tensors, or 50000 names of classes.
inline constexpr size_t kMostJobMessageBytes = 2 << 20;

// InvalidArgument that names the first field whose text, or whose number of values, is above its
// limit, and the limit. Texts in submessages count, `bytes` do not: whoever takes them says how
// many.
absl::Status CheckRequestLimits(const google::protobuf::Message& request);

}  // namespace monsoon
