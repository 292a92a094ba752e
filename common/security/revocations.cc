#include "common/security/revocations.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "common/security/digest.h"

namespace monsoon {
namespace {

// A list's own, of its keys in their order; not 0 where there are any.
uint64_t VersionOf(const Revocations& list) {
  if (list.key().empty()) {
    return 0;
  }
  std::string text;
  for (const MemberKey& key : list.key()) {
    text += Sha256(key.fingerprint());
    text += std::to_string(key.not_after_ms());
    text += '\n';
  }
  const std::string digest = Sha256(text);
  uint64_t version = 0;
  for (size_t i = 0; i < sizeof(version); ++i) {
    version = version << 8 | static_cast<unsigned char>(digest[i]);
  }
  return version == 0 ? 1 : version;
}

}  // namespace

Revocations MakeRevocations(std::vector<MemberKey> keys) {
  std::map<std::string, int64_t> sorted;
  for (const MemberKey& key : keys) {
    int64_t& end = sorted[key.fingerprint()];
    end = std::max(end, key.not_after_ms());
  }
  Revocations list;
  for (const auto& [fingerprint, end] : sorted) {
    MemberKey* const key = list.add_key();
    key->set_fingerprint(fingerprint);
    key->set_not_after_ms(end);
  }
  list.set_version(VersionOf(list));
  return list;
}

bool RevokedKeys::Contains(absl::string_view fingerprint) const {
  MutexLock lock(&mutex_);
  return keys_.find(fingerprint) != keys_.end();
}

bool RevokedKeys::Add(const Revocations& list, absl::Time now) {
  MutexLock lock(&mutex_);
  const int64_t now_ms = absl::ToUnixMillis(now);
  bool changed = std::erase_if(keys_, [&](const auto& key) { return key.second < now_ms; }) > 0;
  for (const MemberKey& key : list.key()) {
    if (key.fingerprint().size() != kSha256Bytes || key.not_after_ms() < now_ms ||
        keys_.size() >= kMostRevokedKeys) {
      continue;
    }
    int64_t& end = keys_[key.fingerprint()];
    changed |= end < key.not_after_ms();
    end = std::max(end, key.not_after_ms());
  }
  return changed;
}

Revocations RevokedKeys::All() const {
  std::vector<MemberKey> keys;
  MutexLock lock(&mutex_);
  for (const auto& [fingerprint, end] : keys_) {
    keys.emplace_back().set_fingerprint(fingerprint);
    keys.back().set_not_after_ms(end);
  }
  return MakeRevocations(std::move(keys));
}

}  // namespace monsoon
