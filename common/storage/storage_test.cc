// What both implementations of Storage promise, and what only the system's files do.
#include "common/storage/storage.h"

#include <linux/magic.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <cstdlib>
#include <memory>
#include <span>
#include <string>

#include "common/storage/file_path.h"
#include "common/storage/simulated_storage.h"
#include "common/testing/status_matchers.h"
#include "common/testing/unique_name.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace monsoon {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::IsOk;
using testing::StatusIs;

constexpr uint64_t kAny = 1 << 20;

std::span<const std::byte> Bytes(const std::string& text) { return std::as_bytes(std::span(text)); }

std::string TestFolder() {
  const char* const given = std::getenv("TEST_TMPDIR");
  return InFolder(given != nullptr ? given : "/tmp", testing::UniqueName());
}

class StorageTest : public ::testing::TestWithParam<bool> {
 protected:
  StorageTest() { EXPECT_OK(storage_->MakeFolder(root_)); }

  std::string Path(const std::string& name) const { return InFolder(root_, name); }

  absl::Status Write(const std::string& name, const std::string& content) {
    auto file = storage_->Create(Path(name));
    return file.ok() ? (*file)->WriteAt(0, Bytes(content)) : file.status();
  }

  SimulatedStorage simulated_;
  Storage* const storage_ = GetParam() ? PosixStorage() : &simulated_;
  const std::string root_ = TestFolder();
};

INSTANTIATE_TEST_SUITE_P(All, StorageTest, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "Posix" : "Simulated"; });

TEST_P(StorageTest, ReadsWhatWasWritten) {
  ASSERT_OK_AND_ASSIGN(const auto file, storage_->Create(Path("a")));
  ASSERT_OK(file->WriteAt(0, Bytes("hello")));
  ASSERT_OK(file->WriteAt(3, Bytes("p!")));
  ASSERT_OK(file->WriteAt(1, {}));
  ASSERT_OK(file->Sync());
  ASSERT_OK_AND_ASSIGN(const auto reader, storage_->Open(Path("a")));
  EXPECT_EQ(reader->bytes(), 5u);
  std::string out(3, '\0');
  ASSERT_OK(reader->ReadAt(2, std::as_writable_bytes(std::span(out))));
  EXPECT_EQ(out, "lp!");
  EXPECT_OK(reader->ReadAt(5, {}));
  EXPECT_THAT(reader->ReadAt(3, std::as_writable_bytes(std::span(out))),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr(Path("a"))));
}

TEST_P(StorageTest, AGapReadsAsZeros) {
  ASSERT_OK_AND_ASSIGN(const auto file, storage_->Create(Path("a")));
  ASSERT_OK(file->WriteAt(10000, Bytes("end")));
  ASSERT_OK(file->WriteAt(0, Bytes("begin")));
  ASSERT_OK_AND_ASSIGN(const std::string content, storage_->ReadAll(Path("a"), kAny));
  EXPECT_EQ(content, "begin" + std::string(9995, '\0') + "end");
}

TEST_P(StorageTest, CreateEmptiesWhatWasThere) {
  ASSERT_OK(Write("a", "long content"));
  ASSERT_OK(Write("a", "short"));
  EXPECT_THAT(*storage_->ReadAll(Path("a"), kAny), "short");
}

TEST_P(StorageTest, WhatIsMissingIsNotFound) {
  const auto not_found = [](const std::string& path) {
    return StatusIs(absl::StatusCode::kNotFound, AllOf(HasSubstr(path), HasSubstr("No such")));
  };
  EXPECT_THAT(storage_->Open(Path("no")).status(), not_found(Path("no")));
  EXPECT_THAT(storage_->ReadAll(Path("no"), 1).status(), not_found(Path("no")));
  EXPECT_THAT(storage_->Create(Path("no/a")).status(), not_found(Path("no/a")));
  EXPECT_THAT(storage_->List(Path("no")).status(), not_found(Path("no")));
  EXPECT_THAT(storage_->SyncFolder(Path("no")), not_found(Path("no")));
  EXPECT_THAT(storage_->Rename(Path("no"), Path("b")), not_found(Path("no")));
  EXPECT_THAT(storage_->FreeBytes(Path("no")).status(), not_found(Path("no")));
  EXPECT_OK(storage_->Remove(Path("no")));
  EXPECT_OK(storage_->RemoveFolder(Path("no")));
}

