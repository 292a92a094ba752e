// OwnAddress: whether connections to the address of a socket that listens come to it. A machine
// that has got another address, or a Unix socket whose file was removed, leaves a server that
// listens and that nobody finds any more. So from time to time one connects to itself: the
// connection has arrived when the listener takes it, which knows it by the name of its other end.
//
// Not thread safe. Never blocks.
#pragma once

#include <string>

#include "absl/time/time.h"
#include "common/process/unique_fd.h"

namespace monsoon {

class OwnAddress {
 public:
  // `listener` outlives this. A connection has `every` to arrive, and then another one is made.
  OwnAddress(int listener, absl::Duration every, absl::Duration now);

  // Judges the connection that should have arrived, and makes the next one, where that is due.
  void Work(absl::Duration now);
  absl::Duration due() const { return due_; }
  // Whether the connection is this one's own, which then has arrived, and is to be dropped.
  bool Arrived(const UniqueFd& connection);

  // Why no connection arrives; "": they do, or nobody has tried yet.
  const std::string& trouble() const { return trouble_; }

 private:
  void Connect();
  void Abandon();

  const int listener_;
  const absl::Duration every_;
  absl::Duration due_;
  UniqueFd connection_;
  std::string name_;  // of its end; "": none is under way
  std::string trouble_;
};

}  // namespace monsoon
