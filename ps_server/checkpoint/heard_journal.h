// HeardJournal: the newest journal of a coordinator that this shard has heard of, which it tells
// every coordinator: one whose state folder is an older copy, another cluster's or empty must not
// go on from it (coordinator/slices/journal_guard.h).
//
// With a file of its own it outlives the process. That is written when another life of a
// coordinator speaks, with each generation that is ordered, and when the process ends in order: so
// whoever finds a part here finds a mark that is as new. A process that is killed forgets what it
// has heard since. A mark that cannot be written or read is passed over.
//
// Thread safe.
#pragma once

#include <optional>
#include <string>

#include "common/base/mutex.h"
#include "common/storage/storage.h"
#include "proto/journal_mark.pb.h"

namespace monsoon {

class HeardJournal {
 public:
  // `path`: its file, in a folder that exists; "": none. `storage` outlives this.
  HeardJournal(Storage* storage, std::string path);

  // A coordinator tells of its journal; the newest that was heard of by then. That is `told` unless
  // it ends before one of the same coordinator, or is another one that does not replace it.
  JournalMark Hear(const JournalMark& told);
  // Nothing: none was heard of.
  std::optional<JournalMark> newest() const;
  // What was heard is on the disk.
  void Keep();

 private:
  void Write() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  Storage* const storage_;
  const std::string path_;
  mutable Mutex mutex_;
  JournalMark newest_ ABSL_GUARDED_BY(mutex_);
  JournalMark written_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace monsoon