TEST_P(StorageTest, AFolderIsNoFile) {
  ASSERT_OK(storage_->MakeFolder(Path("folder")));
  ASSERT_OK(Write("file", "x"));
  const auto refused = [](const std::string& why) {
    return StatusIs(absl::StatusCode::kUnavailable, HasSubstr(why));
  };
  EXPECT_THAT(storage_->Create(Path("folder")).status(), refused("Is a directory"));
  EXPECT_THAT(storage_->Open(Path("folder")).status(), refused("Is a directory"));
  EXPECT_THAT(storage_->Remove(Path("folder")), refused("Is a directory"));
  EXPECT_THAT(storage_->Rename(Path("file"), Path("folder")), refused("Is a directory"));
  EXPECT_THAT(storage_->RemoveFolder(Path("file")), refused("Not a directory"));
  EXPECT_THAT(storage_->List(Path("file")).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("Not a directory")));
  EXPECT_THAT(storage_->SyncFolder(Path("file")), refused("Not a directory"));
  EXPECT_THAT(storage_->MakeFolder(Path("file")), refused("File exists"));
}

TEST_P(StorageTest, RenameReplaces) {
  ASSERT_OK(Write("new", "new"));
  ASSERT_OK(Write("old", "old"));
  ASSERT_OK(storage_->Rename(Path("new"), Path("old")));
  EXPECT_THAT(*storage_->ReadAll(Path("old"), kAny), "new");
  EXPECT_THAT(*storage_->List(root_), ElementsAre("old"));
  ASSERT_OK(storage_->MakeFolder(Path("b")));
  ASSERT_OK(storage_->Rename(Path("old"), Path("b/moved")));
  EXPECT_THAT(*storage_->ReadAll(Path("b/moved"), kAny), "new");
  EXPECT_OK(storage_->SyncFolder(Path("b")));
}

TEST_P(StorageTest, ListIsSorted) {
  EXPECT_THAT(*storage_->List(root_), IsEmpty());
  ASSERT_OK(storage_->MakeFolder(Path("c/inner")));
  for (const char* const name : {"b", ".tmp-d", "a", "c-file"}) {
    ASSERT_OK(Write(name, ""));
  }
  EXPECT_THAT(*storage_->List(root_), ElementsAre(".tmp-d", "a", "b", "c-file", "c/"));
  EXPECT_THAT(*storage_->List(root_ + "/"), ElementsAre(".tmp-d", "a", "b", "c-file", "c/"));
}

TEST_P(StorageTest, FoldersAreMadeWithThoseAbove) {
  ASSERT_OK(storage_->MakeFolder(Path("a/b/c")));
  ASSERT_OK(storage_->MakeFolder(Path("a/b/c/")));
  ASSERT_OK(Write("a/b/c/file", "x"));
  EXPECT_THAT(storage_->RemoveFolder(Path("a/b/c")),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("not empty")));
  ASSERT_OK(storage_->Remove(Path("a/b/c/file")));
  ASSERT_OK(storage_->RemoveFolder(Path("a/b/c")));
  EXPECT_THAT(*storage_->List(Path("a/b")), IsEmpty());
}

TEST_P(StorageTest, AnOpenFileOutlivesItsName) {
  ASSERT_OK(Write("a", "kept"));
  ASSERT_OK_AND_ASSIGN(const auto reader, storage_->Open(Path("a")));
  ASSERT_OK(Write("b", "other"));
  ASSERT_OK(storage_->Rename(Path("b"), Path("a")));
  std::string out(4, '\0');
  ASSERT_OK(reader->ReadAt(0, std::as_writable_bytes(std::span(out))));
  EXPECT_EQ(out, "kept");
}

TEST_P(StorageTest, ReadAllHasALimit) {
  ASSERT_OK(Write("a", "12345"));
  EXPECT_THAT(*storage_->ReadAll(Path("a"), 5), "12345");
  EXPECT_THAT(storage_->ReadAll(Path("a"), 4).status(),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr(Path("a"))));
}

TEST_P(StorageTest, WriteAllReplacesAndLeavesNothingBeside) {
  ASSERT_OK(storage_->WriteAll(Path("a"), "first"));
  ASSERT_OK(storage_->WriteAll(Path("a"), ""));
  ASSERT_OK(storage_->WriteAll(Path("a"), "second"));
  EXPECT_THAT(*storage_->ReadAll(Path("a"), kAny), "second");
  EXPECT_THAT(*storage_->List(root_), ElementsAre("a"));
  ASSERT_OK(storage_->MakeFolder(Path("b")));
  EXPECT_FALSE(storage_->WriteAll(Path("b"), "x").ok());
  EXPECT_THAT(*storage_->List(root_), ElementsAre("a", "b/"));
}

TEST_P(StorageTest, FreeBytesAreToldOfFoldersAndFiles) {
  ASSERT_OK(Write("a", "x"));
  EXPECT_GT(*storage_->FreeBytes(root_), 0u);
  EXPECT_GT(*storage_->FreeBytes(Path("a")), 0u);
}

// ---- the system's files only ------------------------------------------------

