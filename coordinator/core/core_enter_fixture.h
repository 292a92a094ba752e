// Joined jobs on CoreHarness: programs that enter them, by the numbers of their guests.
#pragma once

#include <string>

#include "common/config/job.h"
#include "coordinator/core/core_harness.h"

namespace monsoon::testing {

// Two shards and one listed worker. Program N has the guest number 7000 + N and, once it is
// a member, the worker number N; it is process 200 + N on "attic".
class CoreEnterTest : public ::testing::Test {
 protected:
  static JobPlan Joined(const std::string& name, double epochs = 1) {
    JobPlan plan = CoreHarness::Plan(epochs, 2, 1);
    plan.job.set_name(name);
    ModelTensor* const tensor = plan.job.mutable_model()->add_tensor();
    tensor->set_name("wte");
    tensor->add_shape(64);
    plan.job.mutable_train()->mutable_joiners()->set_examples(70);
    plan.shard_bytes.assign(2, 100 * 1024);
    return plan;
  }
  static EnterRequest RequestOf(uint32_t program, const JobPlan& plan) {
    EnterRequest request;
    request.set_protocol_version(kProtocolVersion);
    request.set_version("monsoon 0.1.0");
    request.set_guest(7000 + program);
    request.set_pid(200 + program);
    request.set_host("attic");
    *request.mutable_job() = plan.job;
    return request;
  }
  absl::StatusOr<EnterReply> TryEnter(uint32_t program, const std::string& name = "gpt",
                                      uint64_t sealed_by = 0, bool only_enter = false) {
    const JobPlan plan = Joined(name);
    EnterRequest request = RequestOf(program, plan);
    request.set_sealed_by(sealed_by);
    request.set_only_enter(only_enter);
    EXPECT_OK(CheckProgram(request));
    absl::StatusOr<EnterReply> reply = h_.core().Enter(request, plan, h_.now());
    if (reply.ok()) {
      h_.job_term_ = reply->job_term();
    }
    h_.Settle();
    return reply;
  }
  EnterReply Enter(uint32_t program, const std::string& name = "gpt", uint64_t sealed_by = 0) {
    absl::StatusOr<EnterReply> reply = TryEnter(program, name, sealed_by);
    EXPECT_OK(reply);
    return reply.ok() ? *reply : EnterReply();
  }
  // The job is made, and `program` writes its parameters; the job's id.
  std::string Make(uint32_t program, const std::string& name = "gpt") {
    h_.Poll();
    Enter(program, name);
    const EnterReply reply = Enter(program, name);
    EXPECT_EQ(reply.part(), EnterReply::INITIALIZE) << reply.reason();
    return reply.job();
  }
  // The same, and they are written; what the last call was told.
  EnterReply Write(uint32_t program, const std::string& name = "gpt") {
    const std::string job = Make(program, name);
    return Enter(program, name, h_.core().state().FindJob(job)->writer().number());
  }
  // The same, and they are in a generation where there are any.
  std::string Begin(uint32_t program, const std::string& name = "gpt") {
    EnterReply reply = Write(program, name);
    if (!h_.shard(0).state_dir.empty()) {
      EXPECT_EQ(reply.part(), EnterReply::WAIT);
      h_.Poll();
      reply = Enter(program, name);
    }
    EXPECT_EQ(reply.part(), EnterReply::TRAIN) << reply.reason();
    return reply.job();
  }
  // `program` makes the job of `plan`, and enters it until it trains.
  void EnterUntilItTrains(uint32_t program, const JobPlan& plan) {
    EnterReply reply;
    for (int i = 0; i < 4; ++i) {
      h_.Poll();
      EnterRequest request = RequestOf(program, plan);
      request.set_sealed_by(reply.writer());
      ASSERT_OK_AND_ASSIGN(reply, h_.core().Enter(request, plan, h_.now()));
      h_.job_term_ = reply.job_term();
      h_.Settle();
    }
    ASSERT_EQ(reply.part(), EnterReply::TRAIN) << reply.reason();
  }
  void BecomesGuest(uint32_t program, const std::string& job) {
    h_.guest_[program] = 7000 + program;
    h_.enters_[program] = job;
  }
  void Join(uint32_t program, const std::string& job) {
    BecomesGuest(program, job);
    h_.Join(program);
    EXPECT_EQ(h_.session_[program].job(), job);
  }

  CoreHarness h_{2, 1};
};

}  // namespace monsoon::testing
