#include "common/npz/npz_writer.h"

#include <fcntl.h>
#include <unistd.h>
#include <zlib.h>

#include <bit>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status.h"
#include "common/npz/zip_format.h"

namespace monsoon {
namespace {

static_assert(std::endian::native == std::endian::little, "members are little-endian");

// NumPy pads the header so that the data starts at a multiple of this.
constexpr size_t kNpyAlignment = 64;

std::string NpyHeader(std::span<const uint32_t> shape) {
  std::string tuple = "(";
  for (size_t i = 0; i < shape.size(); ++i) {
    absl::StrAppend(&tuple, i > 0 ? " " : "", shape[i], i + 1 < shape.size() || i == 0 ? "," : "");
  }
  std::string dictionary =
      absl::StrCat("{'descr': '<f4', 'fortran_order': False, 'shape': ", tuple, "), }");
  constexpr size_t kPreamble = 10;
  const size_t unpadded = kPreamble + dictionary.size() + 1;
  dictionary.append((kNpyAlignment - unpadded % kNpyAlignment) % kNpyAlignment, ' ');
  dictionary.push_back('\n');
  std::string header("\x93NUMPY\x01\x00", 8);
  zip::Append16(&header, dictionary.size());
  return header + dictionary;
}

absl::Status FileError(const std::string& path, absl::string_view what) {
  return absl::ErrnoToStatus(errno, absl::StrCat(path, ": cannot ", what));
}

// Makes a rename in the folder of `path` durable.
absl::Status SyncFolder(const std::string& path) {
  const size_t slash = path.rfind('/');
  const std::string folder =
      slash == std::string::npos ? "." : path.substr(0, slash == 0 ? 1 : slash);
  const int fd = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) {
    return FileError(folder, "open");
  }
  // Some file systems cannot flush a folder and say EINVAL.
  const bool synced = fsync(fd) == 0 || errno == EINVAL;
  const int error = errno;
  close(fd);
  errno = error;
  return synced ? absl::OkStatus() : FileError(folder, "flush");
}

}  // namespace

absl::StatusOr<NpzWriter> NpzWriter::Create(const std::string& path, Options options) {
  std::string temporary = absl::StrCat(path, ".tmp.", getpid());
  FILE* file = fopen(temporary.c_str(), "wbe");
  if (file == nullptr) {
    return FileError(temporary, "create");
  }
  return NpzWriter(path, std::move(temporary), file, options);
}

NpzWriter::~NpzWriter() {
  if (file_ != nullptr) {
    unlink(temporary_.c_str());
  }
}

bool NpzWriter::NeedsZip64(uint64_t value) const {
  return options_.force_zip64 || value >= zip::kMax32;
}

absl::Status NpzWriter::Write(const void* data, size_t bytes) {
  if (fwrite(data, 1, bytes, file_.get()) != bytes) {
    return FileError(temporary_, absl::StrCat("write ", bytes, " bytes"));
  }
  offset_ += bytes;
  return absl::OkStatus();
}

absl::Status NpzWriter::Add(const std::string& name, std::span<const uint32_t> shape,
                            std::span<const float> values) {
  uint64_t elements = 1;
  for (const uint32_t length : shape) {
    elements *= length;
  }
  CHECK_EQ(elements, values.size());
  const std::string header = NpyHeader(shape);
  Member member{.name = name + ".npy", .bytes = header.size() + values.size_bytes()};
  member.offset = offset_;
  uLong crc = crc32_z(0, reinterpret_cast<const Bytef*>(header.data()), header.size());
  // An empty range has no address, and zlib would start again.
  if (!values.empty()) {
    crc = crc32_z(crc, reinterpret_cast<const Bytef*>(values.data()), values.size_bytes());
  }
  member.crc = static_cast<uint32_t>(crc);
  const std::string local = LocalHeader(member);
  RETURN_IF_ERROR(Write(local.data(), local.size()));
  RETURN_IF_ERROR(Write(header.data(), header.size()));
  RETURN_IF_ERROR(Write(values.data(), values.size_bytes()));
  members_.push_back(std::move(member));
  return absl::OkStatus();
}