TEST(PosixStorageTest, AFullDiskIsResourceExhausted) {
  struct stat info;
  if (stat("/dev/full", &info) != 0 || !S_ISCHR(info.st_mode)) {
    GTEST_SKIP() << "no /dev/full here";
  }
  ASSERT_OK_AND_ASSIGN(const auto file, PosixStorage()->Create("/dev/full"));
  EXPECT_THAT(file->WriteAt(0, Bytes("x")), StatusIs(absl::StatusCode::kResourceExhausted,
                                                     "write /dev/full: No space left on device"));
}

TEST(PosixStorageTest, AShortWriteIsContinuedUntilTheErrorShows) {
  const std::string path = TestFolder();
  rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = signal(SIGXFSZ, SIG_IGN);
  rlimit limit = before;
  limit.rlim_cur = 1000;
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
  auto file = PosixStorage()->Create(path);
  absl::Status status = file.status();
  if (file.ok()) {
    status = (*file)->WriteAt(900, Bytes(std::string(200, 'x')));
  }
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  signal(SIGXFSZ, handler);
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kResourceExhausted,
                               AllOf(HasSubstr("write " + path), HasSubstr("File too large"))));
  struct stat info;
  ASSERT_EQ(stat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_size, 1000);
}

TEST(PosixStorageTest, WhatIsForbiddenIsPermissionDenied) {
  // Not even root makes files or folders there, where it is the kernel's.
  if (struct statfs info; statfs("/sys", &info) == 0 && info.f_type == SYSFS_MAGIC) {
    EXPECT_THAT(
        PosixStorage()->MakeFolder("/sys/monsoon"),
        StatusIs(absl::StatusCode::kPermissionDenied, HasSubstr("make folder /sys/monsoon")));
  }
  if (geteuid() == 0) {
    GTEST_SKIP() << "root may write everywhere";
  }
  const std::string path = TestFolder();
  ASSERT_OK(PosixStorage()->MakeFolder(path));
  ASSERT_EQ(chmod(path.c_str(), 0500), 0);
  EXPECT_THAT(PosixStorage()->Create(path + "/a").status(),
              StatusIs(absl::StatusCode::kPermissionDenied, HasSubstr(path + "/a")));
}

mode_t ModeOf(const std::string& path) {
  struct stat info = {};
  EXPECT_EQ(stat(path.c_str(), &info), 0) << path;
  return info.st_mode & 07777;
}

TEST(PosixStorageTest, KeepsWhatItMakesToItsUser) {
  const mode_t before = umask(0022);
  const std::string path = TestFolder();
  ASSERT_OK(PosixStorage()->MakeFolder(path + "/a/b"));
  ASSERT_OK(PosixStorage()->Create(path + "/a/b/part").status());
  ASSERT_OK(OutputStorage()->Create(path + "/model").status());
  umask(before);
  EXPECT_EQ(ModeOf(path + "/a"), 0700u);
  EXPECT_EQ(ModeOf(path + "/a/b"), 0700u);
  EXPECT_EQ(ModeOf(path + "/a/b/part"), 0600u);
  EXPECT_EQ(ModeOf(path + "/model"), 0644u);
}

TEST(PosixStorageTest, WarnsOfAFolderThatOthersMayLookInto) {
  const std::string path = TestFolder();
  ASSERT_OK(PosixStorage()->MakeFolder(path));
  EXPECT_EQ(WideFolderWarning(path), "");
  EXPECT_EQ(WideFolderWarning(path + "/none"), "");
  ASSERT_EQ(chmod(path.c_str(), 0750), 0);
  EXPECT_THAT(WideFolderWarning(path), HasSubstr(path + " is open to other users (mode 0750)"));
  // Left as it is.
  ASSERT_OK(PosixStorage()->MakeFolder(path));
  EXPECT_EQ(ModeOf(path), 0750u);
}

TEST(PosixStorageTest, AFifoIsRefusedAndNotWaitedFor) {
  const std::string path = TestFolder();
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  EXPECT_THAT(PosixStorage()->Open(path).status(),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("not a regular file")));
}

TEST(FilePathTest, PartsOfPaths) {
  EXPECT_EQ(FolderOf("a/b/c"), "a/b");
  EXPECT_EQ(FolderOf("a/b//c/"), "a/b");
  EXPECT_EQ(FolderOf("/a"), "/");
  EXPECT_EQ(FolderOf("/"), "/");
  EXPECT_EQ(FolderOf("a"), ".");
  EXPECT_EQ(NameOfPath("a/b/c/"), "c");
  EXPECT_EQ(NameOfPath("c"), "c");
  EXPECT_EQ(NameOfPath("/c"), "c");
  EXPECT_EQ(InFolder("a", "b"), "a/b");
  EXPECT_EQ(InFolder("a/", "b"), "a/b");
  EXPECT_EQ(InFolder("", "b"), "b");
}

}  // namespace
}  // namespace monsoon
