// DataRoots: the folders below which a process opens the data files of jobs. Where it has some, a
// path is walked from its root folder by folder, and no name in it is followed by the kernel: a
// link works where what it names lies below a root too, and nobody can swap one in between.
// (openat2's RESOLVE_BENEATH would refuse absolute links that stay.)
//
// Thread safety: immutable. Calls block on the disk.
#pragma once

#include <sys/stat.h>

#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/process/unique_fd.h"

namespace monsoon {

class DataRoots {
 public:
  // All that this process may read.
  static DataRoots Anywhere() { return DataRoots(/*anywhere=*/true); }
  // Nothing.
  static DataRoots None() { return DataRoots(/*anywhere=*/false); }
  // Folders as their owner names them, absolute. InvalidArgument, naming it, for one that is not a
  // folder, or is not absolute.
  static absl::StatusOr<DataRoots> Below(const std::vector<std::string>& folders);

  bool anywhere() const { return anywhere_; }
  // As in a message: "/data, /scratch".
  std::string Text() const;

  // Opens a regular file for reading; a FIFO or a device is refused and not waited for. Relative
  // paths are the working folder's. NotFound, PermissionDenied (also: not below a root; the message
  // names the roots and the option) or InvalidArgument, with the path.
  absl::StatusOr<UniqueFd> OpenFile(const std::string& path) const;

  // What a path leads to, links resolved. Errors as above; any kind of file is right.
  absl::StatusOr<struct stat> Stat(const std::string& path) const;

  struct Entry {
    std::string name;
    bool is_folder = false;  // or a link to one
  };
  // What lies in a folder, but "." and "..", in the order of the names' bytes. Errors as above, and
  // for an entry that is a link to nothing, or out of the roots.
  absl::StatusOr<std::vector<Entry>> List(const std::string& path) const;
  // The names alone, of which no link is looked at.
  absl::StatusOr<std::vector<std::string>> Names(const std::string& path) const;

 private:
  // Names of folders from "/" on.
  using Parts = std::vector<std::string>;
  struct Root {
    std::string path;
    Parts given;
    Parts real;  // without links
  };
  // Where a walk has ended: a folder, or what is called `name` in one.
  struct Found {
    UniqueFd folder;
    std::string name;  // "": the folder itself
    struct stat info;
  };
  class Walk;

  explicit DataRoots(bool anywhere) : anywhere_(anywhere) {}

  // The root that `names` lie below, the outermost; null: none.
  const Root* RootOf(const Parts& names) const;
  absl::Status Outside(const std::string& path, bool by_link) const;
  absl::StatusOr<Found> Find(const std::string& path) const;
  absl::StatusOr<UniqueFd> OpenFolder(const std::string& path) const;
  // Calls `visit` with each entry but "." and "..", in no order, and its kind (DT_DIR ...).
  absl::Status Visit(
      const std::string& path,
      absl::FunctionRef<absl::Status(const std::string& name, int kind)> visit) const;

  bool anywhere_;
  std::vector<Root> roots_;
};

}  // namespace monsoon
