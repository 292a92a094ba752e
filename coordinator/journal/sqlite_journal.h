// A journal in a SQLite database (https://sqlite.org): one file, its write-ahead log
// beside it, each commit synced (WAL, synchronous=FULL). It holds a snapshot of the state
// and the updates since; when these have grown larger than the snapshot they become one.
//
//   about(key, value)                       cluster
//   snapshot(seq, at_ns, bytes, checksum)   CoordinatorSnapshot; at most one row
//   journal(seq, at_ns, bytes, checksum)    StateUpdates; rows follow the snapshot's seq
//
// Beside it PATH-commits holds the last commit's seq (CommitMark), so that a database that is older
// than it was is not gone on from.
//
// checksum: XXH3 of seq, at_ns and bytes. user_version is the format, 1.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "coordinator/journal/journal.h"

namespace monsoon {

struct SqliteJournalOptions {
  std::string path;        // in a folder that exists; whoever opens it has locked that
  std::string cluster;     // the name in the cluster file
  uint64_t max_pages = 0;  // of the file, for tests; 0: no limit
  uint64_t journal_bytes = uint64_t{1} << 20;  // before a new snapshot, at least
};

// DATA_LOSS names what is damaged, or older than it was; FAILED_PRECONDITION: of another cluster,
// or of a newer format; UNAVAILABLE, RESOURCE_EXHAUSTED, PERMISSION_DENIED: the system's reason.
absl::StatusOr<OpenedJournal> OpenSqliteJournal(const SqliteJournalOptions& options);

}  // namespace monsoon
