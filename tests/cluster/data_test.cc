// Workers that read other data than the rest: the file was replaced between two
// workers' starts.
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/testing/status_matchers.h"
#include "tests/cluster/test_cluster.h"

namespace monsoon {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::SyntheticJob;
using testing::TestCluster;
using testing::UniqueName;

constexpr uint32_t kExamples = 320;
constexpr uint32_t kPixels = 40;

// IDX: magic with the number of dimensions, the dimensions, the bytes. Replaces
// the file as a whole.
void WriteIdx(const std::string& path, const std::vector<uint32_t>& shape, uint32_t factor,
              uint32_t modulo) {
  std::string bytes = {0, 0, 8, static_cast<char>(shape.size())};
  uint32_t count = 1;
  for (const uint32_t extent : shape) {
    for (const int shift : {24, 16, 8, 0}) bytes.push_back(static_cast<char>(extent >> shift));
    count *= extent;
  }
  for (uint32_t i = 0; i < count; ++i) {
    bytes.push_back(static_cast<char>(i * factor % modulo));
  }
  std::ofstream(path + ".new", std::ios::binary) << bytes;
  ASSERT_EQ(std::rename((path + ".new").c_str(), path.c_str()), 0);
}

class DataTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::string prefix = absl::StrCat(std::getenv("TEST_TMPDIR"), "/", UniqueName());
    images_ = prefix + "-images";
    labels_ = prefix + "-labels";
    WriteImages(7);
    WriteIdx(labels_, {kExamples}, 1, 5);
  }

  void WriteImages(uint32_t factor) { WriteIdx(images_, {kExamples, 1, kPixels}, factor, 251); }

  Job IdxJob() const {
    Job job = SyntheticJob(0, 0);
    job.mutable_train()->mutable_idx()->set_images(images_);
    job.mutable_train()->mutable_idx()->set_labels(labels_);
    job.mutable_stop()->clear_epochs();
    job.mutable_stop()->set_seconds(300);
    return job;
  }

  static uint64_t Steps(const JobDescription& description, uint32_t task) {
    for (const auto& worker : description.worker()) {
      if (worker.task() == task) return worker.steps();
    }
    return 0;
  }

  static std::string EventText(const JobDescription& description, const std::string& kind,
                               const std::string& task) {
    for (const auto& event : description.event()) {
      if (event.kind() == kind && event.task() == task) return event.text();
    }
    return "";
  }

  std::string images_;
  std::string labels_;
};

TEST_F(DataTest, AWorkerWithOtherDataIsRefusedByNameAndTheJobGoesOn) {
  TestCluster cluster({.shards = 1, .workers = 2, .started_workers = 1});
  ASSERT_OK(cluster.Start());
  ASSERT_OK_AND_ASSIGN(const std::string id, cluster.Submit(IdxJob()));
  ASSERT_OK(cluster.Await(id, [](const auto& d) { return Steps(d, 0) > 20; }).status());
  WriteImages(11);
  ASSERT_OK(cluster.StartWorker(1));
  ASSERT_OK_AND_ASSIGN(const JobDescription refused, cluster.Await(id, [](const auto& d) {
    return !EventText(d, "worker_refused", "worker/1").empty();
  }));
  EXPECT_THAT(
      EventText(refused, "worker_refused", "worker/1"),
      AllOf(HasSubstr("worker/1 reads other data than the job's first replica: fingerprint"),
            HasSubstr(images_)));
  // The first one trains on, alone.
  const uint64_t before = Steps(refused, 0);
  ASSERT_OK_AND_ASSIGN(const JobDescription later, cluster.Await(id, [before](const auto& d) {
    return Steps(d, 0) > before + 100;
  }));
  EXPECT_EQ(later.summary().state(), RUNNING);
  EXPECT_EQ(Steps(later, 1), 0u);
  ASSERT_OK(cluster.client()->Cancel(id).status());
  ASSERT_OK(cluster.AwaitEnd(id).status());

  // Both see the same again: the first notices that the file was replaced. No end of
  // its own: one worker alone would be through before the other has opened a session.
  ASSERT_OK_AND_ASSIGN(const std::string second, cluster.Submit(IdxJob()));
  ASSERT_OK_AND_ASSIGN(const JobDescription both, cluster.Await(second, [](const auto& d) {
    return d.summary().state() > RUNNING || (Steps(d, 0) > 0 && Steps(d, 1) > 0);
  }));
  EXPECT_EQ(both.summary().state(), RUNNING) << both.summary().reason();
  EXPECT_EQ(EventText(both, "worker_refused", "worker/0"), "");
  EXPECT_EQ(EventText(both, "worker_refused", "worker/1"), "");
}

TEST_F(DataTest, WithNobodyElseTheJobFailsAndSaysWhy) {
  TestCluster cluster({.shards = 1, .workers = 1});
  ASSERT_OK(cluster.Start());
  ASSERT_OK_AND_ASSIGN(const std::string id, cluster.Submit(IdxJob()));
  ASSERT_OK(cluster.Await(id, [](const auto& d) { return Steps(d, 0) > 20; }).status());
  cluster.DrainWorker(0);
  WriteImages(11);
  ASSERT_OK(cluster.StartWorker(0));
  ASSERT_OK_AND_ASSIGN(const JobDescription end, cluster.AwaitEnd(id));
  EXPECT_EQ(end.summary().state(), FAILED);
  EXPECT_THAT(end.summary().reason(), HasSubstr("worker/0 reads other data"));
}

TEST_F(DataTest, AFileThatCannotBeReadFailsTheJobByName) {
  TestCluster cluster({.shards = 1, .workers = 2, .started_workers = 0});
  ASSERT_OK(cluster.Start());
  ASSERT_OK_AND_ASSIGN(const std::string id, cluster.Submit(IdxJob()));
  ASSERT_EQ(std::remove(images_.c_str()), 0);
  ASSERT_OK(cluster.StartWorker(1));
  ASSERT_OK_AND_ASSIGN(const JobDescription end, cluster.AwaitEnd(id));
  EXPECT_EQ(end.summary().state(), FAILED);
  EXPECT_THAT(end.summary().reason(),
              AllOf(HasSubstr("data: worker/1"), HasSubstr(images_ + ": ")));
}

}  // namespace
}  // namespace monsoon
