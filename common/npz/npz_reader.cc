#include "common/npz/npz_reader.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "common/base/shorten.h"
#include "common/base/status.h"
#include "common/npz/npy_header.h"
#include "common/npz/zip_format.h"

namespace monsoon {
namespace {

constexpr uint64_t kMaxComment = 0xffff;
// A directory entry is under 200 bytes; no model has a million tensors.
constexpr uint64_t kMaxDirectoryBytes = 128 << 20;
constexpr size_t kNamesTold = 8;
constexpr size_t kNameBytesTold = 400;
constexpr uint64_t kMaxDeflateRatio = 1032;
// A multiple of every element's size.
constexpr size_t kPiece = 1 << 16;

// Takes the 64-bit value for a field that says "look here", in the order the
// format fixes.
bool TakeZip64(std::span<const uint8_t>* extra, uint64_t* value) {
  if (*value != zip::kMax32) {
    return true;
  }
  if (extra->size() < 8) {
    return false;
  }
  *value = zip::Read64(extra->data());
  *extra = extra->subspan(8);
  return true;
}

std::span<const uint8_t> FindZip64Extra(std::span<const uint8_t> extra) {
  while (extra.size() >= 4) {
    const size_t bytes = zip::Read16(extra.data() + 2);
    if (bytes > extra.size() - 4) {
      break;
    }
    if (zip::Read16(extra.data()) == zip::kZip64Extra) {
      return extra.subspan(4, bytes);
    }
    extra = extra.subspan(4 + bytes);
  }
  return {};
}

}  // namespace

absl::StatusOr<NpzReader> NpzReader::Open(const std::string& path) {
  // Of a pipe the open would wait for a writer.
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) {
    return absl::ErrnoToStatus(errno, absl::StrCat(path, ": cannot open"));
  }
  return Take(path, fd, /*tell_names=*/true);
}

absl::StatusOr<NpzReader> NpzReader::Take(const std::string& path, int fd, bool tell_names) {
  NpzReader reader(path, fd, 0);
  reader.tell_names_ = tell_names;
  struct stat info;
  if (fstat(fd, &info) != 0) {
    return absl::ErrnoToStatus(errno, absl::StrCat(path, ": cannot stat"));
  }
  if (!S_ISREG(info.st_mode)) {
    return absl::InvalidArgumentError(absl::StrCat(path, " is not a regular file"));
  }
  reader.bytes_ = static_cast<uint64_t>(info.st_size);
  ASSIGN_OR_RETURN(const Directory directory, reader.FindDirectory());
  RETURN_IF_ERROR(reader.ReadDirectory(directory));
  return reader;
}

NpzReader::NpzReader(NpzReader&& other) noexcept
    : path_(std::move(other.path_)),
      fd_(std::exchange(other.fd_, -1)),
      bytes_(other.bytes_),
      tell_names_(other.tell_names_),
      members_(std::move(other.members_)) {}

NpzReader::~NpzReader() {
  if (fd_ >= 0) {
    close(fd_);
  }
}

absl::Status NpzReader::Malformed(absl::string_view what) const {
  return absl::InvalidArgumentError(absl::StrCat(path_, " is not a usable .npz file: ", what));
}

absl::Status NpzReader::ReadAt(uint64_t offset, std::span<uint8_t> out) const {
  if (offset > bytes_ || out.size() > bytes_ - offset) {
    return Malformed("it is cut short");
  }
  while (!out.empty()) {
    const ssize_t got = pread(fd_, out.data(), out.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) {
      continue;
    }
    if (got < 0) {
      return absl::ErrnoToStatus(errno, absl::StrCat(path_, ": cannot read"));
    }
    if (got == 0) {
      return Malformed("it was cut while it was read");
    }
    out = out.subspan(static_cast<size_t>(got));
    offset += static_cast<uint64_t>(got);
  }
  return absl::OkStatus();
}

absl::StatusOr<NpzReader::Directory> NpzReader::FindDirectory() const {
  const uint64_t tail_bytes = std::min(bytes_, zip::kEndBytes + kMaxComment);
  std::vector<uint8_t> tail(tail_bytes);
  RETURN_IF_ERROR(ReadAt(bytes_ - tail_bytes, tail));
  for (uint64_t back = zip::kEndBytes; back <= tail_bytes; ++back) {
    const uint8_t* const end = tail.data() + tail_bytes - back;
    if (zip::Read32(end) != zip::kEndSignature || zip::Read16(end + 20) != back - zip::kEndBytes) {
      continue;
    }
    Directory directory{.offset = zip::Read32(end + 16),
                        .bytes = zip::Read32(end + 12),
                        .count = zip::Read16(end + 10)};
    if (directory.offset == zip::kMax32 || directory.bytes == zip::kMax32 ||
        directory.count == zip::kMax16) {
      return FindDirectory64(bytes_ - back);
    }
    return directory;
  }
  return Malformed("it has no zip directory (numpy.savez writes one)");
}

