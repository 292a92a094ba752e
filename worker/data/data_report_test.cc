#include "worker/data/data_report.h"

#include <filesystem>
#include <fstream>
#include <string>

#include "common/data/access/data_access.h"
#include "common/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/downpour.pb.h"
#include "proto/optimizer.pb.h"

namespace monsoon {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

// A folder of its own that stands for a machine's disk, with a table of two features.
class Disk {
 public:
  explicit Disk(const std::string& name) : folder_(::testing::TempDir() + "/data_report_" + name) {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  std::string Path(const std::string& name) const { return folder_ + "/" + name; }
  void Write(const std::string& name, const std::string& text) {
    std::ofstream(Path(name)) << text;
  }
  // Classifies the rows of table.csv.
  Job TableJob() const {
    Job job;
    job.set_name("table");
    job.mutable_model()->set_name("m");
    job.mutable_model()->add_input_shape(2);
    job.mutable_model()->add_layer()->mutable_dense()->set_units(2);
    job.mutable_train()->mutable_csv()->set_file(Path("table.csv"));
    job.mutable_train()->mutable_csv()->set_label("kind");
    job.set_batch_size(2);
    job.set_block_examples(2);
    job.mutable_downpour()->mutable_optimizer()->mutable_sgd()->set_rate(0.1);
    job.mutable_stop()->set_epochs(1);
    return job;
  }

 private:
  const std::string folder_;
};

constexpr char kTable[] = "a,b,kind\n1,2,cat\n3,4,dog\n5,6,cat\n";

TEST(ReportDataTest, TellsWhatIsInTheFiles) {
  Disk disk("there");
  disk.Write("table.csv", kTable);
  const DataReport report = ReportData(disk.TableJob(), DataAccess::Own());
  EXPECT_THAT(report.error(), IsEmpty()) << report.ShortDebugString();
  EXPECT_EQ(report.train().examples(), 3u);
  EXPECT_EQ(report.train().classes(), 2u);
  EXPECT_FALSE(report.has_test());
}

TEST(ReportDataTest, TellsAFileThatIsNotThere) {
  const DataReport report = ReportData(Disk("empty").TableJob(), DataAccess::Own());
  ASSERT_EQ(report.error_size(), 1);
  EXPECT_EQ(report.error(0).field(), "train.csv.file");
  EXPECT_THAT(report.error(0).message(), HasSubstr("table.csv"));
  EXPECT_FALSE(report.has_train());
}

TEST(ReportDataTest, HoldsTheDataAgainstModelAndBatch) {
  Disk disk("unfit");
  disk.Write("table.csv", kTable);
  Job job = disk.TableJob();
  job.set_batch_size(4);
  job.set_block_examples(4);
  job.mutable_model()->set_input_shape(0, 3);
  const DataReport report = ReportData(job, DataAccess::Own());
  ASSERT_EQ(report.error_size(), 2) << report.ShortDebugString();
}

TEST(ReportDataTest, EqualFilesInOtherFoldersAreEqual) {
  Disk one("one"), two("two"), three("three"), four("four");
  one.Write("table.csv", kTable);
  two.Write("table.csv", kTable);
  three.Write("table.csv", "a,b,kind\n1,2,cat\n3,4,dog\n5,7,cat\n");
  four.Write("table.csv", "a,b,kind\n1,2,cat\n3,4,cow\n5,6,cat\n");
  const DataSetSeen seen = ReportData(one.TableJob(), DataAccess::Own()).train();
  const DataSetSeen same = ReportData(two.TableJob(), DataAccess::Own()).train();
  EXPECT_EQ(seen.description(), same.description());
  EXPECT_EQ(seen.content(), same.content());
  const DataSetSeen other_value = ReportData(three.TableJob(), DataAccess::Own()).train();
  EXPECT_EQ(seen.description(), other_value.description());
  EXPECT_NE(seen.content(), other_value.content());
  EXPECT_NE(seen.description(),
            ReportData(four.TableJob(), DataAccess::Own()).train().description());
}

TEST(ReportDataTest, WarnsOfWhatOnlyTheFilesTell) {
  Disk disk("index");
  disk.Write("table.csv", "Unnamed: 0,b,kind\n1,2,cat\n3,4,dog\n5,6,cat\n");
  const DataReport report = ReportData(disk.TableJob(), DataAccess::Own());
  EXPECT_THAT(report.error(), IsEmpty()) << report.ShortDebugString();
  ASSERT_EQ(report.warning_size(), 1);
  EXPECT_THAT(report.warning(0).message(), HasSubstr("Unnamed: 0"));
}

}  // namespace
}  // namespace monsoon
