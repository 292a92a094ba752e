// That a worker's messages about data files hold nothing of what stands in them, and that no source
// opens a file but below the roots.
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/data/access/data_access.h"
#include "common/data/data_context.h"
#include "common/data/dataset_info.h"
#include "common/data/first_ranges.h"
#include "common/data/scan_values.h"
#include "common/data/test_files.h"
#include "common/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/dataset.pb.h"

namespace monsoon {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

DataContext ContextOf(const DataAccess& access) {
  return {.input_shape = {2}, .id_limit = 5, .access = access};
}

// All that is said of a data set; each way in is tried, whatever the others say.
std::string SaidOf(const Dataset& dataset, const DataContext& context) {
  std::vector<DatasetError> errors;
  std::string said;
  const auto info = DescribeDataset(dataset, context, &errors);
  for (const DatasetError& error : errors) {
    absl::StrAppend(&said, error.status.message(), "\n");
  }
  const DatasetInfo all = info.value_or(DatasetInfo{.examples = 1, .sample_shape = {2}});
  absl::StrAppend(&said, CountClasses(dataset, context).status().message(), "\n",
                  ScanValues(dataset, context, all).message(), "\n",
                  FirstRanges(dataset, context, all, 10).status().message(), "\n");
  return said;
}

// Each source, told to read `path`. A new one needs a row here.
std::vector<Dataset> SourcesOf(const std::string& path) {
  std::vector<Dataset> sources;
  const auto add = [&](const std::function<void(Dataset*)>& set) { set(&sources.emplace_back()); };
  add([&](Dataset* set) {
    set->mutable_idx()->set_images(path);
    set->mutable_idx()->set_labels(path);
  });
  add([&](Dataset* set) {
    set->mutable_npy()->set_images(path);
    set->mutable_npy()->set_labels(path);
  });
  add([&](Dataset* set) { set->mutable_npz()->set_file(path); });
  add([&](Dataset* set) { set->mutable_cifar10()->set_file(path); });
  add([&](Dataset* set) { set->mutable_text()->set_file(path); });
  add([&](Dataset* set) { set->mutable_image_folder()->set_path(path); });
  for (const bool regression : {false, true}) {
    add([&](Dataset* set) {
      set->mutable_libsvm()->set_file(path);
      set->mutable_libsvm()->set_features(2);
      set->mutable_libsvm()->set_regression(regression);
    });
  }
  // Column names as a guess at the first line, and separators as of other files.
  for (const char* const delimiter : {"", ":", " "}) {
    for (const char* const label : {"label", "root", "0"}) {
      add([&](Dataset* set) {
        set->mutable_csv()->set_file(path);
        set->mutable_csv()->set_label(label);
        set->mutable_csv()->set_delimiter(delimiter);
      });
      add([&](Dataset* set) {
        set->mutable_csv()->set_file(path);
        set->mutable_csv()->add_target(label);
        set->mutable_csv()->set_delimiter(delimiter);
      });
    }
  }
  return sources;
}

// A directory of one member without content, as of another kind of archive.
std::string ZipOf(const std::string& name) {
  const auto number = [](size_t value, int bytes) {
    std::string text;
    for (int i = 0; i < bytes; ++i) {
      text.push_back(static_cast<char>(value >> (8 * i) & 0xff));
    }
    return text;
  };
  const std::string entry =
      "PK\1\2" + std::string(24, '\0') + number(name.size(), 2) + std::string(16, '\0') + name;
  return entry + "PK\5\6" + std::string(4, '\0') + number(1, 2) + number(1, 2) +
         number(entry.size(), 4) + number(0, 4) + number(0, 2);
}

// Secrets are words that no message has by itself.
TEST(ContentTest, MessagesToOthersHoldNoContent) {
  const DataFolder folder;
  const std::string password = "$6$Xyzzy$Plugh4711";
  const std::vector<std::string> files = {
      absl::StrCat("root:", password, ":19000:0\nbin:Xyzzy:18000:4711\n"),
      absl::StrCat("label,", password, "\nXyzzy,4711.5\n"),
      absl::StrCat("0,", password, "\n0,Plugh\n1,4711\n"),
      absl::StrCat("label,a,a\n", password, ",1,2\n"),
      absl::StrCat("label,", password, ",", password, "\n0,1,2\n"),
      "label,a,b\n0,1,4711\n",
      "label,a,b\n0,1,Plugh\n",
      "label,a,b\n0,1,Xyzzy:4711\n",
      "label,a\n0,4711e99\n",
      absl::StrCat(password, " 1:1\n"),
      absl::StrCat("0 ", password, ":1\n"),
      "0 1:4711 Xyzzy\n",
      "0 4711:1\n",
      "0 2:1 1:4711\n",
      "4711.5 1:1\n",
      "0 1:Plugh\n",
      "-1 1:1\n4711 1:1\n",
      absl::StrCat(password, std::string(40, 'x')),
      std::string(3073, 'G'),                 // 71 as a label of CIFAR-10
      std::string("\0\0Xyzzy4711", 11),       // nearly IDX
      std::string("\x93NUMPYXyzzy4711", 16),  // nearly .npy
      std::string("PK\3\4Xyzzy4711", 13),
      ZipOf("Xyzzy.docx"),
  };
  for (size_t i = 0; i < files.size(); ++i) {
    const std::string path = folder.Write(absl::StrCat("file", i), files[i]);
    for (const Dataset& dataset : SourcesOf(path)) {
      const std::string said =
          SaidOf(dataset, ContextOf(DataAccess::ForJobs(DataRoots::Anywhere())));
      for (const char* const secret :
           {"Xyzzy", "Plugh", "4711", "$6$", " 71", "58797a", "47474747"}) {
        EXPECT_FALSE(absl::StrContains(said, secret))
            << secret << " of file " << i << " in " << said << dataset.ShortDebugString();
      }
    }
  }
}

TEST(ContentTest, TheUsersOwnProcessQuotes) {
  const DataFolder folder;
  Dataset dataset;
  dataset.mutable_csv()->set_label("label");
  dataset.mutable_csv()->set_file(folder.Write("a.csv", "label,age\n0,Xyzzy\n"));
  EXPECT_THAT(SaidOf(dataset, ContextOf(DataAccess::Own())),
              HasSubstr(":2: column \"age\": \"Xyzzy\" is not a number"));
  EXPECT_THAT(SaidOf(dataset, ContextOf(DataAccess::ForJobs(DataRoots::Anywhere()))),
              HasSubstr(":2: column 2: a text of 5 letters is not a number"));
  // A name that the job has written is no secret.
  dataset.mutable_csv()->add_feature("age");
  EXPECT_THAT(SaidOf(dataset, ContextOf(DataAccess::ForJobs(DataRoots::Anywhere()))),
              HasSubstr(":2: column \"age\": a text of 5 letters is not a number"));
}

TEST(ContentTest, NumbersOfArraysAreNotTold) {
  const DataFolder folder;
  Dataset dataset;
  dataset.mutable_npy()->set_images(
      folder.Write("x.npy", NpyBytes("<i4", "1, 2", Raw(std::vector<int32_t>{4711, 1}))));
  dataset.mutable_npy()->set_labels(
      folder.Write("y.npy", NpyBytes("<i4", "1", Raw(std::vector<int32_t>{-4711}))));
  EXPECT_THAT(SaidOf(dataset, ContextOf(DataAccess::Own())),
              AllOf(HasSubstr("id 4711 of sample 0"), HasSubstr("label -4711 of sample 0")));
  EXPECT_THAT(
      SaidOf(dataset, ContextOf(DataAccess::ForJobs(DataRoots::Anywhere()))),
      AllOf(Not(HasSubstr("4711")), HasSubstr("id of sample 0"), HasSubstr("label of sample 0")));
}

// A source that opened a file by itself would say something else of it.
TEST(ContentTest, NoSourceOpensAFileOutsideTheRoots) {
  const DataFolder folder;
  std::filesystem::create_directories(folder.Path("roots"));
  const std::string outside = folder.Write("outside", "label,a,b\n0,1,2\n");
  const std::string link = folder.Path("roots/link");
  std::filesystem::create_symlink("../outside", link);
  ASSERT_OK_AND_ASSIGN(const DataRoots roots,
                       DataRoots::Below({std::filesystem::canonical(folder.Path("roots"))}));
  const DataContext context = ContextOf(DataAccess::ForJobs(roots));
  size_t kinds = 0;
  for (const std::string& path : {outside, link, folder.Path("roots/../out*")}) {
    Dataset::SourceCase last = Dataset::SOURCE_NOT_SET;
    for (const Dataset& dataset : SourcesOf(path)) {
      EXPECT_THAT(SaidOf(dataset, context), HasSubstr("--data=DIR")) << dataset.ShortDebugString();
      kinds += dataset.source_case() != last ? 1 : 0;
      last = dataset.source_case();
    }
  }
  // Those of proto/dataset.proto that name files.
  size_t with_files = 0;
  const auto* const source = Dataset::descriptor()->FindOneofByName("source");
  for (int i = 0; i < source->field_count(); ++i) {
    Dataset dataset;
    dataset.GetReflection()->MutableMessage(&dataset, source->field(i));
    with_files += HasFiles(dataset) ? 1 : 0;
  }
  EXPECT_EQ(kinds, 3 * with_files);
}

}  // namespace
}  // namespace monsoon