absl::StatusOr<NpzReader::Directory> NpzReader::FindDirectory64(uint64_t end_offset) const {
  if (end_offset < zip::kLocator64Bytes) {
    return Malformed("the zip64 locator is missing");
  }
  uint8_t locator[zip::kLocator64Bytes];
  RETURN_IF_ERROR(ReadAt(end_offset - zip::kLocator64Bytes, locator));
  if (zip::Read32(locator) != zip::kLocator64Signature) {
    return Malformed("the zip64 locator is missing");
  }
  uint8_t end[zip::kEnd64Bytes];
  RETURN_IF_ERROR(ReadAt(zip::Read64(locator + 8), end));
  if (zip::Read32(end) != zip::kEnd64Signature) {
    return Malformed("the zip64 directory end is missing");
  }
  return Directory{.offset = zip::Read64(end + 48),
                   .bytes = zip::Read64(end + 40),
                   .count = zip::Read64(end + 32)};
}

absl::Status NpzReader::ReadDirectory(const Directory& directory) {
  if (directory.bytes > kMaxDirectoryBytes || directory.offset > bytes_ ||
      directory.bytes > bytes_ - directory.offset) {
    return Malformed("its directory is beyond the file");
  }
  std::vector<uint8_t> bytes(directory.bytes);
  RETURN_IF_ERROR(ReadAt(directory.offset, bytes));
  std::span<const uint8_t> rest(bytes);
  for (uint64_t i = 0; i < directory.count; ++i) {
    if (rest.size() < zip::kDirectoryBytes ||
        zip::Read32(rest.data()) != zip::kDirectorySignature) {
      return Malformed(absl::StrCat("directory entry ", i, " is cut or damaged"));
    }
    const size_t name_bytes = zip::Read16(rest.data() + 28);
    const size_t extra_bytes = zip::Read16(rest.data() + 30);
    const size_t comment_bytes = zip::Read16(rest.data() + 32);
    const size_t entry_bytes = zip::kDirectoryBytes + name_bytes + extra_bytes + comment_bytes;
    if (entry_bytes > rest.size()) {
      return Malformed(absl::StrCat("directory entry ", i, " is cut or damaged"));
    }
    RETURN_IF_ERROR(AddMember(rest.first(entry_bytes), name_bytes, extra_bytes));
    rest = rest.subspan(entry_bytes);
  }
  return absl::OkStatus();
}

absl::Status NpzReader::AddMember(std::span<const uint8_t> entry, size_t name_bytes,
                                  size_t extra_bytes) {
  const std::string file(reinterpret_cast<const char*>(entry.data()) + zip::kDirectoryBytes,
                         name_bytes);
  const std::string shown = tell_names_ ? file : absl::StrCat(members_.size() + 1);
  uint64_t stored = zip::Read32(entry.data() + 20);
  Member member{.offset = zip::Read32(entry.data() + 42),
                .bytes = zip::Read32(entry.data() + 24),
                .crc = zip::Read32(entry.data() + 16)};
  std::span<const uint8_t> extra =
      FindZip64Extra(entry.subspan(zip::kDirectoryBytes + name_bytes, extra_bytes));
  if (!TakeZip64(&extra, &member.bytes) || !TakeZip64(&extra, &stored) ||
      !TakeZip64(&extra, &member.offset)) {
    return Malformed(absl::StrCat("member ", shown, " lacks its zip64 sizes"));
  }
  if (zip::Read16(entry.data() + 8) & zip::kEncryptedFlag) {
    return Malformed(absl::StrCat("member ", shown, " is encrypted"));
  }
  const uint16_t method = zip::Read16(entry.data() + 10);
  member.stored = stored;
  member.deflated = method == zip::kDeflated;
  if ((method != zip::kStored && !member.deflated) ||
      (method == zip::kStored && stored != member.bytes)) {
    return Malformed(absl::StrCat("member ", shown, " is compressed by method ", method,
                                  "; numpy.savez and savez_compressed write 0 and 8"));
  }
  // More is impossible (RFC 1951: 258 bytes from two bits), and would be memory for nothing.
  if (member.deflated && member.bytes / kMaxDeflateRatio > stored) {
    return Malformed(absl::StrCat("member ", shown, " claims ", member.bytes, " bytes from ",
                                  stored, " compressed ones"));
  }
  absl::string_view name = file;
  if (!absl::ConsumeSuffix(&name, ".npy") || name.empty()) {
    return Malformed(absl::StrCat("member ", shown, " is not a .npy file"));
  }
  if (!members_.emplace(std::string(name), member).second) {
    return Malformed(absl::StrCat("member ", shown, " is there twice"));
  }
  return absl::OkStatus();
}

