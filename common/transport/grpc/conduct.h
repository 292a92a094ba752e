// Conduct: which peer makes so many calls in vain that its connection is to be cut: calls that it
// takes back, or that nobody knows.
//
// A call that is taken back costs its peer a few bytes and the server a call. A client of ours
// takes back what is not answered in time, and it has 16 calls open at most, with deadlines of a
// second and more. Who does it faster, and all the time, is an attacker, or broken.
//
// Pure: time is an argument. Not thread safe.
#pragma once

#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/time/time.h"

namespace monsoon {

class Conduct {
 public:
  // Calls in vain that are forgotten a second, and how many may be remembered.
  static constexpr double kForgotten = 20;
  static constexpr double kMost = 200;

  explicit Conduct(double forgotten = kForgotten, double most = kMost)
      : forgotten_(forgotten), most_(most) {}

  // `peer` has made so many calls in vain. True: it is to be cut off; it is forgotten then.
  bool NoteInVain(const std::string& peer, absl::Duration now, double calls = 1);

 private:
  struct Count {
    double calls = 0;
    absl::Duration at;
  };

  double Remembered(const Count& count, absl::Duration now) const;
  // Forgets peers of whom there is nothing to remember.
  void Prune(absl::Duration now);

  const double forgotten_, most_;
  absl::flat_hash_map<std::string, Count> counts_;
  size_t prune_at_ = 1024;
};

}  // namespace monsoon
