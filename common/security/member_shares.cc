#include "common/security/member_shares.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"

namespace monsoon {

uint64_t MemberShares::MostBeside(uint64_t total, uint64_t least, uint64_t taken) {
  return taken < total - total / 4 ? total : least;
}

uint64_t MemberShares::Share(const Options& options, size_t members) {
  return std::max(options.least, std::min(options.most, options.total / (members + 1)));
}

uint64_t MemberShares::ShareOf(const std::string& member) const {
  return Share(options_, amounts_.size() + (amounts_.contains(member) ? 0 : 1));
}

uint64_t MemberShares::Of(const std::string& member) const {
  const auto found = amounts_.find(member);
  return found == amounts_.end() ? 0 : found->second;
}

absl::Status MemberShares::Take(const std::string& member, uint64_t amount) {
  if (member.empty() || amount == 0) {
    return absl::OkStatus();
  }
  const uint64_t has = Of(member);
  const uint64_t share = ShareOf(member);
  if (has + amount > share) {
    return absl::ResourceExhaustedError(
        absl::StrCat(member, " has ", has, " ", options_.what, ", and may have ", share, " beside ",
                     amounts_.size() - (has > 0 ? 1 : 0), " other members; ", options_.remedy));
  }
  Count(member, amount);
  return absl::OkStatus();
}

void MemberShares::Count(const std::string& member, uint64_t amount) {
  if (!member.empty() && amount > 0) {
    amounts_[member] += amount;
  }
}

void MemberShares::Give(const std::string& member, uint64_t amount) {
  if (member.empty() || amount == 0) {
    return;
  }
  const auto found = amounts_.find(member);
  CHECK(found != amounts_.end() && found->second >= amount);
  found->second -= amount;
  if (found->second == 0) {
    amounts_.erase(found);
  }
}

}  // namespace monsoon
