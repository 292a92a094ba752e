#include "common/npz/npz_writer.h"

#include <zlib.h>

#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/inner_path.h"
#include "common/base/status.h"
#include "common/npz/npy_header.h"
#include "common/npz/zip_format.h"

namespace monsoon {

absl::StatusOr<NpzWriter> NpzWriter::Create(const std::string& path, Options options) {
  ASSIGN_OR_RETURN(FileReplacement file, FileReplacement::Create(path));
  return NpzWriter(std::move(file), options);
}

bool NpzWriter::NeedsZip64(uint64_t value) const {
  return options_.force_zip64 || value >= zip::kMax32;
}

absl::Status NpzWriter::Add(const std::string& name, std::span<const uint32_t> shape,
                            std::span<const float> values) {
  RETURN_IF_ERROR(Begin(name, std::vector<uint64_t>(shape.begin(), shape.end())));
  RETURN_IF_ERROR(Append(values));
  return End();
}

absl::Status NpzWriter::Begin(const std::string& name, std::span<const uint64_t> shape) {
  if (!IsInnerPath(name)) {
    return absl::InvalidArgumentError(
        absl::StrCat("an array called \"", absl::CHexEscape(name),
                     "\" would leave the folder of whoever unpacks the "
                     "archive"));
  }
  uint64_t bytes = sizeof(float);
  for (const uint64_t length : shape) {
    bytes *= length;
  }
  const std::string header = NpyFloatHead(std::vector<uint64_t>(shape.begin(), shape.end()));
  Member member{.name = name + ".npy", .bytes = header.size() + bytes, .missing = bytes};
  member.offset = file_.bytes();
  member.crc = static_cast<uint32_t>(
      crc32_z(0, reinterpret_cast<const Bytef*>(header.data()), header.size()));
  RETURN_IF_ERROR(file_.Write(LocalHeader(member)));
  RETURN_IF_ERROR(file_.Write(header));
  members_.push_back(std::move(member));
  return absl::OkStatus();
}

absl::Status NpzWriter::Append(std::span<const float> values) {
  Member& member = members_.back();
  CHECK_LE(values.size_bytes(), member.missing);
  member.missing -= values.size_bytes();
  // An empty range has no address, and zlib would start again.
  if (!values.empty()) {
    member.crc = static_cast<uint32_t>(
        crc32_z(member.crc, reinterpret_cast<const Bytef*>(values.data()), values.size_bytes()));
  }
  return file_.Write(std::as_bytes(values));
}

absl::Status NpzWriter::End() {
  const Member& member = members_.back();
  CHECK_EQ(member.missing, 0u);
  return file_.WriteAt(member.offset, LocalHeader(member));
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
  std::string directory;
  for (const Member& member : members_) {
    directory += DirectoryEntry(member);
  }
  directory += DirectoryEnd(file_.bytes(), directory.size());
  RETURN_IF_ERROR(file_.Write(directory));
  return file_.Finish();
}

}  // namespace monsoon
