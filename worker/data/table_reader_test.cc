// CSV and LibSVM files as data sets, beside their training sets.
#include "worker/data/table_reader.h"

#include <filesystem>
#include <fstream>
#include <numeric>

#include "common/base/check.h"
#include "common/data/access/data_access.h"
#include "common/data/data_context.h"
#include "common/data/dataset_info.h"
#include "common/data/scan_values.h"
#include "common/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "proto/job.pb.h"
#include "worker/data/in_memory_dataset.h"
#include "worker/data/job_data.h"
#include "worker/data/open_dataset.h"
#include "worker/nn/batch.h"

namespace monsoon {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::StatusIs;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

class TableReaderTest : public ::testing::Test {
 protected:
  // Into a folder that `Parse` replaces @ by.
  void Write(const std::string& name, const std::string& text) {
    std::ofstream(folder_ / name, std::ios::binary) << text;
  }

  Job Parse(std::string text) {
    for (size_t at = 0; (at = text.find('@')) != std::string::npos;) {
      text.replace(at, 1, folder_.string() + "/");
    }
    Job job;
    CHECK(google::protobuf::TextFormat::ParseFromString(text, &job));
    return job;
  }

  static std::vector<float> Values(const DataSource& source, Batch* batch) {
    *batch = Batch(source.examples(), source.format());
    std::vector<uint32_t> all(source.examples());
    std::iota(all.begin(), all.end(), 0u);
    EXPECT_OK(source.Gather(all, batch));
    return {batch->inputs.span().begin(), batch->inputs.span().end()};
  }

