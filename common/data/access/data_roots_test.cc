#include "common/data/access/data_roots.h"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace monsoon {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::StatusIs;
constexpr auto kNotFound = absl::StatusCode::kNotFound;

constexpr auto kDenied = absl::StatusCode::kPermissionDenied;
constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

// outer/data is the root, outer/secret what nobody is to read.
class DataRootsTest : public ::testing::Test {
 protected:
  DataRootsTest()
      : outer_(fs::canonical(::testing::TempDir()) /
               ::testing::UnitTest::GetInstance()->current_test_info()->name()),
        data_(outer_ / "data") {
    fs::remove_all(outer_);
    fs::create_directories(data_ / "sub/deeper");
    Write(outer_ / "secret", "root:$6$");
    Write(data_ / "a", "a");
    Write(data_ / "sub/b", "bb");
  }
  ~DataRootsTest() override { fs::remove_all(outer_); }

  static void Write(const fs::path& path, const std::string& text) { std::ofstream(path) << text; }
  static std::string Read(const DataRoots& roots, const fs::path& path) {
    const absl::StatusOr<UniqueFd> file = roots.OpenFile(path);
    if (!file.ok()) {
      return file.status().ToString();
    }
    char text[64];
    const ssize_t size = read(file->get(), text, sizeof(text));
    return size < 0 ? "cannot read" : std::string(text, static_cast<size_t>(size));
  }
  void ExpectOutside(const DataRoots& roots, const fs::path& path) {
    EXPECT_THAT(roots.OpenFile(path).status(),
                StatusIs(kDenied, AllOf(HasSubstr(path.string()), HasSubstr(data_.string()),
                                        HasSubstr("--data=DIR"), Not(HasSubstr("$6$")))));
  }

  const fs::path outer_;
  const fs::path data_;
};

TEST_F(DataRootsTest, OpensWhatLiesBelowARoot) {
  ASSERT_OK_AND_ASSIGN(const DataRoots roots, DataRoots::Below({data_}));
  EXPECT_EQ(Read(roots, data_ / "a"), "a");
  EXPECT_EQ(Read(roots, data_ / "sub//./b"), "bb");
  EXPECT_EQ(Read(roots, data_ / "sub/../a"), "a");
  ExpectOutside(roots, outer_ / "secret");
  ExpectOutside(roots, outer_ / "nowhere");  // whether it is there is nobody's business
  ExpectOutside(roots, data_ / "../secret");
  ExpectOutside(roots, data_ / "sub/../../secret");
  ExpectOutside(roots, outer_ / "database");
  EXPECT_THAT(roots.OpenFile(data_ / "none").status(),
              StatusIs(kNotFound, HasSubstr("No such file")));
  EXPECT_THAT(roots.OpenFile(data_ / "a/b").status(),
              StatusIs(kNotFound, HasSubstr("Not a directory")));
  EXPECT_THAT(roots.OpenFile(data_).status(), StatusIs(kInvalid, HasSubstr("it is a directory")));
  EXPECT_THAT(roots.OpenFile(std::string(data_) + std::string("/a\0b", 4)).status(),
              StatusIs(kInvalid, HasSubstr("a byte of 0")));
}

TEST_F(DataRootsTest, FollowsLinksThatStay) {
  ASSERT_OK_AND_ASSIGN(const DataRoots roots, DataRoots::Below({data_}));
  fs::create_symlink("sub/b", data_ / "near");
  fs::create_symlink("../../a", data_ / "sub/deeper/up");
  fs::create_symlink(data_ / "sub", data_ / "absolute");
  EXPECT_EQ(Read(roots, data_ / "near"), "bb");
  EXPECT_EQ(Read(roots, data_ / "sub/deeper/up"), "a");
  EXPECT_EQ(Read(roots, data_ / "absolute/b"), "bb");
}

