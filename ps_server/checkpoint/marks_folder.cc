#include "ps_server/checkpoint/marks_folder.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <span>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/logging.h"
#include "common/checkpoint/checkpoint.h"
#include "common/process/unique_fd.h"
#include "common/storage/file_path.h"
#include "common/storage/storage.h"

namespace monsoon {
namespace {

struct Head {
  char magic[8];
  char boot[48];
  uint64_t stripes;
};
static_assert(sizeof(Head) == 64);
static_assert(std::atomic<uint64_t>::is_always_lock_free);
constexpr char kMagic[] = "MNSNMRK1";
constexpr uint64_t kPage = 4096;

std::string FileName(SessionId session) {
  return absl::StrCat("w", session.worker, ".i", session.incarnation);
}

std::optional<SessionId> SessionOf(const std::string& file_name) {
  SessionId session;
  const std::vector<std::string> parts = absl::StrSplit(file_name, ".i");
  if (parts.size() != 2 || !absl::StartsWith(parts[0], "w") ||
      !absl::SimpleAtoi(parts[0].substr(1), &session.worker) ||
      !absl::SimpleAtoi(parts[1], &session.incarnation) || FileName(session) != file_name) {
    return std::nullopt;
  }
  return session;
}

std::vector<std::string> NamesIn(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (std::filesystem::directory_iterator at(folder, error), end; !error && at != end;
       at.increment(error)) {
    names.push_back(at->path().filename().string());
  }
  std::ranges::sort(names);
  return names;
}

// The name of the job's folder among all jobs'.
std::string FolderName(const std::string& job, uint64_t job_term) {
  return NameOfPath(JobFolder("", job, job_term));
}

// A file in memory; its descriptor is closed.
class Mapping {
 public:
  // Of `bytes`; null where the system gives none, with the reason in the log. A file that
  // has them keeps its content.
  static std::unique_ptr<Mapping> Of(const std::string& path, uint64_t bytes) {
    UniqueFd fd(open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    const bool is_new = fd.valid();
    if (!is_new && errno == EEXIST) {
      fd.reset(open(path.c_str(), O_RDWR | O_CLOEXEC));
    }
    // Pages that the disk has no room for would end the process when they are written.
    int error = fd.valid() ? posix_fallocate(fd.get(), 0, static_cast<off_t>(bytes)) : errno;
    void* data = MAP_FAILED;
    if (error == 0) {
      data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
      error = errno;
    }
    if (data == MAP_FAILED) {
      LOG(WARNING) << path << ": " << std::strerror(error)
                   << ": what this session may lose will not be known";
      return nullptr;
    }
    return std::unique_ptr<Mapping>(new Mapping(data, bytes, is_new));
  }
  ~Mapping() { munmap(data_, bytes_); }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  bool is_new() const { return is_new_; }
  Head* head() const { return static_cast<Head*>(data_); }
  std::atomic<uint64_t>* marks() const {
    return reinterpret_cast<std::atomic<uint64_t>*>(head() + 1);
  }

 private:
  Mapping(void* data, uint64_t bytes, bool is_new) : data_(data), bytes_(bytes), is_new_(is_new) {}

  void* const data_;
  const uint64_t bytes_;
  const bool is_new_;
};

}  // namespace

std::string BootId() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string boot;
  std::getline(file, boot);
  return boot;
}

class MarksFolder::Marks : public SessionMarks {
 public:
  Marks(std::string folder, std::string boot, uint32_t stripes, std::shared_ptr<Live> live)
      : folder_(std::move(folder)),
        boot_(std::move(boot)),
        stripes_(stripes),
        live_(std::move(live)) {
    MutexLock lock(&live_->mutex);
    live_->folders.insert(NameOfPath(folder_));
  }

  ~Marks() override {
    MutexLock lock(&live_->mutex);
    live_->folders.erase(live_->folders.find(NameOfPath(folder_)));
  }

