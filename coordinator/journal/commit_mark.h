// CommitMark: the number of the journal's last commit, in a file of its own beside it. A database
// whose log was cut, or was replaced by an older one, opens without a word at an earlier commit:
// the mark tells.
//
// It is written after each commit, and not synced: it survives the process, and after a power cut
// it may be behind the journal, but never before it. A mark that cannot be written is passed over.
//
// Not thread safe.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

namespace monsoon {

class CommitMark {
 public:
  explicit CommitMark(std::string path) : path_(std::move(path)) {}
  ~CommitMark();
  CommitMark(const CommitMark&) = delete;
  CommitMark& operator=(const CommitMark&) = delete;

  // 0: there is none, or none that is whole.
  uint64_t Read() const;
  void Write(uint64_t commit);
  const std::string& path() const { return path_; }

 private:
  const std::string path_;
  int file_ = -1;
};

}  // namespace monsoon
