// A real worker process with several replicas, and what a worker process says
// about its device.
#include <signal.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/model/parameter_layout.h"
#include "common/model/shard_map.h"
#include "common/process/subprocess.h"
#include "common/testing/socket_folder.h"
#include "common/testing/status_matchers.h"
#include "common/testing/unique_name.h"
#include "coordinator/client/job_client.h"
#include "ps_server/client/parameter_client.h"
#include "tests/cluster/test_cluster.h"
#include "worker/backend/device.h"

namespace monsoon {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::PollUntil;
using testing::SyntheticJob;
using testing::UniqueName;

constexpr absl::Duration kLong = absl::Seconds(60);

class HostProcessTest : public ::testing::Test {
 protected:
  // One ps and one worker with these fields beside its address.
  std::string WriteCluster(const std::string& worker) {
    const std::string name = UniqueName();
    prefix_ = testing::UniqueSocketAddress() + "-";
    const std::string path = absl::StrCat(std::getenv("TEST_TMPDIR"), "/", name, ".textproto");
    std::FILE* file = std::fopen(path.c_str(), "w");
    EXPECT_NE(file, nullptr);
    std::fputs(absl::StrCat("name: \"", name, "\" heartbeat_ms: 100\ncoordinator { address: \"",
                            prefix_, "coordinator\" }\nps { address: \"", prefix_,
                            "ps0\" }\nworker { address: \"", prefix_, "worker0\" ", worker, " }\n")
                   .c_str(),
               file);
    std::fclose(file);
    return path;
  }

  // Forks before this process has a second thread.
  void Launch(const std::string& worker, const std::string& fault = "") {
    const std::string cluster = WriteCluster(worker);
    for (std::vector<std::string> argv :
         std::vector<std::vector<std::string>>{{"./worker/worker", "--task=0", "--fault=" + fault},
                                               {"./ps_server/ps_server", "--task=0"},
                                               {"./coordinator/coordinator", "serve"}}) {
      argv.push_back("--cluster=" + cluster);
      auto process = Subprocess::Start(argv, {.pipe_stdout = false, .pipe_stderr = false});
      ASSERT_OK(process.status());
      processes_.push_back(*std::move(process));
    }
    client_ = JobClient::Create(prefix_ + "coordinator", absl::Seconds(5));
    ASSERT_TRUE(PollUntil(kLong, [&] { return client_->Info().ok(); }));
  }

  void TearDown() override {
    client_.reset();
    for (Subprocess& process : processes_) process.Signal(SIGTERM);
    for (Subprocess& process : processes_) {
      EXPECT_TRUE(PollUntil(absl::Seconds(15), [&] { return process.TryWait().has_value(); }));
      EXPECT_TRUE(process.TryWait().has_value() && process.TryWait()->ok());
    }
  }

  JobDescription Run(const Job& job, std::vector<float>* parameters) {
    SubmitRequest request;
    *request.mutable_job() = job;
    auto reply = client_->Submit(request);
    EXPECT_OK(reply.status());
    absl::StatusOr<JobDescription> description;
    EXPECT_TRUE(PollUntil(kLong, [&] {
      description = client_->Describe(reply->job());
      return description.ok() && description->summary().state() >= SUCCEEDED;
    }));
    EXPECT_OK(Read(reply->job(), parameters));
    return description.value_or(JobDescription());
  }

  absl::Status Read(const std::string& job, std::vector<float>* parameters) {
    auto location = client_->Locate(job);
    RETURN_IF_ERROR(location.status());
    auto layout = ParameterLayout::Create(location->model());
    RETURN_IF_ERROR(layout.status());
    ParameterClientOptions options;
    options.job = location->job();
    options.job_term = location->job_term();
    options.layout_hash = location->layout_hash();
    options.addresses = {location->address().begin(), location->address().end()};
    options.read_only = true;
    auto map = ShardMap::Create(layout->size(), 1, location->max_stripe_bytes());
    RETURN_IF_ERROR(map.status());
    options.map = *map;
    auto client = ParameterClient::Create(std::move(options));
    RETURN_IF_ERROR(client.status());
    parameters->resize(layout->size());
    return (*client)->Fetch(*parameters, nullptr, nullptr);
  }

