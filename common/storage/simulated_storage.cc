#include "common/storage/simulated_storage.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status.h"
#include "common/storage/file_path.h"
#include "common/storage/simulated_content.h"

namespace monsoon {
namespace {

// A path as a key: without doubled slashes and one at the end.
std::string Key(const std::string& path) {
  std::string key;
  for (const char c : path) {
    if (c != '/' || !absl::EndsWith(key, "/")) {
      key.push_back(c);
    }
  }
  if (key.size() > 1 && key.back() == '/') {
    key.pop_back();
  }
  return key;
}

absl::Status Missing(absl::string_view operation, absl::string_view path) {
  return absl::NotFoundError(absl::StrCat(operation, " ", path, ": No such file or directory"));
}

absl::Status Refused(absl::string_view operation, absl::string_view path, absl::string_view why) {
  return absl::UnavailableError(absl::StrCat(operation, " ", path, ": ", why));
}

}  // namespace

// A file or a folder, whatever it is called.
class SimulatedStorage::Node {
 public:
  explicit Node(bool folder) : folder_(folder) {}

  bool folder() const { return folder_; }
  SimulatedContent* content() { return &content_; }
  uint64_t size() const { return content_.bytes().size(); }

 private:
  const bool folder_;
  SimulatedContent content_;
};

class SimulatedStorage::File : public StorageFile {
 public:
  File(SimulatedStorage* storage, std::string path, std::shared_ptr<Node> node)
      : storage_(storage), path_(std::move(path)), node_(std::move(node)) {}

  absl::Status WriteAt(uint64_t offset, std::span<const std::byte> bytes) override {
    return storage_->Write(node_.get(), path_, offset, bytes);
  }
  absl::Status Sync() override {
    const absl::Status status = storage_->Sync(node_.get(), path_);
    if (sync_error_.ok()) {
      sync_error_ = status;
    }
    return sync_error_;
  }

 private:
  SimulatedStorage* const storage_;
  const std::string path_;
  const std::shared_ptr<Node> node_;
  absl::Status sync_error_;
};

class SimulatedStorage::Reader : public StorageReader {
 public:
  Reader(const SimulatedStorage* storage, std::string path, std::shared_ptr<Node> node,
         uint64_t bytes)
      : storage_(storage), path_(std::move(path)), node_(std::move(node)), bytes_(bytes) {}

  uint64_t bytes() const override { return bytes_; }
  absl::Status ReadAt(uint64_t offset, std::span<std::byte> out) const override {
    const MutexLock lock(&storage_->mutex_);
    RETURN_IF_ERROR(storage_->BeginRead(path_));
    const std::string& bytes = node_->content()->bytes();
    if (offset > bytes.size() || out.size() > bytes.size() - offset) {
      return absl::DataLossError(
          absl::StrCat("read ", path_, ": it ends before byte ", offset + out.size()));
    }
    if (!out.empty()) {
      std::memcpy(out.data(), bytes.data() + offset, out.size());
    }
    return absl::OkStatus();
  }