  const std::filesystem::path folder_ = ::testing::TempDir();
  Batch batch_;
};

TEST_F(TableReaderTest, CsvAndLibsvmAndArraysAreTheSame) {
  Write("t.csv", "a,kind,b\n0.1,1,-2\n0,0,3e5\n");
  Write("t.svm", "1 1:0.1 2:-2\n0 2:3e5 # last\n");
  const Job job = Parse(
      "model { input_shape: 2 } train { csv { file: '@t.csv' label: 'kind' } scale: 2 }"
      "test { libsvm { file: '@t.svm' } scale: 2 }");
  ASSERT_OK_AND_ASSIGN(const JobData data, OpenJobData(job, OpenerFor(), DataAccess::Own()));
  EXPECT_EQ(data.train->Fingerprint(), data.test->Fingerprint());
  EXPECT_EQ(data.train->Fingerprint(),
            InMemoryDataset({}, {0.1f, -2.0f, 0.0f, 3e5f}, std::vector<uint32_t>{1, 0},
                            {.mean = 0, .scale = 2})
                .Fingerprint());
  EXPECT_THAT(Values(*data.train, &batch_), ElementsAre(0.2f, -4.0f, 0.0f, 6e5f));
  EXPECT_THAT(batch_.labels, ElementsAre(1, 0));
}

TEST_F(TableReaderTest, TheTestSetHasTheTrainingSetsClassesColumnsAndMeans) {
  Write("train.csv", "x,y,kind\n1,10,pear\n3,,apple\n");
  Write("test.csv", "kind,y,x\npear,,5\npear,7,\n");
  const std::string text =
      "model { input_shape: 2 } "
      "train { csv { file: '@train.csv' label: 'kind' missing_mean: true } } "
      "test { csv { file: '@test.csv' label: 'kind' missing_mean: true } } ";
  ASSERT_OK_AND_ASSIGN(JobData data, OpenJobData(Parse(text), OpenerFor(), DataAccess::Own()));
  EXPECT_THAT(Values(*data.test, &batch_), ElementsAre(5, 10, 2, 7));
  EXPECT_THAT(batch_.labels, ElementsAre(1, 1));
  // (1, 3) has mean 2 and deviation 1; y is 10 in both.
  ASSERT_OK_AND_ASSIGN(const auto scaled, OpenTestData(Parse(text + "standardise: true"),
                                                       OpenerFor(), DataAccess::Own()));
  EXPECT_THAT(Values(*scaled, &batch_), ElementsAre(3, 0, 0, 0));
  Write("test.csv", "kind,y,x\npear,1,5\nplum,7,1\n");
  EXPECT_THAT(OpenJobData(Parse(text), OpenerFor(), DataAccess::Own()),
              StatusIs(kInvalid, HasSubstr("test.csv:3: column \"kind\": \"plum\" is none of")));
}

// Whatever source the training set is of.
TEST_F(TableReaderTest, WordsOfATestSetAreNumberedByTheTrainingSetsNames) {
  Write("train.svm", "0 1:1\n1 1:2\n");
  Write("test.csv", "x,kind\n1,horse\n2,cat\n");
  const std::string test = "test { csv { file: '@test.csv' label: 'kind' } }";
  const Job named = Parse(
      "model { input_shape: 1 } train { libsvm { file: '@train.svm' } "
      "class_name: 'horse' class_name: 'cat' } " +
      test);
  ASSERT_OK_AND_ASSIGN(const auto source, OpenTestData(named, OpenerFor(), DataAccess::Own()));
  Values(*source, &batch_);
  EXPECT_THAT(batch_.labels, ElementsAre(0, 1));
  ASSERT_OK_AND_ASSIGN(const DatasetInfo info,
                       DescribeDataset(named.test(), TestContext(named, DataAccess::Own())));
  EXPECT_THAT(info.class_names, ElementsAre("horse", "cat"));
  // Nobody says which number a word is.
  const Job bare =
      Parse("model { input_shape: 1 } train { libsvm { file: '@train.svm' } } " + test);
  EXPECT_THAT(OpenTestData(bare, OpenerFor(), DataAccess::Own()),
              StatusIs(kInvalid, HasSubstr("\"horse\" is no class: the training set's labels are "
                                           "whole numbers")));
  Job other = named;
  other.mutable_test()->add_class_name("cat");
  other.mutable_test()->add_class_name("horse");
  EXPECT_THAT(OpenTestData(other, OpenerFor(), DataAccess::Own()),
              StatusIs(kInvalid, HasSubstr("class_name differs from the training set's classes "
                                           "horse, cat")));
}

TEST_F(TableReaderTest, WhatIsNoIdAndNoShareIsToldByItsLine) {
  Write("t.csv", "x,y\n3,0.5\n1,1\n");
  const Job job = Parse("train { csv { file: '@t.csv' target: 'y' } }");
  const Job sparse = Parse("train { libsvm { file: '@t.svm' regression: true } }");
  const DataContext any = {.input_shape = {1}};
  const DataContext ids = {.input_shape = {1}, .id_limit = 3};
  const DataContext shares = {.input_shape = {1}, .id_limit = 4, .targets_are_shares = true};
  const auto describe = [](const Job& of, const DataContext& context) {
    return DescribeDataset(of.train(), context).status();
  };
  EXPECT_OK(describe(job, any));
  EXPECT_OK(describe(job, shares));
  EXPECT_THAT(describe(job, ids),
              StatusIs(kInvalid, HasSubstr("t.csv:2: column \"x\": 3 is not a whole number from 0 "
                                           "and below the embedding's 3 rows")));
  Write("t.csv", "x,y\n3,0.5\n1,1.5\n");
  EXPECT_OK(describe(job, any));
  EXPECT_THAT(describe(job, shares),
              StatusIs(kInvalid, HasSubstr("t.csv:3: column \"y\": 1.5 is outside [0, 1]")));
  Write("t.svm", "0.5 1:3\n1.5 1:2\n");
  EXPECT_OK(describe(sparse, any));
  EXPECT_THAT(describe(sparse, ids),
              StatusIs(kInvalid, HasSubstr("t.svm:1: feature 1: 3 is not a whole number")));
  EXPECT_THAT(describe(sparse, shares),
              StatusIs(kInvalid, HasSubstr("t.svm:2: target 1.5 is outside [0, 1]")));
  DataContext unlabelled = shares;
  unlabelled.unlabelled = true;
  EXPECT_OK(describe(sparse, unlabelled));
  // What stands in for an empty field is an id too.
  Write("t.csv", "x,y\n3,0.5\n,1\n");
  Job filled = Parse("train { csv { file: '@t.csv' target: 'y' missing_mean: true } }");
  EXPECT_THAT(describe(filled, shares),
              StatusIs(kInvalid, HasSubstr("t.csv:3: column \"x\": the field is empty, and a mean "
                                           "is no id")));
  filled = Parse("train { csv { file: '@t.csv' target: 'y' missing_value: 9 } }");
  EXPECT_THAT(describe(filled, shares),
              StatusIs(kInvalid, HasSubstr("t.csv:3: column \"x\": 9 is not a whole number")));
}

TEST_F(TableReaderTest, TargetsAndWeights) {
  Write("t.csv", "x,y,z,w\n1,10,100,0.5\n2,20,200,2\n");
  const Job job = Parse(
      "model { input_shape: 1 } "
      "train { csv { file: '@t.csv' target: 'z' target: 'y' weight: 'w' } }");
  ASSERT_OK_AND_ASSIGN(const auto source,
                       OpenDataset(job.train(), TrainingContext(job, DataAccess::Own())));
  EXPECT_EQ(source->format(),
            (SampleFormat{.values = 1, .labels = 0, .targets = 2, .weighted = true}));
  EXPECT_THAT(Values(*source, &batch_), ElementsAre(1, 2));
  EXPECT_THAT(batch_.targets.span(), ElementsAre(100, 10, 200, 20));
  EXPECT_THAT(batch_.weights.span(), ElementsAre(0.5f, 2.0f));
}

TEST_F(TableReaderTest, LibsvmOfARegressionHasATarget) {
  Write("t.svm", "-1.5 2:4\n");
  const Job job = Parse(
      "model { input_shape: 3 } train { libsvm { file: '@t.svm' "
      "regression: true } }");
  ASSERT_OK_AND_ASSIGN(const auto source,
                       OpenDataset(job.train(), TrainingContext(job, DataAccess::Own())));
  EXPECT_THAT(Values(*source, &batch_), ElementsAre(0, 4, 0));
  EXPECT_THAT(batch_.targets.span(), ElementsAre(-1.5f));
}

TEST_F(TableReaderTest, SamplesToPredictForNeedNoLabel) {
  Write("train.csv", "x,kind\n1,a\n3,b\n");
  Write("new.csv", "x\n7\n");
  const Job job = Parse(
      "model { input_shape: 1 } train { csv { file: '@train.csv' label: 'kind' } }"
      "test { csv { file: '@new.csv' label: 'kind' } }");
  EXPECT_FALSE(OpenTestData(job, OpenerFor(), DataAccess::Own()).ok());
  ASSERT_OK_AND_ASSIGN(const auto source,
                       OpenTestData(job, OpenerFor(), DataAccess::Own(), /*unlabelled=*/true));
  EXPECT_THAT(Values(*source, &batch_), ElementsAre(7));
  EXPECT_THAT(batch_.labels, ElementsAre(0));
}

TEST_F(TableReaderTest, DescribesWithoutKeepingValues) {
  Write("t.csv", "x,y,kind\n1,2,no\n3,4,yes\n5,6,no\n");
  const Job job = Parse("model { input_shape: 2 } train { csv { file: '@t.csv' label: 'kind' } }");
  ASSERT_OK_AND_ASSIGN(const DatasetInfo info,
                       DescribeDataset(job.train(), TrainingContext(job, DataAccess::Own())));
  EXPECT_EQ(info.examples, 3u);
  EXPECT_THAT(info.sample_shape, ElementsAre(2));
  EXPECT_EQ(info.classes, 2u);
  EXPECT_THAT(info.class_names, ElementsAre("no", "yes"));
  EXPECT_EQ(info.bytes, 24u);
}

TEST_F(TableReaderTest, SaysWhatIsMissing) {
  Write("t.csv", "x,y\n1,2\n");
  const std::pair<const char*, const char*> cases[] = {
      {"csv { file: '@t.csv' }", "csv.label: is not set"},
      {"csv { label: 'y' }", "csv.file: no file is named"},
      {"csv { file: '@t.csv' label: 'y' target: 'x' }", "csv.target: there is a label too"},
      {"csv { file: '@t.csv' label: 'y' delimiter: ', ' }", "csv.delimiter: must be one character"},
      {"csv { file: '@t.csv' label: 'y' } residence: ON_DISK", "residence: text does not say"},
      {"csv { file: '@*.none' label: 'y' }", "*.none"},
      {"csv { file: '@t.csv' label: 'y' }", "(1 values), the model's input_shape is [2]"},
      {"libsvm { }", "libsvm.file: no file is named"},
  };
  for (const auto& [source, message] : cases) {
    const Job job = Parse(std::string("model { input_shape: 2 } train { ") + source + " }");
    const auto opened = OpenDataset(job.train(), TrainingContext(job, DataAccess::Own()));
    ASSERT_FALSE(opened.ok()) << source;
    EXPECT_THAT(std::string(opened.status().message()), HasSubstr(message)) << source;
  }
}

}  // namespace
}  // namespace monsoon
