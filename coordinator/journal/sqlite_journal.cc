#include "coordinator/journal/sqlite_journal.h"

#include <fcntl.h>
#include <sqlite3.h>

#include <algorithm>
#include <cstring>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "common/base/fail_point.h"
#include "common/base/status.h"
#include "common/base/xxh3.h"
#include "common/config/earlier_job.h"
#include "common/process/unique_fd.h"
#include "common/storage/file_path.h"
#include "coordinator/journal/commit_mark.h"

namespace monsoon {
namespace {

constexpr int kFormat = 1;
constexpr int kApplicationId = 0x4d6f6e73;  // "Mons"

absl::StatusCode CodeOf(int result) {
  switch (result & 0xff) {
    case SQLITE_FULL:
      return absl::StatusCode::kResourceExhausted;
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      return absl::StatusCode::kDataLoss;
    case SQLITE_PERM:
    case SQLITE_READONLY:
    case SQLITE_AUTH:
      return absl::StatusCode::kPermissionDenied;
    default:
      return absl::StatusCode::kUnavailable;
  }
}

uint64_t ChecksumOf(uint64_t seq, int64_t at_ns, const std::string& bytes) {
  Xxh3 hash;
  const int64_t head[] = {static_cast<int64_t>(seq), at_ns};
  hash.Add(std::as_bytes(std::span(head)));
  hash.Add(std::as_bytes(std::span(bytes)));
  return hash.Digest();
}

// One row of either table.
struct Row {
  uint64_t seq = 0;
  int64_t at_ns = 0;
  std::string bytes;
};

class Database {
 public:
  explicit Database(std::string path) : path_(std::move(path)) {}
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;
  ~Database() { Close(); }

  absl::Status Open(uint64_t max_pages) {
    // SQLite gives its other files the mode of this one. To close one that it has open would drop
    // its locks, so that one that is there is left alone.
    UniqueFd(open(path_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600)).reset();
    const int result =
        sqlite3_open_v2(path_.c_str(), &db_, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, nullptr);
    if (result != SQLITE_OK) {
      return Error(result, "open");
    }
    sqlite3_extended_result_codes(db_, 1);
    // One process has the file (its owner holds a lock), so that no index file is shared.
    RETURN_IF_ERROR(Run("PRAGMA locking_mode=EXCLUSIVE"));
    RETURN_IF_ERROR(Run("PRAGMA journal_mode=WAL"));
    RETURN_IF_ERROR(Run("PRAGMA synchronous=FULL"));
    // Its log is brought into the file at 1 MiB, so that it never needs much more.
    RETURN_IF_ERROR(Run("PRAGMA wal_autocheckpoint=256"));
    return max_pages == 0 ? absl::OkStatus()
                          : Run(absl::StrCat("PRAGMA max_page_count=", max_pages));
  }

  void Close() {
    sqlite3_close_v2(db_);
    db_ = nullptr;
  }

  absl::Status Run(const std::string& sql) {
    const int result = sqlite3_exec(db_, sql.c_str(), nullptr, nullptr, nullptr);
    return result == SQLITE_OK ? absl::OkStatus() : Error(result, "write");
  }

  // Calls `each` with every row of a query.
  template <typename Each>
  absl::Status Query(const std::string& sql, Each each) {
    sqlite3_stmt* statement = nullptr;
    int result = sqlite3_prepare_v2(db_, sql.c_str(), -1, &statement, nullptr);
    absl::Status status;
    while (result == SQLITE_OK && (result = sqlite3_step(statement)) == SQLITE_ROW && status.ok()) {
      status = each(statement);
      result = SQLITE_OK;
    }
    if (status.ok() && result != SQLITE_DONE) {
      status = Error(result, "read");
    }
    sqlite3_finalize(statement);
    return status;
  }

  absl::StatusOr<int64_t> Number(const std::string& sql) {
    int64_t number = 0;
    RETURN_IF_ERROR(Query(sql, [&](sqlite3_stmt* row) {
      number = sqlite3_column_int64(row, 0);
      return absl::OkStatus();
    }));
    return number;
  }

  absl::Status Insert(const char* table, const Row& row) {
    sqlite3_stmt* statement = nullptr;
    const std::string sql = absl::StrCat("INSERT INTO ", table, " VALUES(?,?,?,?)");
    int result = sqlite3_prepare_v2(db_, sql.c_str(), -1, &statement, nullptr);
    if (result == SQLITE_OK) {
      sqlite3_bind_int64(statement, 1, static_cast<int64_t>(row.seq));
      sqlite3_bind_int64(statement, 2, row.at_ns);
      sqlite3_bind_blob64(statement, 3, row.bytes.data(), row.bytes.size(), SQLITE_STATIC);
      sqlite3_bind_int64(statement, 4,
                         static_cast<int64_t>(ChecksumOf(row.seq, row.at_ns, row.bytes)));
      result = sqlite3_step(statement);
    }
    const absl::Status status = result == SQLITE_DONE ? absl::OkStatus() : Error(result, "write");
    sqlite3_finalize(statement);
    return status;
  }