 private:
  const SimulatedStorage* const storage_;
  const std::string path_;
  const std::shared_ptr<Node> node_;
  const uint64_t bytes_;
};

void SimulatedStorage::NameChange::Apply(Names* names) const {
  const auto found = names->find(from);
  if (found != names->end() && found->second == node) {
    names->erase(found);
  }
  if (!to.empty()) {
    (*names)[to] = node;
  }
}

SimulatedStorage::SimulatedStorage() = default;
SimulatedStorage::~SimulatedStorage() = default;

uint64_t SimulatedStorage::operations() const {
  const MutexLock lock(&mutex_);
  return operations_;
}

void SimulatedStorage::FailAfter(uint64_t n, absl::Status status) {
  CHECK_GE(n, 1u);
  CHECK(!status.ok());
  const MutexLock lock(&mutex_);
  fail_from_ = operations_ + n;
  failure_ = std::move(status);
}

void SimulatedStorage::ClearFailure() {
  const MutexLock lock(&mutex_);
  fail_from_ = 0;
  read_failures_.clear();
}

void SimulatedStorage::FailReads(const std::string& path, uint64_t n, uint64_t count,
                                 absl::Status status) {
  CHECK_GE(n, 1u);
  CHECK(!status.ok());
  const MutexLock lock(&mutex_);
  read_failures_[Key(path)] = {n - 1, count, std::move(status)};
}

void SimulatedStorage::SetCapacity(uint64_t bytes) {
  const MutexLock lock(&mutex_);
  capacity_ = bytes;
}

std::unique_ptr<SimulatedStorage> SimulatedStorage::PowerCut(uint64_t seed) const {
  const MutexLock lock(&mutex_);
  SimulatedRandom names_random(seed, 0);
  Names left = synced_names_;
  const SimulatedRandom::Share share = names_random.PickShare();
  for (const NameChange& change : unsynced_) {
    const bool there = names_random.Pick(share, 1) == 1;
    if (there || (change.from_synced && change.to_synced)) {
      change.Apply(&left);
    }
  }
  auto after = std::make_unique<SimulatedStorage>();
  const MutexLock after_lock(&after->mutex_);
  after->capacity_ = capacity_;
  SimulatedRandom content_random(seed, 1);
  // Folders come before what is in them.
  for (const auto& [path, node] : left) {
    if (after->IsFolder(FolderOf(path))) {
      auto copy = std::make_shared<Node>(node->folder());
      *copy->content() = node->content()->AfterPowerCut(&content_random);
      after->names_[path] = std::move(copy);
    }
  }
  after->synced_names_ = after->names_;
  return after;
}

std::unique_ptr<SimulatedStorage> SimulatedStorage::Copy() const {
  const MutexLock lock(&mutex_);
  auto copy = std::make_unique<SimulatedStorage>();
  const MutexLock copy_lock(&copy->mutex_);
  copy->capacity_ = capacity_;
  for (const auto& [path, node] : names_) {
    copy->names_[path] = std::make_shared<Node>(node->folder());
    *copy->names_[path]->content() = SimulatedContent(node->content()->bytes());
  }
  copy->synced_names_ = copy->names_;
  return copy;
}

void SimulatedStorage::CorruptByte(const std::string& path, uint64_t offset, int bit) {
  const MutexLock lock(&mutex_);
  const std::shared_ptr<Node> node = Find(path);
  CHECK(node != nullptr);
  std::string bytes = node->content()->bytes();
  CHECK_LT(offset, bytes.size());
  bytes[offset] = static_cast<char>(bytes[offset] ^ (1 << bit));
  *node->content() = SimulatedContent(std::move(bytes));
}

void SimulatedStorage::Truncate(const std::string& path, uint64_t bytes) {
  const MutexLock lock(&mutex_);
  const std::shared_ptr<Node> node = Find(path);
  CHECK(node != nullptr);
  CHECK_LE(bytes, node->size());
  *node->content() = SimulatedContent(node->content()->bytes().substr(0, bytes));
}

absl::Status SimulatedStorage::BeginRead(const std::string& path) const {
  const auto found = read_failures_.find(Key(path));
  if (found == read_failures_.end()) {
    return absl::OkStatus();
  }
  ReadFailure& failure = found->second;
  if (failure.before > 0) {
    --failure.before;
    return absl::OkStatus();
  }
  if (failure.count == 0) {
    return absl::OkStatus();
  }
  --failure.count;
  return Annotate(failure.status, absl::StrCat("read ", path));
}

absl::Status SimulatedStorage::Begin(absl::string_view operation, const std::string& path) {
  ++operations_;
  return fail_from_ != 0 && operations_ >= fail_from_
             ? Annotate(failure_, absl::StrCat(operation, " ", path))
             : absl::OkStatus();
}

absl::Status SimulatedStorage::Write(Node* node, const std::string& path, uint64_t offset,
                                     std::span<const std::byte> bytes) {
  const MutexLock lock(&mutex_);
  absl::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  absl::Status status = Begin("write", path);
  const uint64_t others = UsedBytes() - node->size();
  const uint64_t room = capacity_ - std::min(capacity_, others);
  const auto fits = [&] { return offset + text.size() <= room; };
  if (status.ok() && !fits()) {
    status =
        absl::ResourceExhaustedError(absl::StrCat("write ", path, ": No space left on device"));
  }
  if (!status.ok() && !text.empty()) {
    // Any piece of it was written.
    SimulatedRandom random(operations_, 2);
    const uint64_t begin = random.UpTo(text.size() - 1);
    text = text.substr(begin, random.UpTo(text.size() - begin));
    offset += begin;
  }
  if (!text.empty() && fits()) {
    node->content()->Write(offset, text);
  }
  return status;
}

absl::Status SimulatedStorage::Sync(Node* node, const std::string& path) {
  const MutexLock lock(&mutex_);
  RETURN_IF_ERROR(Begin("sync", path));
  node->content()->Sync();
  return absl::OkStatus();
}

std::shared_ptr<SimulatedStorage::Node> SimulatedStorage::Find(const std::string& path) const {
  const auto found = names_.find(Key(path));
  return found == names_.end() ? nullptr : found->second;
}

bool SimulatedStorage::IsFolder(const std::string& path) const {
  const std::string key = Key(path);
  const auto found = names_.find(key);
  return key == "/" || key == "." || (found != names_.end() && found->second->folder());
}

void SimulatedStorage::Change(NameChange change) {
  change.from_synced = change.from.empty();
  change.to_synced = change.to.empty();
  change.Apply(&names_);
  unsynced_.push_back(std::move(change));
}

void SimulatedStorage::SyncNames(const std::string& folder) {
  const std::string key = Key(folder);
  for (NameChange& change : unsynced_) {
    change.from_synced = change.from_synced || FolderOf(change.from) == key;
    change.to_synced = change.to_synced || FolderOf(change.to) == key;
  }
  size_t settled = 0;
  while (settled < unsynced_.size() && unsynced_[settled].from_synced &&
         unsynced_[settled].to_synced) {
    unsynced_[settled++].Apply(&synced_names_);
  }
  unsynced_.erase(unsynced_.begin(), unsynced_.begin() + static_cast<ptrdiff_t>(settled));
}

uint64_t SimulatedStorage::UsedBytes() const {
  uint64_t bytes = 0;
  for (const auto& [path, node] : names_) {
    bytes += node->size();
  }
  return bytes;
}

absl::StatusOr<std::unique_ptr<StorageFile>> SimulatedStorage::Create(const std::string& path) {
  const MutexLock lock(&mutex_);
  RETURN_IF_ERROR(Begin("create", path));
  if (IsFolder(path)) {
    return Refused("create", path, "Is a directory");
  }
  if (!IsFolder(FolderOf(path))) {
    return Missing("create", path);
  }
  std::shared_ptr<Node> node = Find(path);
  if (node != nullptr) {
    node->content()->Clear();
  } else {
    node = std::make_shared<Node>(/*folder=*/false);
    Change({.to = Key(path), .node = node});
  }
  return std::make_unique<File>(this, path, std::move(node));
}

absl::StatusOr<std::unique_ptr<StorageReader>> SimulatedStorage::Open(
    const std::string& path) const {
  const MutexLock lock(&mutex_);
  if (IsFolder(path)) {
    return Refused("open", path, "Is a directory");
  }
  std::shared_ptr<Node> node = Find(path);
  if (node == nullptr) {
    return Missing("open", path);
  }
  const uint64_t bytes = node->size();
  return std::make_unique<Reader>(this, path, std::move(node), bytes);
}

absl::Status SimulatedStorage::Rename(const std::string& from, const std::string& to) {
  const MutexLock lock(&mutex_);
  const std::string both = absl::StrCat(from, " to ", to);
  RETURN_IF_ERROR(Begin("rename", both));
  const std::shared_ptr<Node> node = Find(from);
  if (node == nullptr || !IsFolder(FolderOf(to))) {
    return Missing("rename", both);
  }
  if (node->folder() || IsFolder(to)) {
    return Refused("rename", both, "Is a directory");
  }
  Change({.from = Key(from), .to = Key(to), .node = node});
  return absl::OkStatus();
}

absl::Status SimulatedStorage::Remove(const std::string& path) {
  const MutexLock lock(&mutex_);
  RETURN_IF_ERROR(Begin("remove", path));
  if (IsFolder(path)) {
    return Refused("remove", path, "Is a directory");
  }
  if (std::shared_ptr<Node> node = Find(path); node != nullptr) {
    Change({.from = Key(path), .node = std::move(node)});
  }
  return absl::OkStatus();
}

absl::Status SimulatedStorage::RemoveFolder(const std::string& path) {
  const MutexLock lock(&mutex_);
  RETURN_IF_ERROR(Begin("remove", path));
  std::shared_ptr<Node> node = Find(path);
  if (node == nullptr) {
    return IsFolder(path) ? Refused("remove", path, "Device or resource busy") : absl::OkStatus();
  }
  if (!node->folder()) {
    return Refused("remove", path, "Not a directory");
  }
  const std::string inside = absl::StrCat(Key(path), "/");
  const auto next = names_.lower_bound(inside);
  if (next != names_.end() && absl::StartsWith(next->first, inside)) {
    return Refused("remove", path, "Directory not empty");
  }
  Change({.from = Key(path), .node = std::move(node)});
  return absl::OkStatus();
}

absl::Status SimulatedStorage::MakeFolder(const std::string& path) {
  const MutexLock lock(&mutex_);
  RETURN_IF_ERROR(Begin("make folder", path));
  std::vector<std::string> missing;
  std::string folder = Key(path);
  while (!IsFolder(folder)) {
    if (Find(folder) != nullptr) {
      return Refused("make folder", folder, "File exists");
    }
    missing.push_back(folder);
    folder = FolderOf(folder);
  }
  SyncNames(FolderOf(folder));
  for (; !missing.empty(); missing.pop_back()) {
    Change({.to = missing.back(), .node = std::make_shared<Node>(/*folder=*/true)});
    SyncNames(FolderOf(missing.back()));
  }
  return absl::OkStatus();
}

absl::Status SimulatedStorage::SyncFolder(const std::string& path) {
  const MutexLock lock(&mutex_);
  RETURN_IF_ERROR(Begin("sync folder", path));
  if (!IsFolder(path)) {
    return Find(path) == nullptr ? Missing("sync folder", path)
                                 : Refused("sync folder", path, "Not a directory");
  }
  SyncNames(path);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> SimulatedStorage::List(const std::string& path) const {
  const MutexLock lock(&mutex_);
  if (!IsFolder(path)) {
    return Find(path) == nullptr
               ? Missing("list", path)
               : absl::InvalidArgumentError(absl::StrCat("list ", path, ": Not a directory"));
  }
  std::vector<std::string> names;
  for (const auto& [name, node] : names_) {
    if (FolderOf(name) == Key(path)) {
      names.push_back(absl::StrCat(NameOfPath(name), node->folder() ? "/" : ""));
    }
  }
  std::sort(names.begin(), names.end());
  return names;
}

absl::StatusOr<uint64_t> SimulatedStorage::FreeBytes(const std::string& path) const {
  const MutexLock lock(&mutex_);
  if (!IsFolder(path) && Find(path) == nullptr) {
    return Missing("ask free space of", path);
  }
  const uint64_t used = UsedBytes();
  return used < capacity_ ? capacity_ - used : 0;
}

}  // namespace monsoon
