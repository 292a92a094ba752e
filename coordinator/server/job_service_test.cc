// Who is told of which job.
#include "coordinator/server/job_service.h"

#include <string>

#include "common/security/caller.h"
#include "common/security/identity.h"
#include "common/testing/status_matchers.h"
#include "common/transport/frame/fault.h"
#include "common/transport/grpc/call_table.h"
#include "coordinator/server/coordinator_fixture.h"
#include "gmock/gmock.h"
#include "proto/coordinator.pb.h"

namespace monsoon {
namespace {

using ::monsoon::testing::CoordinatorTest;
using ::monsoon::testing::StatusIs;
using ::testing::HasSubstr;

class JobServiceTest : public CoordinatorTest {
 protected:
  JobServiceTest() { AddJobCalls(coordinator_.get(), "alpha:2221", &faults_, &calls_); }

  static Caller ThereFor(const std::string& job) {
    Caller caller = {.address = "ipv4:10.0.0.5:1", .member = Peer()};
    caller.member->identity = {Role::kWorker, "7", "c", job};
    return caller;
  }
  template <typename Reply, typename Request>
  absl::StatusOr<Reply> Call(const std::string& name, const Caller& caller,
                             const Request& request) {
    for (const CallTable::Call& call : calls_.calls()) {
      if (call.method == "/monsoon.JobService/" + name) {
        const absl::StatusOr<std::string> bytes = call.serve(caller, request.SerializeAsString());
        Reply reply;
        EXPECT_TRUE(!bytes.ok() || reply.ParseFromString(*bytes));
        return bytes.ok() ? absl::StatusOr<Reply>(reply) : bytes.status();
      }
    }
    return absl::NotFoundError(name);
  }
  absl::Status Ask(const Caller& caller, const std::string& job) {
    JobRequest request;
    request.set_job(job);
    const absl::Status described = Call<JobDescription>("Describe", caller, request).status();
    EXPECT_EQ(Call<JobLocation>("Locate", caller, request).ok(), described.ok()) << described;
    return described;
  }

  FaultInjector faults_{FaultOptions()};
  CallTable calls_;
};

TEST_F(JobServiceTest, WhoIsThereForOneJobIsToldOfThatAlone) {
  ASSERT_EQ(Submit(), "small-1");
  ASSERT_TRUE(Await([this] { return coordinator_->Locate("small-1").ok(); }));
  for (const std::string name : {"small-1", "latest"}) {
    EXPECT_OK(Ask(ThereFor(""), name)) << name;
    EXPECT_OK(Ask(ThereFor("small-1"), name)) << name;
    EXPECT_THAT(Ask(ThereFor("small-2"), name),
                StatusIs(absl::StatusCode::kPermissionDenied,
                         HasSubstr("worker/7 has joined for job small-2 alone")));
  }
  const auto listed = [this](const std::string& job) {
    const absl::StatusOr<ListReply> list = Call<ListReply>("List", ThereFor(job), ListRequest());
    EXPECT_OK(list.status());
    EXPECT_EQ(list.ok() ? list->open_at() : "", "alpha:2221");
    return list.ok() ? list->job_size() : -1;
  };
  EXPECT_EQ(listed(""), 1);
  EXPECT_EQ(listed("small-1"), 1);
  EXPECT_EQ(listed("small-2"), 0);
}

}  // namespace
}  // namespace monsoon