  std::vector<SessionId> Earlier() const override {
    std::vector<SessionId> sessions;
    for (const std::string& name : NamesIn(folder_)) {
      if (const std::optional<SessionId> session = SessionOf(name)) {
        sessions.push_back(*session);
      }
    }
    std::ranges::sort(sessions);
    return sessions;
  }

  std::span<std::atomic<uint64_t>> Open(SessionId session) override {
    File& file = files_[session];
    if (file.mapping == nullptr) {
      if (const absl::Status made = PosixStorage()->MakeFolder(folder_); !made.ok()) {
        LOG(WARNING) << made.message();
      }
      file.mapping = Mapping::Of(Path(session), sizeof(Head) + stripes_ * sizeof(uint64_t));
      if (file.mapping == nullptr) {
        files_.erase(session);
        return {};
      }
      file.complete = TakeHead(*file.mapping);
    }
    return {file.mapping->marks(), stripes_};
  }

  bool complete(SessionId session) const override {
    const auto found = files_.find(session);
    return found != files_.end() && found->second.complete;
  }

  bool Forget(SessionId session) override {
    const std::string path = Path(session);
    if (unlink(path.c_str()) != 0 && errno != ENOENT) {
      LOG(WARNING) << path << ": " << std::strerror(errno);
      return false;
    }
    // Else the name may come back with the host, when no part speaks of the session.
    const UniqueFd fd(open(folder_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (fd.valid() && fsync(fd.get()) != 0) {
      return false;
    }
    files_.erase(session);
    return true;
  }

  uint64_t session_bytes() const override {
    return (sizeof(Head) + stripes_ * sizeof(uint64_t) + kPage - 1) / kPage * kPage;
  }

 private:
  struct File {
    std::unique_ptr<Mapping> mapping;
    bool complete = true;
  };

  std::string Path(SessionId session) const { return InFolder(folder_, FileName(session)); }

  // Whether the marks behind it are all that was stored.
  bool TakeHead(const Mapping& mapping) const {
    Head* const head = mapping.head();
    char boot[sizeof(head->boot)] = {};
    boot_.copy(boot, sizeof(boot) - 1);
    if (mapping.is_new()) {
      std::memcpy(head->boot, boot, sizeof(boot));
      head->stripes = stripes_;
      std::memcpy(head->magic, kMagic, sizeof(head->magic));
    }
    return !boot_.empty() && std::memcmp(head->magic, kMagic, sizeof(head->magic)) == 0 &&
           std::memcmp(head->boot, boot, sizeof(boot)) == 0 && head->stripes == stripes_;
  }

  const std::string folder_;
  const std::string boot_;
  const uint32_t stripes_;
  const std::shared_ptr<Live> live_;
  std::map<SessionId, File> files_;
};

MarksFolder::MarksFolder(std::string path, std::string boot)
    : path_(std::move(path)), boot_(std::move(boot)), live_(std::make_shared<Live>()) {}

MarksFolder::~MarksFolder() = default;

std::unique_ptr<SessionMarks> MarksFolder::OpenJob(const CreateShardJobRequest& create,
                                                   uint32_t stripes, bool fresh) {
  if (fresh) {
    Remove(create.job(), create.job_term());
  }
  return std::make_unique<Marks>(InFolder(path_, FolderName(create.job(), create.job_term())),
                                 boot_, stripes, live_);
}

void MarksFolder::Remove(const std::string& job, uint64_t job_term) {
  std::error_code error;
  std::filesystem::remove_all(InFolder(path_, FolderName(job, job_term)), error);
}

void MarksFolder::RemoveOthers(const std::string& jobs_folder) {
  for (const std::string& name : NamesIn(path_)) {
    std::error_code error;
    if (std::filesystem::exists(InFolder(jobs_folder, name), error) || error) {
      continue;
    }
    MutexLock lock(&live_->mutex);
    if (!live_->folders.contains(name)) {
      std::filesystem::remove_all(InFolder(path_, name), error);
    }
  }
}

}  // namespace monsoon
