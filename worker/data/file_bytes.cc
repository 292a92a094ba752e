#include "worker/data/file_bytes.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status.h"

namespace monsoon {
namespace {

// More files than this are opened each time: descriptors are few (1024 by default).
constexpr size_t kMaxOpen = 128;

absl::Status ReadAll(int descriptor, const std::string& path, uint64_t at, std::span<uint8_t> out) {
  while (!out.empty()) {
    const ssize_t got = pread(descriptor, out.data(), out.size(), static_cast<off_t>(at));
    if (got < 0 && errno == EINTR) {
      continue;
    }
    if (got <= 0) {
      return absl::DataLossError(
          absl::StrCat(path, " cannot be read at byte ", at, ": ",
                       got < 0 ? std::strerror(errno) : "the file ends there, and did not before"));
    }
    at += static_cast<uint64_t>(got);
    out = out.subspan(static_cast<size_t>(got));
  }
  return absl::OkStatus();
}

}  // namespace

FileBytes::FileBytes(std::vector<Part> parts, const DataRoots& roots)
    : parts_(std::move(parts)), begins_{0}, roots_(roots) {
  for (const Part& part : parts_) {
    begins_.push_back(begins_.back() + part.bytes);
  }
}

absl::StatusOr<FileBytes> FileBytes::Open(std::vector<Part> parts, const DataRoots& roots) {
  FileBytes bytes(std::move(parts), roots);
  if (bytes.parts_.size() <= kMaxOpen) {
    for (const Part& part : bytes.parts_) {
      ASSIGN_OR_RETURN(UniqueFd file, roots.OpenFile(part.path));
      bytes.descriptors_.push_back(std::move(file));
    }
  }
  return bytes;
}

size_t FileBytes::PartOf(uint64_t at) const {
  return static_cast<size_t>(std::upper_bound(begins_.begin(), begins_.end(), at) -
                             begins_.begin()) -
         1;
}

absl::Status FileBytes::ReadPart(size_t part, uint64_t at, std::span<uint8_t> out) const {
  const Part& from = parts_[part];
  if (!descriptors_.empty()) {
    return ReadAll(descriptors_[part].get(), from.path, from.offset + at, out);
  }
  ASSIGN_OR_RETURN(const UniqueFd file, roots_.OpenFile(from.path));
  return ReadAll(file.get(), from.path, from.offset + at, out);
}

absl::StatusOr<const uint8_t*> FileBytes::Get(uint64_t begin, size_t size,
                                              std::vector<uint8_t>* scratch) const {
  CHECK_LE(begin + size, begins_.back());
  scratch->resize(size);
  size_t done = 0;
  for (size_t part = PartOf(begin); done < size; ++part) {
    const uint64_t at = begin + done - begins_[part];
    const auto here = static_cast<size_t>(std::min<uint64_t>(size - done, parts_[part].bytes - at));
    RETURN_IF_ERROR(ReadPart(part, at, std::span(*scratch).subspan(done, here)));
    done += here;
  }
  return scratch->data();
}

void FileBytes::Expect(uint64_t begin, size_t size) const {
  if (descriptors_.empty() || begin >= begins_.back()) {
    return;
  }
  const size_t part = PartOf(begin);
  // Only advice; of a record that goes on in the next file the beginning is enough.
  posix_fadvise(descriptors_[part].get(),
                static_cast<off_t>(parts_[part].offset + begin - begins_[part]),
                static_cast<off_t>(size), POSIX_FADV_WILLNEED);
}

}  // namespace monsoon
