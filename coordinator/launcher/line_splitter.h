// LineSplitter: cuts a stream of bytes into lines.
//
// Thread safety: none.
#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace monsoon {

class LineSplitter {
 public:
  // A longer line is cut, so that a task without newlines cannot fill memory.
  static constexpr size_t kMaxLineBytes = 1 << 16;

  // The lines that `bytes` completes, without their ends.
  std::vector<std::string> Add(absl::string_view bytes);
  // The last line when it has no end; empty when there is none.
  std::string TakeRest();

 private:
  std::string rest_;
};

}  // namespace monsoon
