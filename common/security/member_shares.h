// MemberShares: how much each member has of something that all of them share, so that nobody
// takes all of it. One may have an equal share of the total, as if one more were there, so that
// whoever comes next finds some; a least part is everybody's, and may go above the total, which
// whoever shares it out has to bound itself.
//
// A member is a name: that of a certificate, else an address (QuotaName, caller.h). Whoever has no
// name is of this machine's user, and has no share.
//
// Not thread safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace monsoon {

class MemberShares {
 public:
  struct Options {
    std::string what;  // is shared: "calls being served"
    uint64_t total = 0;
    uint64_t least = 1;       // for anybody
    uint64_t most = total;    // for one who is alone
    std::string remedy = "";  // what whoever is refused can do: "end some of them"
  };
  explicit MemberShares(Options options) : options_(std::move(options)) {}

  // `most` of a thing that nothing frees by itself, of whose total so much is taken, by members or
  // not: the last quarter is for those who have less than the least part.
  static uint64_t MostBeside(uint64_t total, uint64_t least, uint64_t taken);
  // What one member may have where `members` have some.
  static uint64_t Share(const Options& options, size_t members);
  // What `member` may have now.
  uint64_t ShareOf(const std::string& member) const;
  uint64_t Of(const std::string& member) const;
  size_t members() const { return amounts_.size(); }

  // ResourceExhausted, and nothing taken, where it would have more than its share; names it, the
  // limit and the remedy.
  absl::Status Take(const std::string& member, uint64_t amount);
  // It has so much more, whatever its share is: what was taken in an earlier life.
  void Count(const std::string& member, uint64_t amount);
  // At most what it has.
  void Give(const std::string& member, uint64_t amount);

 private:
  const Options options_;
  absl::flat_hash_map<std::string, uint64_t> amounts_;  // none is 0
};

}  // namespace monsoon
