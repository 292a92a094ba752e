// Who is told of which job, and whose share of the list one takes.
#include "coordinator/server/job_service.h"

#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/security/caller.h"
#include "common/security/identity.h"
#include "common/testing/status_matchers.h"
#include "common/transport/frame/fault.h"
#include "common/transport/frame/protocol.h"
#include "common/transport/grpc/call_table.h"
#include "coordinator/job/job_table.h"
#include "coordinator/server/coordinator_fixture.h"
#include "coordinator/server/replica_service.h"
#include "gmock/gmock.h"
#include "proto/coordinator.pb.h"

namespace monsoon {
namespace {

using ::monsoon::testing::CoordinatorTest;
using ::monsoon::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

class JobServiceTest : public CoordinatorTest {
 protected:
  JobServiceTest() {
    AddJobCalls(coordinator_.get(), "alpha:2221", &faults_, &calls_);
    AddReplicaCalls(coordinator_.get(), &faults_, &calls_);
  }

  static Caller MemberOf(Role role, const std::string& name, const std::string& job = "") {
    Caller caller = {.address = "ipv4:10.0.0.5:1", .member = Peer()};
    caller.member->identity = {role, name, "c", job};
    return caller;
  }
  static Caller ThereFor(const std::string& job) { return MemberOf(Role::kWorker, "7", job); }
  template <typename Reply, typename Request>
  absl::StatusOr<Reply> Call(const std::string& name, const Caller& caller,
                             const Request& request) {
    for (const CallTable::Call& call : calls_.calls()) {
      if (absl::EndsWith(call.method, "Service/" + name)) {
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

  // Of nearly 2 MiB: 16 of them are in half of the list.
  static Job LargeJob() {
    Job job = SmallJob();
    job.mutable_model()->mutable_layer(0)->mutable_dense()->set_units(kClasses);
    job.mutable_train()->mutable_synthetic()->set_classes(kClasses);
    AddClassNames(&job);
    return job;
  }
  static void AddClassNames(Job* job) {
    for (int i = 0; i < kClasses; ++i) {
      job->mutable_train()->add_class_name(absl::StrCat(std::string(16'000, 'x'), i));
    }
  }
  absl::StatusOr<SubmitReply> SubmitLarge(const Caller& caller, const std::string& client_id) {
    SubmitRequest request;
    request.set_client_id(client_id);
    *request.mutable_job() = LargeJob();
    return Call<SubmitReply>("Submit", caller, request);
  }
  // As many as its share has room for.
  void FillShare(const Caller& caller) {
    for (uint64_t i = 1; i <= kMostJobsBytes / 2 / LargeJob().ByteSizeLong(); ++i) {
      ASSERT_OK(SubmitLarge(caller, absl::StrCat(QuotaName(caller), " ", i)));
    }
  }
  // A program of the caller enters, or makes, a large job.
  absl::StatusOr<EnterReply> Enter(const Caller& caller) {
    EnterRequest request;
    request.set_protocol_version(kProtocolVersion);
    request.set_guest(7001);
    Job& job = *request.mutable_job();
    job.set_name("gpt");
    job.mutable_model()->set_name("m");
    ModelTensor* const tensor = job.mutable_model()->add_tensor();
    tensor->set_name("wte");
    tensor->add_shape(64);
    job.mutable_train()->mutable_joiners()->set_examples(70);
    job.mutable_downpour()->mutable_optimizer()->mutable_sgd()->set_rate(0.1);
    job.set_batch_size(10);
    job.mutable_stop()->set_epochs(1);
    AddClassNames(&job);
    return Call<EnterReply>("Enter", caller, request);
  }

  static constexpr int kClasses = 120;
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

TEST_F(JobServiceTest, OneMemberDoesNotFillTheList) {
  const Caller ada = MemberOf(Role::kOperator, "ada");
  FillShare(ada);
  const int jobs = coordinator_->List()->job_size();
  EXPECT_THAT(SubmitLarge(ada, "more"),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       AllOf(HasSubstr("operator/ada has"), HasSubstr("beside 0 other members"),
                             HasSubstr("delete ended ones"))));
  // An address is no other member, and one that asks again has its job.
  Caller elsewhere = ada;
  elsewhere.address = "ipv4:10.0.0.6:1";
  EXPECT_FALSE(SubmitLarge(elsewhere, "more").ok());
  ASSERT_OK_AND_ASSIGN(const SubmitReply again, SubmitLarge(ada, "operator/ada 1"));
  EXPECT_EQ(again.job(), "small-1");
  EXPECT_EQ(coordinator_->List()->job_size(), jobs);
  EXPECT_OK(SubmitLarge(MemberOf(Role::kOperator, "bob"), "his"));
  EXPECT_OK(SubmitLarge({.address = "ipv4:10.0.0.5:1", .open = true}, "of an address"));
  EXPECT_OK(SubmitLarge({.address = "unix:"}, "of this machine's user"));
}

TEST_F(JobServiceTest, AJobThatAProgramMakesIsInItsMembersShare) {
  ASSERT_TRUE(Await([this] { return TryBeat().ok(); }));
  const Caller hers = MemberOf(Role::kWorker, "ada-5f3a");
  const Caller his = MemberOf(Role::kWorker, "bob-77aa");
  FillShare(hers);
  EXPECT_THAT(Enter(hers),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("worker/ada-5f3a has")));
  ASSERT_OK_AND_ASSIGN(const EnterReply made, Enter(his));
  // Who enters a job that is there makes none.
  ASSERT_OK_AND_ASSIGN(const EnterReply entered, Enter(hers));
  EXPECT_EQ(entered.job(), made.job());
}

}  // namespace
}  // namespace monsoon