std::vector<std::string> NpzReader::Names() const {
  std::vector<std::string> names;
  for (const auto& [name, member] : members_) {
    names.push_back(name);
  }
  return names;
}

absl::StatusOr<uint64_t> NpzReader::DataOffset(const std::string& name,
                                               const Member& member) const {
  uint8_t local[zip::kLocalBytes];
  RETURN_IF_ERROR(ReadAt(member.offset, local));
  if (zip::Read32(local) != zip::kLocalSignature) {
    return Malformed(absl::StrCat("member ", name, " is not where the directory says"));
  }
  const uint64_t offset =
      member.offset + zip::kLocalBytes + zip::Read16(local + 26) + zip::Read16(local + 28);
  if (offset > bytes_ || member.stored > bytes_ - offset) {
    return Malformed(absl::StrCat("member ", name, " is longer than the file"));
  }
  return offset;
}

// The uncompressed bytes of one member, in order.
class NpzReader::MemberStream {
 public:
  MemberStream(const NpzReader* reader, const Member& member, uint64_t data_offset)
      : reader_(reader),
        at_(data_offset),
        stored_left_(member.stored),
        left_(member.bytes),
        crc_(member.crc) {
    if (member.deflated) {
      inflater_ = std::make_unique<z_stream>();
      compressed_.resize(kPiece);
    }
  }
  ~MemberStream() {
    if (begun_) {
      inflateEnd(inflater_.get());
    }
  }
  MemberStream(const MemberStream&) = delete;
  MemberStream& operator=(const MemberStream&) = delete;

  uint64_t left() const { return left_; }

  // Fills `out`, of at most left() bytes.
  absl::Status Read(std::span<uint8_t> out) {
    if (inflater_ == nullptr) {
      RETURN_IF_ERROR(reader_->ReadAt(at_, out));
      at_ += out.size();
    } else {
      RETURN_IF_ERROR(Inflate(out));
    }
    left_ -= out.size();
    if (!out.empty()) {
      seen_ = crc32_z(seen_, out.data(), out.size());
    }
    return absl::OkStatus();
  }

  // All was read.
  bool IsWhole() const { return seen_ == crc_; }

 private:
  absl::Status Inflate(std::span<uint8_t> out) {
    if (!begun_) {
      // Raw: the zip records stand in for zlib's header.
      if (inflateInit2(inflater_.get(), -MAX_WBITS) != Z_OK) {
        return absl::ResourceExhaustedError("no memory to inflate");
      }
      begun_ = true;
    }
    size_t done = 0;
    while (done < out.size()) {
      if (inflater_->avail_in == 0 && stored_left_ > 0) {
        const std::span<uint8_t> piece =
            std::span(compressed_).first(std::min<uint64_t>(kPiece, stored_left_));
        RETURN_IF_ERROR(reader_->ReadAt(at_, piece));
        at_ += piece.size();
        stored_left_ -= piece.size();
        inflater_->next_in = piece.data();
        inflater_->avail_in = static_cast<unsigned>(piece.size());
      }
      const size_t want = std::min(out.size() - done, kPiece);
      inflater_->next_out = out.data() + done;
      inflater_->avail_out = static_cast<unsigned>(want);
      const int code = inflate(inflater_.get(), Z_NO_FLUSH);
      done += want - inflater_->avail_out;
      // With all of its input taken zlib may still have output; Z_BUF_ERROR says that it has none.
      if (done < out.size() && code != Z_OK) {
        return reader_->Malformed("its compressed data is cut or damaged");
      }
    }
    return absl::OkStatus();
  }

  const NpzReader* const reader_;
  uint64_t at_;
  uint64_t stored_left_;
  uint64_t left_;
  const uint32_t crc_;
  uLong seen_ = 0;
  bool begun_ = false;
  std::unique_ptr<z_stream> inflater_;  // null: stored
  std::vector<uint8_t> compressed_;
};

