// Newcomers: connections that have yet to prove that a member is at their other end, by a call
// that was let in. A stranger makes as many as it likes: each holds a descriptor, and its first
// words cost a server a signature (0.12 ms), and their sender nothing.
//
// So there is a bound on them, in all and of one address, and who comes beside it displaces the
// oldest of the address that has the most: an honest newcomer proves itself within milliseconds.
// And there is one on how many of an address come in a second; each that proves itself is taken
// off that count. A network of IPv6 (/64) counts as one address.
//
// Pure: time is an argument. Not thread safe.
#pragma once

#include <cstddef>
#include <list>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace monsoon {

class Newcomers {
 public:
  // Of one address that come a second, and how many may come at once.
  static constexpr double kASecond = 100;
  static constexpr double kAtOnce = 400;

  // So many in all; half of them of one address.
  explicit Newcomers(size_t most) : most_(most) {}

  // The address of a peer as gRPC calls it: "ipv4:10.0.0.5:41234" is of 10.0.0.5.
  static std::string AddressOf(absl::string_view peer);

  // Whether one of this address may come now; counted if so.
  bool MayCome(const std::string& address, absl::Duration now);
  // Connection `id` of the address has come, in place of an earlier one of that number; those that
  // are to be cut off for it. They are forgotten.
  std::vector<int> Add(int id, const std::string& address);
  // Nobody may come from there for so long.
  void ShutOut(const std::string& address, absl::Duration now, absl::Duration for_so_long);
  // It has proved itself, or has ended.
  void Prove(int id);
  void Forget(int id);

  size_t size() const { return ids_.size(); }

 private:
  struct Address {
    std::list<int> ids;  // oldest first
    double came = 0;     // as of `at`
    absl::Duration at;
  };
  struct Newcomer {
    std::string address;
    std::list<int>::iterator place;
  };

  static double Remembered(const Address& address, absl::Duration now);
  // The address that has the most.
  std::string Largest() const;
  int TakeOldest(const std::string& address);
  // Forgets addresses of which there is nothing to remember.
  void Prune(absl::Duration now);

  const size_t most_;
  absl::flat_hash_map<std::string, Address> addresses_;
  absl::flat_hash_map<int, Newcomer> ids_;
  size_t prune_at_ = 1024;
};

}  // namespace monsoon