  absl::Status Damaged(absl::string_view what) const {
    return absl::DataLossError(absl::StrCat(
        path_, " is damaged: ", what,
        "; move it away with the files that begin like it and start again: the parameters are in "
        "the checkpoints beside it, and `coordinator submit --resume` goes on from one"));
  }

  absl::Status Error(int result, absl::string_view what) const {
    const absl::StatusCode code = CodeOf(result);
    const int reason = db_ == nullptr ? 0 : sqlite3_system_errno(db_);
    const bool system = code != absl::StatusCode::kDataLoss && reason != 0;
    const std::string text = absl::StrCat(sqlite3_errstr(result),
                                          system ? absl::StrCat(" (", strerror(reason), ")") : "");
    return code == absl::StatusCode::kDataLoss
               ? Damaged(text)
               : absl::Status(code, absl::StrCat("cannot ", what, " ", path_, ": ", text));
  }

 private:
  const std::string path_;
  sqlite3* db_ = nullptr;
};

absl::StatusOr<Row> ReadRow(const Database& database, const char* table, sqlite3_stmt* statement) {
  Row row;
  row.seq = static_cast<uint64_t>(sqlite3_column_int64(statement, 0));
  row.at_ns = sqlite3_column_int64(statement, 1);
  const auto* const bytes = static_cast<const char*>(sqlite3_column_blob(statement, 2));
  const int size = sqlite3_column_bytes(statement, 2);
  if (size > 0 && bytes != nullptr) {
    row.bytes.assign(bytes, static_cast<size_t>(size));
  }
  if (static_cast<uint64_t>(sqlite3_column_int64(statement, 3)) !=
      ChecksumOf(row.seq, row.at_ns, row.bytes)) {
    return database.Damaged(absl::StrCat("row ", row.seq, " of ", table, " has another checksum"));
  }
  return row;
}

class SqliteJournal : public Journal {
 public:
  explicit SqliteJournal(const SqliteJournalOptions& options)
      : options_(options), database_(options.path), mark_(options.path + "-commits") {}

  absl::Status Open() {
    RETURN_IF_ERROR(database_.Open(options_.max_pages));
    ASSIGN_OR_RETURN(const int64_t format, database_.Number("PRAGMA user_version"));
    if (format > kFormat) {
      return absl::FailedPreconditionError(absl::StrCat(options_.path, " has format ", format,
                                                        ", and this coordinator knows ", kFormat,
                                                        ": start a newer one"));
    }
    RETURN_IF_ERROR(format == 0 ? MakeTables() : CheckCluster());
    RETURN_IF_ERROR(Load());
    return CheckNewest();
  }

  const CoordinatorState& state() const { return state_; }
  absl::Duration at() const { return absl::Nanoseconds(at_ns_); }

  uint64_t commits() const override { return seq_; }

  absl::Status Commit(const StateUpdates& updates, absl::Duration at) override {
    Row row{seq_ + 1, absl::ToInt64Nanoseconds(at), updates.SerializeAsString()};
    const bool whole = broken_ || bytes_ > std::max(options_.journal_bytes, snapshot_bytes_);
    absl::Status status = whole ? WriteSnapshot(updates, &row) : WriteRow(row);
    broken_ = !status.ok();
    if (broken_) {
      return status;
    }
    for (const StateUpdate& update : updates.update()) {
      RETURN_IF_ERROR(state_.Apply(update));
    }
    seq_ = row.seq;
    bytes_ = whole ? 0 : bytes_ + row.bytes.size();
    snapshot_bytes_ = whole ? row.bytes.size() : snapshot_bytes_;
    mark_.Write(seq_);
    return absl::OkStatus();
  }

 private:
  absl::Status MakeTables() {
    const char* const columns =
        "(seq INTEGER PRIMARY KEY, at_ns INTEGER, bytes BLOB, checksum INTEGER)";
    return InTransaction([&]() -> absl::Status {
      RETURN_IF_ERROR(database_.Run("CREATE TABLE about(key TEXT PRIMARY KEY, value TEXT)"));
      RETURN_IF_ERROR(database_.Run(absl::StrCat("CREATE TABLE snapshot", columns)));
      RETURN_IF_ERROR(database_.Run(absl::StrCat("CREATE TABLE journal", columns)));
      const std::string name = absl::StrReplaceAll(options_.cluster, {{"'", "''"}});
      RETURN_IF_ERROR(
          database_.Run(absl::StrCat("INSERT INTO about VALUES('cluster', '", name, "')")));
      RETURN_IF_ERROR(database_.Run(absl::StrCat("PRAGMA application_id=", kApplicationId)));
      return database_.Run(absl::StrCat("PRAGMA user_version=", kFormat));
    });
  }

  absl::Status CheckCluster() {
    std::string cluster;
    RETURN_IF_ERROR(
        database_.Query("SELECT value FROM about WHERE key='cluster'", [&](sqlite3_stmt* row) {
          const auto* const text = reinterpret_cast<const char*>(sqlite3_column_text(row, 0));
          cluster = text == nullptr ? "" : text;
          return absl::OkStatus();
        }));
    if (cluster != options_.cluster) {
      return absl::FailedPreconditionError(
          absl::StrCat(options_.path, " belongs to cluster \"", cluster, "\", not to \"",
                       options_.cluster, "\": give each cluster a state_dir of its own"));
    }
    return absl::OkStatus();
  }

