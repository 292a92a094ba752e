// The environment of a real process.
//
// SIGINT and SIGTERM keep their default action until the first wait; from then
// on the first of each ends a wait instead. One object a process.
#pragma once

#include <memory>
#include <string>

#include "coordinator/cli/environment.h"

namespace monsoon {

class SystemEnvironment {
 public:
  explicit SystemEnvironment(const char* argv0);

  Environment* get() { return &environment_; }

 private:
  // Sets tls_ for the coordinator there.
  absl::Status FindTls(const std::string& address, const std::string& cluster, bool insecure);

  Environment environment_;
  std::shared_ptr<Tls> tls_;  // of the newest connection
  std::unique_ptr<ModelTransfer> transfer_;
  std::unique_ptr<JoinClient> join_client_;
};

}  // namespace monsoon
