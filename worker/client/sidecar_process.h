// SidecarProcess: the helper process of one replica. It ends when the program does, in
// every case: it watches the program's life.
//
// Thread safety: none.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>

#include "worker/client/exchange.h"

namespace monsoon {

class SidecarProcess {
 public:
  // Starts the executable `path`; "": $MONSOON_SIDECAR, or monsoon_sidecar beside this
  // library. Null, and *error says what failed.
  static std::unique_ptr<SidecarProcess> Start(const std::string& path, const std::string& log_file,
                                               std::string* error);
  // Kills it if it has not ended.
  ~SidecarProcess();
  SidecarProcess(const SidecarProcess&) = delete;
  SidecarProcess& operator=(const SidecarProcess&) = delete;

  MessageSocket& socket() { return socket_; }
  pid_t pid() const { return pid_; }

  // Tells it to leave the job and to end. Safe to repeat.
  void TellToLeave();

  // Ends it, if it has not ended.
  void Kill();

  // Waits for its end, at most so long. True: it has ended.
  bool AwaitEnd(int timeout_ms);
  // "ended with status 3", "was killed by signal 9 (Killed)", once AwaitEnd was true.
  std::string HowItEnded() const;

 private:
  SidecarProcess(pid_t pid, int socket, int leave) : pid_(pid), socket_(socket), leave_fd_(leave) {}

  const pid_t pid_;
  MessageSocket socket_;
  int leave_fd_;
  bool ended_ = false;
  int status_ = 0;  // of waitpid; -1: somebody else has taken it
};

}  // namespace monsoon