std::string NpzWriter::LocalHeader(const Member& member) const {
  const bool zip64 = NeedsZip64(member.bytes);
  std::string out;
  zip::Append32(&out, zip::kLocalSignature);
  zip::Append16(&out, zip64 ? zip::kVersionZip64 : zip::kVersion);
  zip::Append16(&out, 0);  // flags
  zip::Append16(&out, zip::kStored);
  zip::Append16(&out, 0);  // time
  zip::Append16(&out, zip::kDosDate);
  zip::Append32(&out, member.crc);
  zip::Append32(&out, zip64 ? zip::kMax32 : member.bytes);
  zip::Append32(&out, zip64 ? zip::kMax32 : member.bytes);
  zip::Append16(&out, member.name.size());
  zip::Append16(&out, zip64 ? 20 : 0);
  out += member.name;
  if (zip64) {
    zip::Append16(&out, zip::kZip64Extra);
    zip::Append16(&out, 16);
    zip::Append64(&out, member.bytes);
    zip::Append64(&out, member.bytes);
  }
  return out;
}

std::string NpzWriter::DirectoryEntry(const Member& member) const {
  const bool big_bytes = NeedsZip64(member.bytes);
  const bool big_offset = NeedsZip64(member.offset);
  std::string extra;
  if (big_bytes) {
    zip::Append64(&extra, member.bytes);
    zip::Append64(&extra, member.bytes);
  }
  if (big_offset) {
    zip::Append64(&extra, member.offset);
  }
  const uint64_t version = extra.empty() ? zip::kVersion : zip::kVersionZip64;
  std::string out;
  zip::Append32(&out, zip::kDirectorySignature);
  zip::Append16(&out, version);  // made by
  zip::Append16(&out, version);  // needed
  zip::Append16(&out, 0);        // flags
  zip::Append16(&out, zip::kStored);
  zip::Append16(&out, 0);  // time
  zip::Append16(&out, zip::kDosDate);
  zip::Append32(&out, member.crc);
  zip::Append32(&out, big_bytes ? zip::kMax32 : member.bytes);
  zip::Append32(&out, big_bytes ? zip::kMax32 : member.bytes);
  zip::Append16(&out, member.name.size());
  zip::Append16(&out, extra.empty() ? 0 : extra.size() + 4);
  zip::Append16(&out, 0);  // comment
  zip::Append16(&out, 0);  // disk
  zip::Append16(&out, 0);  // internal attributes
  zip::Append32(&out, 0);  // external attributes
  zip::Append32(&out, big_offset ? zip::kMax32 : member.offset);
  out += member.name;
  if (!extra.empty()) {
    zip::Append16(&out, zip::kZip64Extra);
    zip::Append16(&out, extra.size());
    out += extra;
  }
  return out;
}

std::string NpzWriter::DirectoryEnd(uint64_t directory_offset, uint64_t directory_bytes) const {
  const uint64_t count = members_.size();
  std::string out;
  if (NeedsZip64(directory_offset) || NeedsZip64(directory_bytes) || count >= zip::kMax16) {
    zip::Append32(&out, zip::kEnd64Signature);
    zip::Append64(&out, zip::kEnd64Bytes - 12);
    zip::Append16(&out, zip::kVersionZip64);
    zip::Append16(&out, zip::kVersionZip64);
    zip::Append32(&out, 0);  // this disk
    zip::Append32(&out, 0);  // the directory's disk
    zip::Append64(&out, count);
    zip::Append64(&out, count);
    zip::Append64(&out, directory_bytes);
    zip::Append64(&out, directory_offset);
    zip::Append32(&out, zip::kLocator64Signature);
    zip::Append32(&out, 0);
    zip::Append64(&out, directory_offset + directory_bytes);
    zip::Append32(&out, 1);  // disks
  }
  const uint64_t short_count = options_.force_zip64 || count >= zip::kMax16 ? zip::kMax16 : count;
  zip::Append32(&out, zip::kEndSignature);
  zip::Append16(&out, 0);
  zip::Append16(&out, 0);
  zip::Append16(&out, short_count);
  zip::Append16(&out, short_count);
  zip::Append32(&out, NeedsZip64(directory_bytes) ? zip::kMax32 : directory_bytes);
  zip::Append32(&out, NeedsZip64(directory_offset) ? zip::kMax32 : directory_offset);
  zip::Append16(&out, 0);  // comment
  return out;
}

absl::Status NpzWriter::Finish() {
  const uint64_t directory_offset = offset_;
  std::string directory;
  for (const Member& member : members_) {
    directory += DirectoryEntry(member);
  }
  directory += DirectoryEnd(directory_offset, directory.size());
  RETURN_IF_ERROR(Write(directory.data(), directory.size()));
  if (fflush(file_.get()) != 0 || fsync(fileno(file_.get())) != 0) {
    return FileError(temporary_, "flush");
  }
  if (rename(temporary_.c_str(), path_.c_str()) != 0) {
    return FileError(path_, absl::StrCat("rename ", temporary_));
  }
  file_.reset();
  return SyncFolder(path_);
}

}  // namespace monsoon
