// AcceptLoop: takes the connections of listening sockets, in a thread of its own, and goes on
// when descriptors run out. gRPC's own listener never takes another one then.
//
// Some of the process's descriptors are kept for what it opens itself: files, and connections to
// others. A connection for which there are no others is closed at once, so that its client knows
// and comes again; that is logged, once a minute. It needs no descriptor: there is one in reserve.
//
// At a Unix socket only processes of this user and of root may connect, whatever the mode of its
// file: others are closed at once, with a line in the log that names the user and the process.
//
// Whoever asks is told why others may not reach the sockets: descriptors ran out, or connections
// to their own addresses do not arrive (OwnAddress).
//
// Thread safe.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/log_limit.h"
#include "common/process/unique_fd.h"
#include "common/transport/grpc/own_address.h"

namespace monsoon {

struct AcceptLoopOptions {
  std::string name;  // of the sockets: an address; for people
  // Gets a text whenever it is another: why others may not reach the sockets; "": they do. Called
  // by the loop's thread. Null: nobody asks.
  std::function<void(const std::string&)> on_trouble;
  // What the log is told of the sockets each minute; "": nothing.
  std::string reminder = "";
  // Between two connections to the sockets' own addresses, and what one may take to arrive.
  absl::Duration probe_every = absl::Seconds(10);
};

class AcceptLoop {
 public:
  // Gets each connection, non-blocking, with the socket at which it came.
  using Take = std::function<void(int listener, UniqueFd connection)>;

  // Unavailable without descriptors.
  static absl::StatusOr<std::unique_ptr<AcceptLoop>> Start(AcceptLoopOptions options,
                                                           std::vector<UniqueFd> listeners,
                                                           Take take);
  // Takes no more, and closes the listeners.
  ~AcceptLoop();
  AcceptLoop(const AcceptLoop&) = delete;
  AcceptLoop& operator=(const AcceptLoop&) = delete;

 private:
  AcceptLoop(AcceptLoopOptions options, std::vector<UniqueFd> listeners, UniqueFd stop, Take take);

  void Run();
  // Until something is due, of a loop that rests or not.
  int TimeoutMs(bool rests) const;
  // Takes what waits at `listener`.
  void AcceptAll(int listener);
  // Closes the connection that waits. False: not even that could be done.
  bool Refuse(int listener);
  // One of its own has arrived.
  bool IsOwn(const UniqueFd& connection);
  // Whether whoever made a connection at a Unix socket may have one; else the log is told.
  bool MayConnect(const UniqueFd& connection);
  void NoteRefusal();
  void NoteTaken();
  std::string Trouble() const;
  // Tells what has become another since it was told.
  void Tell();

  const AcceptLoopOptions options_;
  const std::vector<UniqueFd> listeners_;
  const UniqueFd stop_;
  const Take take_;
  // The thread's.
  UniqueFd reserve_;
  std::vector<OwnAddress> own_;  // of each listener
  bool rests_ = false;           // until descriptors may have come free
  uint64_t refused_ = 0;         // since the log was told of it
  bool told_ = false;
  bool refuses_ = false;  // the newest connection was refused
  std::string trouble_;   // as it was told
  absl::Duration last_refusal_;
  LogLimit refusals_;
  LogLimit reminders_;
  LogLimit strangers_;
  std::thread thread_;
};

}  // namespace monsoon
