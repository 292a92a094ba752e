#include "coordinator/journal/commit_mark.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstring>
#include <span>

#include "common/base/xxh3.h"

namespace monsoon {
namespace {

// The file's whole content; one write within a sector is not torn.
struct Content {
  uint64_t commit = 0;
  uint64_t checksum = 0;
};

uint64_t ChecksumOf(uint64_t commit) {
  Xxh3 hash;
  hash.Add(std::as_bytes(std::span(&commit, 1)));
  return hash.Digest();
}

}  // namespace

CommitMark::~CommitMark() {
  if (file_ >= 0) {
    close(file_);
  }
}

uint64_t CommitMark::Read() const {
  const int file = open(path_.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) {
    return 0;
  }
  Content content;
  const bool whole = pread(file, &content, sizeof(content), 0) == sizeof(content);
  close(file);
  return whole && content.checksum == ChecksumOf(content.commit) ? content.commit : 0;
}

void CommitMark::Write(uint64_t commit) {
  if (file_ < 0) {
    file_ = open(path_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  }
  const Content content = {commit, ChecksumOf(commit)};
  if (file_ >= 0 && pwrite(file_, &content, sizeof(content), 0) != sizeof(content)) {
    close(file_);
    file_ = -1;
  }
}

}  // namespace monsoon