TEST_F(DataRootsTest, RefusesLinksThatLeave) {
  ASSERT_OK_AND_ASSIGN(const DataRoots roots, DataRoots::Below({data_}));
  fs::create_symlink("../secret", data_ / "out");
  fs::create_symlink(outer_ / "secret", data_ / "absolute");
  fs::create_symlink(outer_, data_ / "folder");
  fs::create_symlink("out", data_ / "twice");
  for (const char* const name : {"out", "absolute", "folder/secret", "twice"}) {
    ExpectOutside(roots, data_ / name);
    EXPECT_FALSE(roots.Stat(data_ / name).ok());
    EXPECT_EQ(Read(DataRoots::Anywhere(), data_ / name), "root:$6$");
  }
  EXPECT_THAT(roots.OpenFile(data_ / "out").status().message(),
              HasSubstr("leads by a link out of"));
  EXPECT_THAT(roots.List(data_), StatusIs(kDenied, HasSubstr("--data=DIR")));
  fs::create_symlink("self", data_ / "self");
  EXPECT_THAT(roots.OpenFile(data_ / "self").status().message(), HasSubstr("symbolic links"));
}

TEST_F(DataRootsTest, ARootMayBeALink) {
  fs::create_symlink(data_, outer_ / "link");
  ASSERT_OK_AND_ASSIGN(const DataRoots roots, DataRoots::Below({outer_ / "link"}));
  EXPECT_EQ(Read(roots, outer_ / "link/a"), "a");
  EXPECT_EQ(Read(roots, data_ / "a"), "a");
  EXPECT_THAT(roots.OpenFile(outer_ / "secret"), StatusIs(kDenied, HasSubstr("--data=DIR")));
}

TEST_F(DataRootsTest, LinksLeadFromOneRootToAnother) {
  fs::create_directories(outer_ / "other");
  Write(outer_ / "other/c", "ccc");
  fs::create_symlink(outer_ / "other/c", data_ / "c");
  ASSERT_OK_AND_ASSIGN(const DataRoots roots, DataRoots::Below({data_, outer_ / "other"}));
  EXPECT_EQ(Read(roots, data_ / "c"), "ccc");
  EXPECT_EQ(roots.Text(), absl::StrCat(data_.string(), ", ", outer_.string(), "/other"));
}

TEST_F(DataRootsTest, OpensNothingWithoutARoot) {
  EXPECT_THAT(DataRoots::None().OpenFile(data_ / "a"), StatusIs(kDenied, HasSubstr("--data=DIR")));
  EXPECT_THAT(DataRoots::None().List("/"), StatusIs(kDenied, HasSubstr("--data=DIR")));
  EXPECT_THAT(DataRoots::Below({"data"}), StatusIs(kInvalid, HasSubstr("no absolute path")));
  EXPECT_THAT(DataRoots::Below({data_ / "none"}), StatusIs(kInvalid, HasSubstr("none")));
  EXPECT_THAT(DataRoots::Below({data_ / "a"}), StatusIs(kInvalid, HasSubstr("not a folder")));
}

TEST_F(DataRootsTest, WaitsForNoFifo) {
  ASSERT_EQ(mkfifo((data_ / "fifo").c_str(), 0600), 0);
  fs::create_symlink("fifo", data_ / "to_fifo");
  ASSERT_OK_AND_ASSIGN(const DataRoots below, DataRoots::Below({data_}));
  ASSERT_OK_AND_ASSIGN(const DataRoots devices, DataRoots::Below({"/dev"}));
  for (const DataRoots& roots : {DataRoots::Anywhere(), below}) {
    for (const char* const name : {"fifo", "to_fifo"}) {
      EXPECT_THAT(roots.OpenFile(data_ / name), StatusIs(kInvalid, HasSubstr("not a file")));
    }
  }
  EXPECT_THAT(devices.OpenFile("/dev/zero"), StatusIs(kInvalid, HasSubstr("not a file")));
}

TEST_F(DataRootsTest, ListsAFolder) {
  fs::create_symlink("sub", data_ / "link");
  fs::create_symlink("a", data_ / ".hidden");
  ASSERT_OK_AND_ASSIGN(const DataRoots below, DataRoots::Below({outer_}));
  for (const DataRoots& roots : {DataRoots::Anywhere(), below}) {
    std::string text;
    ASSERT_OK_AND_ASSIGN(const auto entries, roots.List(data_));
    for (const DataRoots::Entry& entry : entries) {
      absl::StrAppend(&text, entry.name, entry.is_folder ? "/ " : " ");
    }
    EXPECT_EQ(text, ".hidden a link/ sub/ ");
    EXPECT_FALSE(roots.List(data_ / "a").ok());
  }
}

}  // namespace
}  // namespace monsoon