absl::StatusOr<const NpzReader::Member*> NpzReader::Find(const std::string& name) const {
  const auto found = members_.find(name);
  if (found == members_.end()) {
    std::vector<std::string> names = Names();
    names.resize(std::min<size_t>(names.size(), kNamesTold));
    return absl::NotFoundError(absl::StrCat(path_, " has no member ", name, ".npy; it has ",
                                            Shorten(absl::StrJoin(names, ", "), kNameBytesTold),
                                            names.size() < members_.size() ? ", ..." : ""));
  }
  return &found->second;
}

std::string NpzReader::Where(const std::string& name) const {
  return absl::StrCat(path_, ": member ", name, ".npy");
}

absl::StatusOr<NpyHeader> NpzReader::BeginMember(const std::string& name, MemberStream* stream,
                                                 std::vector<uint8_t>* prefix) const {
  const std::string where = Where(name);
  const uint64_t bytes = stream->left();
  prefix->resize(std::min<uint64_t>(bytes, kNpyMaxHeaderBytes + 12));
  RETURN_IF_ERROR(stream->Read(*prefix));
  if (!IsNpy(*prefix)) {
    return absl::InvalidArgumentError(absl::StrCat(where, " is called so, but is not a .npy file"));
  }
  ASSIGN_OR_RETURN(NpyHeader header, ParseNpyHeader(*prefix, where));
  if (header.data_offset + header.data_bytes != bytes) {
    return absl::InvalidArgumentError(absl::StrCat(where, " has ", bytes - header.data_offset,
                                                   " bytes of data, its shape needs ",
                                                   header.data_bytes));
  }
  return header;
}

absl::StatusOr<NpyHeader> NpzReader::Header(const std::string& name) const {
  ASSIGN_OR_RETURN(const Member* const member, Find(name));
  ASSIGN_OR_RETURN(const uint64_t offset, DataOffset(name, *member));
  MemberStream stream(this, *member, offset);
  std::vector<uint8_t> prefix;
  return BeginMember(name, &stream, &prefix);
}

absl::StatusOr<uint64_t> NpzReader::StoredBytes(const std::string& name) const {
  ASSIGN_OR_RETURN(const Member* const member, Find(name));
  return member->stored;
}

absl::Status NpzReader::Stream(
    const std::string& name, absl::FunctionRef<absl::Status(std::span<const uint8_t>)> look) const {
  ASSIGN_OR_RETURN(const Member* const member, Find(name));
  ASSIGN_OR_RETURN(const uint64_t offset, DataOffset(name, *member));
  MemberStream stream(this, *member, offset);
  std::vector<uint8_t> piece;
  ASSIGN_OR_RETURN(const NpyHeader header, BeginMember(name, &stream, &piece));
  piece.erase(piece.begin(), piece.begin() + static_cast<std::ptrdiff_t>(header.data_offset));
  const uint64_t width = NpyTypeBytes(header.type);
  while (true) {
    // The first piece is what came with the header, and need not end with an element.
    const size_t rest = piece.size() % width;
    const size_t more = std::min<uint64_t>(stream.left(), rest == 0 ? 0 : width - rest);
    const size_t had = piece.size();
    piece.resize(had + more);
    RETURN_IF_ERROR(stream.Read(std::span(piece).subspan(had)));
    if (!piece.empty()) {
      RETURN_IF_ERROR(look(piece));
    }
    if (stream.left() == 0) {
      break;
    }
    piece.resize(std::min<uint64_t>(kPiece, stream.left()));
    RETURN_IF_ERROR(stream.Read(piece));
  }
  return stream.IsWhole() ? absl::OkStatus()
                          : absl::DataLossError(
                                absl::StrCat(Where(name), " is damaged: its CRC does not match"));
}

absl::StatusOr<NpzReader::Array> NpzReader::Read(const std::string& name) const {
  ASSIGN_OR_RETURN(NpyHeader header, Header(name));
  if (header.type != NpyType::kFloat32) {
    return absl::InvalidArgumentError(
        absl::StrCat(Where(name), " is ", NpyTypeName(header.type), ", expected float32"));
  }
  Array array{.shape = std::move(header.shape)};
  array.values.resize(header.data_bytes / sizeof(float));
  auto* at = reinterpret_cast<uint8_t*>(array.values.data());
  RETURN_IF_ERROR(Stream(name, [&](std::span<const uint8_t> bytes) {
    at = std::copy(bytes.begin(), bytes.end(), at);
    return absl::OkStatus();
  }));
  return array;
}

}  // namespace monsoon
