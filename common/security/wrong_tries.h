// WrongTries: slows down an address from which wrong tokens come. Nobody guesses 256 bits; this
// bounds what a host with an old or mangled token costs the others, and what it can write into
// logs.
//
// Four wrong ones are free. After the fifth the address has to wait for 1 s before its next try,
// then for 2 s, 4 s and so on to a minute, and a right token waits as well. An address without a
// wrong one for ten minutes begins anew. IPv6 addresses count by their /64, which one host has
// for itself.
//
// Plain class without a clock: `now` is any clock that does not go back. Thread safety: none.
#pragma once

#include <cstddef>
#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace monsoon {

class WrongTries {
 public:
  static constexpr int kSlowedAt = 5;
  static constexpr absl::Duration kFirstWait = absl::Seconds(1);
  static constexpr absl::Duration kLongestWait = absl::Minutes(1);
  static constexpr absl::Duration kForgottenAfter = absl::Minutes(10);
  // More are not remembered: the one whose last wrong try is longest ago goes.
  static constexpr size_t kMostAddresses = 4096;

  // ResourceExhausted, with how long to wait, where it is too early for another try. `address` is
  // an IP address; whatever else counts for itself.
  absl::Status Check(absl::string_view address, absl::Duration now) const;
  void Note(absl::string_view address, absl::Duration now);

  size_t addresses() const { return tries_.size(); }

 private:
  struct Tries {
    int wrong = 0;
    absl::Duration last;
    absl::Duration wait;  // from `last` on
  };

  void MakeRoom(absl::Duration now);

  std::map<std::string, Tries> tries_;
};

}  // namespace monsoon
