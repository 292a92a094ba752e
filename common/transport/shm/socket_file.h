// SocketFile: a socket that listens at a file of the user's runtime folder
// (common/process/runtime_folder.h), for a SharedMemoryServer; and how clients connect to one.
//
// The file is removed with the object. What killed processes have left is removed by the next one
// that listens there. A file has its name only once its socket listens, so that one that refuses
// connections is a dead process's for certain.
//
// Thread safe: const calls.
#pragma once

#include <sys/types.h>

#include <string>

#include "absl/status/statusor.h"
#include "common/process/runtime_folder.h"
#include "common/process/unique_fd.h"
#include "proto/parameter_server.pb.h"

namespace monsoon {

class SocketFile {
 public:
  // Errors as of RuntimeFolder::Open; Unavailable where no socket can be made.
  static absl::StatusOr<SocketFile> Listen(const RuntimeFolder::Places& places);
  ~SocketFile();
  SocketFile(SocketFile&& other) noexcept;
  SocketFile& operator=(SocketFile&&) = delete;

  int fd() const { return fd_.get(); }
  const std::string& path() const { return path_; }
  // Whether clients find it: its folder may have been removed. One system call.
  bool IsThere() const;
  // What clients on this host connect to.
  SharedMemoryOffer offer() const;

 private:
  SocketFile(UniqueFd fd, std::string path, std::string folder_id, ino_t inode);

  UniqueFd fd_;
  std::string path_;  // "": moved away
  std::string folder_id_;
  ino_t inode_ = 0;
};

// Connects to an offered socket. FailedPrecondition where it is on another host or this process
// does not see its folder, InvalidArgument where it is no file of a SocketFile in a folder of this
// user alone: what a peer offers may be any path. Unavailable where nobody listens.
absl::StatusOr<UniqueFd> ConnectToOffer(const SharedMemoryOffer& offer);

}  // namespace monsoon
