// PeerText: text that another process has sent, made fit for logs and terminals, where it enters
// this one. What moves a cursor, begins a line, turns the direction of writing or cannot be seen is
// written as an escape: a newline as "\n", others as "\x1b" and "\u202e", bytes that are no UTF-8
// as "\xe9". All else stays, letters of all scripts among it, so a text that went through once goes
// through again as it is.
//
// Plain functions. Thread safe.
#pragma once

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"

namespace monsoon {

// One line, of at most `most` bytes, and "..." where that is not all. `text` may have any length.
std::string PeerText(absl::string_view text, size_t most);
// The same of a text that has several lines, as a list of mistakes: newlines stay.
std::string PeerLines(absl::string_view text, size_t most);

// For what has no better bound: an error, a reason.
inline constexpr size_t kMostPeerText = 4096;
// The name of a host, a device, a task, a user.
inline constexpr size_t kMostPeerName = 128;

}  // namespace monsoon
