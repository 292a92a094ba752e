#include "common/transport/grpc/newcomers.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace monsoon {
namespace {

constexpr size_t kLeastPruned = 1024;
// Of eight groups of an IPv6 address, those of its network.
constexpr size_t kNetworkGroups = 4;

// The network of "2001:db8::1" or "2001:db8:0:0:1::", as far as it is written out.
std::string NetworkOf(absl::string_view six) {
  const std::vector<absl::string_view> groups = absl::StrSplit(six, ':');
  const auto gap = std::ranges::find(groups, "");
  return absl::StrJoin(groups.begin(),
                       groups.begin() + std::min<ptrdiff_t>(kNetworkGroups, gap - groups.begin()),
                       ":");
}

}  // namespace

std::string Newcomers::AddressOf(absl::string_view peer) {
  const absl::string_view host =
      peer.substr(peer.find(':') + 1, peer.rfind(':') - peer.find(':') - 1);
  if (!absl::StartsWith(peer, "ipv6:")) {
    return std::string(host);
  }
  // gRPC escapes the brackets.
  absl::string_view six = host;
  absl::ConsumePrefix(&six, "%5B");
  absl::ConsumeSuffix(&six, "%5D");
  return six == "::1" ? std::string(six) : absl::StrCat(NetworkOf(six), "::/64");
}

double Newcomers::Remembered(const Address& address, absl::Duration now) {
  return std::max(0.0, address.came - kASecond * absl::ToDoubleSeconds(now - address.at));
}

bool Newcomers::MayCome(const std::string& address, absl::Duration now) {
  if (addresses_.size() >= prune_at_) {
    Prune(now);
  }
  Address& of = addresses_[address];
  of.came = Remembered(of, now);
  of.at = now;
  if (of.came >= kAtOnce) {
    return false;
  }
  ++of.came;
  return true;
}

void Newcomers::ShutOut(const std::string& address, absl::Duration now,
                        absl::Duration for_so_long) {
  Address& of = addresses_[address];
  of.came = kAtOnce + kASecond * absl::ToDoubleSeconds(for_so_long);
  of.at = now;
}

std::vector<int> Newcomers::Add(int id, const std::string& address) {
  Forget(id);
  Address& of = addresses_[address];
  ids_[id] = {address, of.ids.insert(of.ids.end(), id)};
  std::vector<int> displaced;
  if (of.ids.size() > std::max<size_t>(1, most_ / 2)) {
    displaced.push_back(TakeOldest(address));
  }
  while (ids_.size() > most_) {
    displaced.push_back(TakeOldest(Largest()));
  }
  return displaced;
}

std::string Newcomers::Largest() const {
  return std::ranges::max_element(addresses_, {},
                                  [](const auto& entry) { return entry.second.ids.size(); })
      ->first;
}

int Newcomers::TakeOldest(const std::string& address) {
  const int id = addresses_[address].ids.front();
  Forget(id);
  return id;
}

void Newcomers::Prove(int id) {
  const auto found = ids_.find(id);
  if (found != ids_.end()) {
    Address& of = addresses_[found->second.address];
    of.came = std::max(0.0, of.came - 1);
    Forget(id);
  }
}

void Newcomers::Forget(int id) {
  const auto found = ids_.find(id);
  if (found != ids_.end()) {
    addresses_[found->second.address].ids.erase(found->second.place);
    ids_.erase(found);
  }
}

void Newcomers::Prune(absl::Duration now) {
  absl::erase_if(addresses_, [now](const auto& entry) {
    return entry.second.ids.empty() && Remembered(entry.second, now) == 0;
  });
  prune_at_ = std::max(kLeastPruned, 2 * addresses_.size());
}

}  // namespace monsoon
