#include "common/data/image/image_folder.h"

#include <filesystem>
#include <fstream>

#include "common/data/image/image_test_files.h"
#include "common/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace monsoon {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::StatusIs;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

class ImageFolderTest : public ::testing::Test {
 protected:
  void SetUp() override {
    root_ = fs::path(::testing::TempDir()) /
            ::testing::UnitTest::GetInstance()->current_test_info()->name();
    fs::remove_all(root_);
    fs::create_directories(root_);
    source_.set_path(root_);
  }

  void Write(const std::string& name, const std::string& bytes = "") {
    fs::create_directories((root_ / name).parent_path());
    std::ofstream(root_ / name, std::ios::binary) << bytes;
  }

  // Names below the root.
  std::vector<std::string> Names(const ImageFolder& folder) {
    std::vector<std::string> names;
    for (const std::string& file : folder.files) {
      names.push_back(fs::path(file).lexically_relative(root_));
    }
    return names;
  }

  absl::StatusOr<ImageFolder> List(const std::vector<std::string>& class_names = {},
                                   uint64_t limit = 0) {
    return ListImages(source_, class_names, limit, DataRoots::Anywhere());
  }

  fs::path root_;
  ImageFolderSource source_;
};

TEST_F(ImageFolderTest, FoldersAreClassesInOrder) {
  Write("dog/b.png");
  Write("dog/a.JPG");
  Write("cat/z.jpeg");
  Write("cat/.hidden");
  Write("LICENSE.txt");
  ASSERT_OK_AND_ASSIGN(const ImageFolder folder, List());
  EXPECT_THAT(Names(folder), ElementsAre("cat/z.jpeg", "dog/a.JPG", "dog/b.png"));
  EXPECT_THAT(folder.labels, ElementsAre(0, 1, 1));
  EXPECT_THAT(folder.class_names, ElementsAre("cat", "dog"));
  EXPECT_THAT(Names(*List({}, 2)), ElementsAre("cat/z.jpeg", "dog/a.JPG"));
}

TEST_F(ImageFolderTest, ClassNamesSayTheOrder) {
  Write("dog/b.png");
  Write("cat/a.png");
  ASSERT_OK_AND_ASSIGN(const ImageFolder folder, List({"dog", "emu", "cat"}));
  EXPECT_THAT(Names(folder), ElementsAre("dog/b.png", "cat/a.png"));
  EXPECT_THAT(folder.labels, ElementsAre(0, 2));
  EXPECT_THAT(List({"cat", "emu"}),
              StatusIs(kInvalid, HasSubstr("/dog: the folder is none of the classes cat, emu")));
}

TEST_F(ImageFolderTest, PartsAndTheRestAreTheWhole) {
  for (const char* const name :
       {"a/0.png", "a/1.png", "a/2.png", "a/3.png", "a/4.png", "b/0.png", "b/1.png"}) {
    Write(name);
  }
  source_.set_parts(3);
  source_.set_first(2);
  EXPECT_THAT(Names(*List()),
              ElementsAre("a/0.png", "a/1.png", "a/3.png", "a/4.png", "b/0.png", "b/1.png"));
  source_.set_rest(true);
  ASSERT_OK_AND_ASSIGN(const ImageFolder rest, List());
  EXPECT_THAT(Names(rest), ElementsAre("a/2.png"));
  EXPECT_THAT(rest.class_names, ElementsAre("a", "b"));
  source_.set_first(3);
  EXPECT_THAT(List(), StatusIs(kInvalid, HasSubstr("first is 3 of 3 parts")));
  source_.set_parts(0);
  EXPECT_THAT(List(), StatusIs(kInvalid, HasSubstr("mean nothing without parts")));
}

TEST_F(ImageFolderTest, ImagesWithoutClassesLieAnywhere) {
  Write("b.png");
  Write("a/z.png");
  Write("notes.txt");
  ASSERT_OK_AND_ASSIGN(const ImageFolder folder,
                       ListUnlabelledImages(root_, 0, DataRoots::Anywhere()));
  EXPECT_THAT(Names(folder), ElementsAre("a/z.png", "b.png"));
  EXPECT_THAT(folder.labels, ElementsAre(0, 0));
  EXPECT_THAT(Names(*ListUnlabelledImages(root_, 1, DataRoots::Anywhere())),
              ElementsAre("a/z.png"));
  fs::create_directories(root_ / "empty");
  EXPECT_THAT(ListUnlabelledImages(root_ / "empty", 0, DataRoots::Anywhere()),
              StatusIs(kInvalid, HasSubstr("there are no images")));
}

TEST_F(ImageFolderTest, NamesWhatDoesNotBelong) {
  EXPECT_THAT(List(), StatusIs(kInvalid, HasSubstr("there are no folders")));
  Write("a/x.gif");
  EXPECT_THAT(List(), StatusIs(kInvalid, HasSubstr("a/x.gif: called neither .png")));
  fs::remove(root_ / "a/x.gif");
  EXPECT_THAT(List(), StatusIs(kInvalid, HasSubstr("/a: there are no images")));
  Write("a/b/c.png");
  EXPECT_THAT(List(), StatusIs(kInvalid, HasSubstr("/a/b: a folder in the folder of a class")));
  Write("x.png");
  EXPECT_THAT(List(), StatusIs(kInvalid, HasSubstr("/x.png: an image beside")));
  source_.set_path("/nowhere");
  EXPECT_THAT(List(), StatusIs(absl::StatusCode::kNotFound, HasSubstr("/nowhere")));
}

TEST_F(ImageFolderTest, ReadsImagesInTheModelsSize) {
  Write("a/x.png", PngFile(4, 2, 1, {10, 20, 30, 40, 50, 60, 70, 80}));
  std::vector<uint8_t> out(3);
  ASSERT_OK(
      ReadImage(root_ / "a/x.png", DataRoots::Anywhere(), std::vector<uint32_t>{3, 1, 1}, out));
  EXPECT_THAT(out, ElementsAre(45, 45, 45));  // (20 + 30 + 60 + 70) / 4
  EXPECT_THAT(ReadImage(root_ / "a", DataRoots::Anywhere(), std::vector<uint32_t>{3, 1, 1}, out),
              StatusIs(kInvalid, HasSubstr("/a: it is a directory")));
  EXPECT_THAT(
      ReadImage(root_ / "b.png", DataRoots::Anywhere(), std::vector<uint32_t>{3, 1, 1}, out),
      StatusIs(absl::StatusCode::kNotFound, HasSubstr("/b.png")));
}

TEST(ImageShapeTest, AsksForOneOrThreeChannels) {
  EXPECT_THAT(*ImageShape(std::vector<uint32_t>{3, 4, 5}), ElementsAre(3, 4, 5));
  EXPECT_THAT(*ImageShape(std::vector<uint32_t>{4, 5}), ElementsAre(1, 4, 5));
  EXPECT_THAT(ImageShape(std::vector<uint32_t>{2, 4, 5}),
              StatusIs(kInvalid, HasSubstr("input_shape is [2, 4, 5]")));
  EXPECT_FALSE(ImageShape(std::vector<uint32_t>{20}).ok());
}

}  // namespace
}  // namespace monsoon
