// RuntimeFolder: where the sockets of this user's processes lie, out of reach of every other user:
// $XDG_RUNTIME_DIR/monsoon where that variable names a folder of this user, else
// /tmp/monsoon-UID. The mode is 0700, so that nobody else can connect to a socket within,
// whatever its own mode is, or put another one in its place.
//
// Processes need not agree on the folder: who is told the path of a socket checks its folder by
// Look, and knows by the id whether both see the same one. TMPDIR does not count.
//
// Plain functions, thread safe. Block on the file system.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace monsoon {

struct RuntimeFolder {
  std::string path;
  // Device and inode, "2a:1234": equal where two processes of one kernel see the same folder.
  std::string id;

  // Where it is looked for; others in tests.
  struct Places {
    std::string xdg_runtime_dir;  // "": the variable is unset
    std::string tmp;
  };
  static Places OfEnvironment();

  // The folder, made if it is not there, in which a name of `name_bytes` fits a socket's address:
  // where it does not in the first place, the second one. FailedPrecondition, with the command or
  // variable that mends it, where what is there is a link, no folder or another user's, or others
  // can enter it.
  static absl::StatusOr<RuntimeFolder> Open(const Places& places, size_t name_bytes);

  // The folder `path`, which is not made: NotFound where it is not there; else as Open.
  static absl::StatusOr<RuntimeFolder> Look(const std::string& path);
};

// Of the path of a socket: all before the last slash; "" where there is none.
std::string FolderOfSocket(absl::string_view path);

}  // namespace monsoon
