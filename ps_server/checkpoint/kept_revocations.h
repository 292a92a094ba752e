// KeptRevocations: the keys of members that were thrown out, as the coordinator told this shard.
// With a file of its own it outlives the process: a shard that starts while no coordinator is there
// lets nobody in again.
//
// Keys are only added (common/security/revocations.h). The version that the shard answers to the
// coordinator's polls is of a list whose keys it has, on its disk where it keeps state; while that
// cannot be written, the coordinator tells the list again with each poll. A file that cannot be
// read, or is damaged, is told of in the log and begun anew: until the first poll nobody is refused
// by it.
//
// Thread safe.
#pragma once

#include <cstdint>
#include <string>

#include "absl/time/time.h"
#include "common/base/mutex.h"
#include "common/security/revocations.h"
#include "common/storage/storage.h"
#include "proto/revocations.pb.h"

namespace monsoon {

class KeptRevocations {
 public:
  // `path`: its file, in a folder that exists; "": none. `storage` outlives this. `now` is the wall
  // clock, in Hear too.
  KeptRevocations(Storage* storage, std::string path, absl::Time now);

  // The coordinator tells of its list, whose keys are unset where it takes them for known.
  void Hear(const Revocations& told, absl::Time now);
  // Of the list that was told last and is kept; 0: of none.
  uint64_t version() const;
  // Whether whoever has the key with this fingerprint is to be served no more.
  bool Contains(absl::string_view fingerprint) const { return keys_.Contains(fingerprint); }
  const RevokedKeys& keys() const { return keys_; }

 private:
  bool Write(uint64_t version) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  Storage* const storage_;
  const std::string path_;
  RevokedKeys keys_;
  mutable Mutex mutex_;  // one list at a time
  uint64_t version_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace monsoon
