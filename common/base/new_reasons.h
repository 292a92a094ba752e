// NewReasons: which of the reasons that come one after another have not been told yet. What
// is tried again and again fails for the same reason at first and for others later, and each
// is worth a line, once.
//
//   if (reasons_.Add(status.message())) {
//     LOG(WARNING) << status.message();
//   }
//   ... it works again ...
//   reasons_.Clear();
//
// Not thread safe.
#pragma once

#include <set>
#include <string>

#include "absl/strings/string_view.h"

namespace monsoon {

class NewReasons {
 public:
  // Whether no reason like it was added since the last Clear. Texts that differ in their
  // numbers alone (times, ports that a client drew) are alike.
  bool Add(absl::string_view reason);
  void Clear() { told_.clear(); }

 private:
  std::set<std::string> told_;
};

}  // namespace monsoon
