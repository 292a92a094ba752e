#include "common/base/file_replacement.h"

#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "common/testing/status_matchers.h"
#include "gtest/gtest.h"

namespace monsoon {
namespace {

using ::monsoon::testing::StatusIs;
using ::testing::HasSubstr;

class FileReplacementTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = ::testing::TempDir() + "/replacement-XXXXXX";
    ASSERT_NE(mkdtemp(folder_.data()), nullptr);
    path_ = folder_ + "/file";
  }

  static std::string ContentOf(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  size_t Files() const {
    return static_cast<size_t>(std::distance(std::filesystem::directory_iterator(folder_), {}));
  }

  std::string folder_;
  std::string path_;
};

TEST_F(FileReplacementTest, ReadersSeeTheOldFileUntilTheEnd) {
  std::ofstream(path_) << "old";
  {
    ASSERT_OK_AND_ASSIGN(FileReplacement file, FileReplacement::Create(path_));
    ASSERT_OK(file.Write("ne"));
    ASSERT_OK(file.Write("w"));
    EXPECT_EQ(file.bytes(), 3u);
    EXPECT_EQ(ContentOf(path_), "old");
    ASSERT_OK(file.Finish());
  }
  EXPECT_EQ(ContentOf(path_), "new");
  EXPECT_EQ(Files(), 1u);
}

TEST_F(FileReplacementTest, WhatWasWrittenMayBeReplaced) {
  ASSERT_OK_AND_ASSIGN(FileReplacement file, FileReplacement::Create(path_));
  ASSERT_OK(file.Write("0000 begins"));
  ASSERT_OK(file.WriteAt(0, "head"));
  ASSERT_OK(file.Write(", and ends"));
  ASSERT_OK(file.WriteAt(11, ";"));
  ASSERT_OK(file.WriteAt(0, ""));
  EXPECT_EQ(file.bytes(), 21u);
  ASSERT_OK(file.Finish());
  EXPECT_EQ(ContentOf(path_), "head begins; and ends");
}

TEST_F(FileReplacementTest, WithoutItsEndNothingIsLeft) {
  {
    ASSERT_OK_AND_ASSIGN(FileReplacement file, FileReplacement::Create(path_));
    ASSERT_OK(file.Write("half"));
    const FileReplacement moved = std::move(file);
    EXPECT_EQ(Files(), 1u);
  }
  EXPECT_EQ(Files(), 0u);
}

TEST_F(FileReplacementTest, ErrorsNameTheFile) {
  EXPECT_THAT(FileReplacement::Create(folder_ + "/none/file").status(),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr(folder_ + "/none/file")));
  // A folder in the way.
  ASSERT_EQ(mkdir(path_.c_str(), 0700), 0);
  std::ofstream(path_ + "/in_it") << "x";
  {
    ASSERT_OK_AND_ASSIGN(FileReplacement file, FileReplacement::Create(path_));
    const absl::Status status = file.Finish();
    EXPECT_FALSE(status.ok());
    EXPECT_THAT(std::string(status.message()), HasSubstr(path_ + ": cannot rename "));
  }
  EXPECT_EQ(Files(), 1u);
}

}  // namespace
}  // namespace monsoon