  std::string prefix_;
  std::vector<Subprocess> processes_;
  std::unique_ptr<JobClient> client_;
};

TEST_F(HostProcessTest, FourReplicasInAProcessFetchOnceAndPushOnceARound) {
  ASSERT_NO_FATAL_FAILURE(Launch("device: CPU replicas: 4"));
  Job job = SyntheticJob(1024, 2);
  job.mutable_downpour()->set_overlap(NONE);
  std::vector<float> parameters;
  const JobDescription end = Run(job, &parameters);
  ASSERT_EQ(end.summary().state(), SUCCEEDED) << end.ShortDebugString();
  EXPECT_EQ(end.counts().steps(), 128u);
  EXPECT_EQ(end.counts().fetches(), 32u);
  EXPECT_EQ(end.counts().pushes(), 32u);
  EXPECT_EQ(end.shard(0).pushes(), 32u);
  EXPECT_EQ(end.shard(0).version_min(), 32u);
  ASSERT_EQ(end.worker_size(), 1);
  EXPECT_EQ(end.worker(0).replicas(), 4u);
  EXPECT_EQ(end.worker(0).device(), "CPU");
  EXPECT_EQ(end.worker(0).pid(), static_cast<uint32_t>(processes_[0].pid()));
  ASSERT_GE(end.evaluation_size(), 1);
  EXPECT_GT(end.evaluation(end.evaluation_size() - 1).test_accuracy(), 0.9);
  std::vector<float> again;
  Run(job, &again);
  EXPECT_EQ(parameters, again);  // whatever the timing of the four
}

TEST_F(HostProcessTest, AWorkerWhoseDeviceBreaksLeavesTheJobAndExits) {
  ASSERT_NO_FATAL_FAILURE(Launch("device: CPU", "break_device_after=20"));
  SubmitRequest request;
  *request.mutable_job() = SyntheticJob(4000, 4);
  ASSERT_OK_AND_ASSIGN(const SubmitReply reply, client_->Submit(request));
  ASSERT_TRUE(PollUntil(kLong, [&] { return processes_[0].TryWait().has_value(); }));
  EXPECT_EQ(processes_[0].TryWait()->Describe(), "exited with code 1");
  processes_.erase(processes_.begin());
  ASSERT_OK_AND_ASSIGN(const JobDescription seen, client_->Describe(reply.job()));
  EXPECT_LT(seen.summary().state(), SUCCEEDED);  // it waits for another worker
  bool told = false;
  for (const auto& event : seen.event()) {
    if (event.kind() != "worker_failed") continue;
    told = true;
    EXPECT_THAT(event.text(), AllOf(HasSubstr("worker/0"), HasSubstr("the device broke")));
  }
  EXPECT_TRUE(told) << seen.ShortDebugString();
  EXPECT_OK(client_->Cancel(reply.job()).status());
}

TEST_F(HostProcessTest, CudaWithoutAGpuEndsAtTheStart) {
  if (CudaDeviceCount() > 0) GTEST_SKIP() << "this machine has a GPU";
  auto process = Subprocess::Start(
      {"./worker/worker", "--task=0", "--cluster=" + WriteCluster("device: CUDA")},
      {.pipe_stdout = false, .pipe_stderr = true});
  ASSERT_OK(process.status());
  ASSERT_TRUE(PollUntil(kLong, [&] { return process->TryWait().has_value(); }));
  std::string said;
  ReadAvailable(process->stderr_fd(), &said);
  EXPECT_THAT(said, AllOf(HasSubstr("worker/0"), HasSubstr("CUDA")));
  EXPECT_EQ(process->TryWait()->code, 2);
}

}  // namespace
}  // namespace monsoon
