// Folders of images as data sets.
#include "worker/data/image_folder_reader.h"

#include <filesystem>
#include <fstream>
#include <numeric>

#include "common/data/data_context.h"
#include "common/data/dataset_info.h"
#include "common/data/image/image_test_files.h"
#include "common/data/scan_values.h"
#include "common/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/data/open_dataset.h"
#include "worker/nn/batch.h"

namespace monsoon {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::StatusIs;

class ImageFolderReaderTest : public ::testing::Test {
 protected:
  void SetUp() override {
    root_ = std::filesystem::path(::testing::TempDir()) /
            ::testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::remove_all(root_);
    context_.input_shape = {3, 1, 2};
  }

  void Write(const std::string& name, const std::string& bytes) {
    std::filesystem::create_directories((root_ / name).parent_path());
    std::ofstream(root_ / name, std::ios::binary) << bytes;
  }

  Dataset Folder(const std::string& name) {
    Dataset dataset;
    dataset.mutable_image_folder()->set_path(root_ / name);
    dataset.set_raw(true);
    return dataset;
  }

  std::filesystem::path root_;
  DataContext context_;
};

const std::string& TwoPixels() {
  static const auto* const file = new std::string(PngFile(2, 1, 3, {10, 20, 30, 40, 50, 60}));
  return *file;
}

TEST_F(ImageFolderReaderTest, ATestFoldersClassesAreTheTrainingSetsNames) {
  Write("test/cat/1.png", TwoPixels());
  Write("test/horse/1.png", TwoPixels());
  const Dataset test = Folder("test");
  context_.training.emplace().mutable_cifar10()->set_file("t.bin");
  EXPECT_THAT(OpenDataset(test, context_).status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("class_name: [...] of train says which is which")));
  context_.training->add_class_name("horse");
  context_.training->add_class_name("cat");
  ASSERT_OK_AND_ASSIGN(const DatasetInfo info, DescribeDataset(test, context_));
  EXPECT_THAT(info.class_names, ElementsAre("horse", "cat"));
}

TEST_F(ImageFolderReaderTest, FoldersThatAreNumbersNeedAnOrder) {
  Write("train/10/1.png", TwoPixels());
  Write("train/9/1.png", TwoPixels());
  Dataset train = Folder("train");
  EXPECT_THAT(DescribeDataset(train, context_).status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("/train: nothing says in which order"),
                             HasSubstr("by value [\"9\", \"10\"]"))));
  train.set_class_order(Dataset::BY_VALUE);
  ASSERT_OK_AND_ASSIGN(DatasetInfo info, DescribeDataset(train, context_));
  EXPECT_THAT(info.class_names, ElementsAre("9", "10"));
  train.clear_class_order();
  train.add_class_name("10");
  train.add_class_name("9");
  ASSERT_OK_AND_ASSIGN(info, DescribeDataset(train, context_));
  EXPECT_THAT(info.class_names, ElementsAre("10", "9"));
}

TEST_F(ImageFolderReaderTest, ReadsBytesOfTheModelsSize) {
  Write("train/b/1.png", TwoPixels());
  Write("train/a/1.jpg", JpegFile(16, 8, 1, std::vector<uint8_t>(128, 90)));
  Dataset dataset = Folder("train");
  ASSERT_OK_AND_ASSIGN(const auto source, OpenDataset(dataset, context_));
  EXPECT_EQ(source->examples(), 2u);
  Batch batch(2, source->format());
  ASSERT_OK(source->Gather(std::vector<uint32_t>{1, 0}, &batch));
  EXPECT_THAT(batch.inputs.span(), ElementsAre(10, 40, 20, 50, 30, 60, 90, 90, 90, 90, 90, 90));
  EXPECT_THAT(batch.labels, ElementsAre(1, 0));
  dataset.set_raw(false);
  ASSERT_OK_AND_ASSIGN(const auto divided, OpenDataset(dataset, context_));
  ASSERT_OK(divided->Gather(std::vector<uint32_t>{1}, &batch));
  EXPECT_FLOAT_EQ(batch.inputs.data()[0], 10 / 255.0f);
}

TEST_F(ImageFolderReaderTest, TheTestSetHasTheTrainingSetsClasses) {
  for (const char* const name :
       {"train/a/1.png", "train/b/1.png", "train/c/1.png", "test/c/1.png"}) {
    Write(name, TwoPixels());
  }
  context_.training = Folder("train");
  ASSERT_OK_AND_ASSIGN(const auto source, OpenDataset(Folder("test"), context_));
  Batch batch(1, source->format());
  ASSERT_OK(source->Gather(std::vector<uint32_t>{0}, &batch));
  EXPECT_THAT(batch.labels, ElementsAre(2));
  ASSERT_OK_AND_ASSIGN(const DatasetInfo info, DescribeDataset(Folder("test"), context_));
  EXPECT_EQ(info.examples, 1u);
  EXPECT_EQ(info.classes, 3u);
  EXPECT_THAT(info.class_names, ElementsAre("a", "b", "c"));
  EXPECT_THAT(info.sample_shape, ElementsAre(3, 1, 2));
  Write("test/d/1.png", TwoPixels());
  EXPECT_THAT(DescribeDataset(Folder("test"), context_),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("test/d: the folder is none of the classes a, b, c")));
}

TEST_F(ImageFolderReaderTest, DamagedImagesAreFoundByAScan) {
  Write("a/1.png", TwoPixels());
  Write("a/2.png", TwoPixels().substr(0, 50));
  Write("b/1.jpg", "no image");
  const Dataset dataset = Folder("");
  ASSERT_OK_AND_ASSIGN(const DatasetInfo info, DescribeDataset(dataset, context_));
  const absl::Status scanned = ScanValues(dataset, context_, info);
  EXPECT_THAT(scanned, StatusIs(absl::StatusCode::kDataLoss,
                                AllOf(HasSubstr("2 of 3 images cannot be read, the first"),
                                      HasSubstr("/a/2.png: not a whole PNG file"))));
  EXPECT_THAT(OpenDataset(dataset, context_),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("/a/2.png")));
}

TEST_F(ImageFolderReaderTest, RefusesModelsThatAreNotOfImages) {
  Write("a/1.png", TwoPixels());
  context_.input_shape = {6};
  std::vector<DatasetError> errors;
  EXPECT_FALSE(DescribeDataset(Folder(""), context_, &errors).ok());
  ASSERT_EQ(errors.size(), 1u);
  EXPECT_EQ(errors[0].field, "image_folder");
  EXPECT_THAT(std::string(errors[0].status.message()), HasSubstr("input_shape is [6]"));
}

}  // namespace
}  // namespace monsoon
