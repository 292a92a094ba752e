#include "coordinator/launcher/line_splitter.h"

#include <algorithm>
#include <utility>

namespace monsoon {

std::vector<std::string> LineSplitter::Add(absl::string_view bytes) {
  std::vector<std::string> lines;
  while (!bytes.empty()) {
    const size_t room = kMaxLineBytes - rest_.size();
    const size_t end = bytes.find('\n');
    const size_t length = std::min(end == absl::string_view::npos ? bytes.size() : end, room);
    rest_.append(bytes.data(), length);
    bytes.remove_prefix(length);
    const bool ended = !bytes.empty() && bytes[0] == '\n';
    if (ended) {
      bytes.remove_prefix(1);
    }
    if (ended || rest_.size() == kMaxLineBytes) {
      lines.push_back(std::exchange(rest_, {}));
    }
  }
  return lines;
}

std::string LineSplitter::TakeRest() { return std::exchange(rest_, {}); }

}  // namespace monsoon