  absl::Status Load() {
    RETURN_IF_ERROR(database_.Query(
        "SELECT seq, at_ns, bytes, checksum FROM snapshot", [&](sqlite3_stmt* statement) {
          ASSIGN_OR_RETURN(const Row row, ReadRow(database_, "snapshot", statement));
          CoordinatorSnapshot snapshot;
          if (!snapshot.ParseFromString(row.bytes)) {
            return database_.Damaged("its snapshot is no state of a coordinator");
          }
          TakeOverEarlierJobs(&snapshot);
          state_ = CoordinatorState(std::move(snapshot));
          seq_ = row.seq;
          at_ns_ = row.at_ns;
          snapshot_bytes_ = row.bytes.size();
          return absl::OkStatus();
        }));
    return database_.Query("SELECT seq, at_ns, bytes, checksum FROM journal ORDER BY seq",
                           [&](sqlite3_stmt* statement) {
                             ASSIGN_OR_RETURN(const Row row,
                                              ReadRow(database_, "journal", statement));
                             return Replay(row);
                           });
  }

  // SQLite goes by the part of its log that is whole: without its end, or without the log, the
  // state is an earlier one.
  absl::Status CheckNewest() const {
    const uint64_t newest = mark_.Read();
    if (newest <= seq_) {
      return absl::OkStatus();
    }
    return absl::DataLossError(absl::StrCat(
        options_.path, " ends at commit ", seq_, ", and commit ", newest,
        " was there already: its log (", options_.path,
        "-wal) was cut or taken away, or an older copy was put back. Put the right files back; to "
        "go on from the older state all the same, which does not know what has happened since, "
        "delete ",
        mark_.path()));
  }

  absl::Status Replay(const Row& row) {
    if (row.seq != seq_ + 1) {
      return database_.Damaged(absl::StrCat("row ", row.seq, " follows row ", seq_));
    }
    StateUpdates updates;
    if (!updates.ParseFromString(row.bytes)) {
      return database_.Damaged(absl::StrCat("row ", row.seq, " holds no updates"));
    }
    TakeOverEarlierJobs(&updates);
    for (const StateUpdate& update : updates.update()) {
      if (const absl::Status status = state_.Apply(update); !status.ok()) {
        return database_.Damaged(absl::StrCat("row ", row.seq, ": ", status.message()));
      }
    }
    seq_ = row.seq;
    at_ns_ = row.at_ns;
    bytes_ += row.bytes.size();
    return absl::OkStatus();
  }

  absl::Status WriteRow(const Row& row) {
    return InTransaction([&] { return database_.Insert("journal", row); });
  }

  // All of the state, in place of what is there. After an error nobody knows what the
  // system has kept of the file, so that it is opened again, too.
  absl::Status WriteSnapshot(const StateUpdates& updates, Row* row) {
    if (broken_) {
      database_.Close();
      RETURN_IF_ERROR(database_.Open(options_.max_pages));
    }
    CoordinatorState next = state_;
    for (const StateUpdate& update : updates.update()) {
      RETURN_IF_ERROR(next.Apply(update));
    }
    row->bytes = next.Serialize();
    return InTransaction([&]() -> absl::Status {
      RETURN_IF_ERROR(database_.Run("DELETE FROM snapshot"));
      RETURN_IF_ERROR(database_.Run("DELETE FROM journal"));
      return database_.Insert("snapshot", *row);
    });
  }

  absl::Status EndTransaction() {
    MONSOON_FAIL_POINT_STATUS("journal.before_commit");
    return database_.Run("COMMIT");
  }

  template <typename Body>
  absl::Status InTransaction(Body body) {
    RETURN_IF_ERROR(database_.Run("BEGIN IMMEDIATE"));
    absl::Status status = body();
    if (status.ok()) {
      status = EndTransaction();
    }
    if (!status.ok()) {
      database_.Run("ROLLBACK").IgnoreError();  // it may have been rolled back already
    }
    return status;
  }

  const SqliteJournalOptions options_;
  Database database_;
  CommitMark mark_;
  CoordinatorState state_;  // as committed
  uint64_t seq_ = 0;        // of the last commit
  int64_t at_ns_ = 0;       // when it was opened
  uint64_t bytes_ = 0;      // of the rows since the snapshot
  uint64_t snapshot_bytes_ = 0;
  bool broken_ = false;  // the last commit failed
};

}  // namespace

absl::StatusOr<OpenedJournal> OpenSqliteJournal(const SqliteJournalOptions& options) {
  auto journal = std::make_unique<SqliteJournal>(options);
  RETURN_IF_ERROR(journal->Open());
  OpenedJournal opened;
  opened.state = journal->state();
  opened.at = journal->at();
  opened.folder = FolderOf(options.path);
  opened.journal = std::move(journal);
  return opened;
}

}  // namespace monsoon
