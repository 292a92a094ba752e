// What this machine is called and which addresses it has: whether a task that a cluster file puts
// on some host is to be started here.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <vector>

namespace monsoon {

// The IP addresses of a host, as text; none for a name that nobody knows.
using HostResolver = std::function<std::vector<std::string>(const std::string& host)>;

class OwnMachine {
 public:
  // As the system tells. Asks the resolver, which may take seconds, for names alone.
  static OwnMachine Look();
  // `name` as gethostname has it, `addresses` of the network interfaces.
  OwnMachine(std::string name, std::set<std::string> addresses, HostResolver resolve);

  // Whether `host`, a name or an IP address, is this machine, and not every one, as 0.0.0.0 is.
  bool Is(const std::string& host) const;

 private:
  bool IsOwnAddress(const std::string& ip) const;

  std::string name_;
  std::set<std::string> addresses_;
  HostResolver resolve_;
};

}  // namespace monsoon
