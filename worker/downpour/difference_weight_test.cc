#include "worker/downpour/difference_weight.h"

#include "gtest/gtest.h"
#include "proto/downpour.pb.h"
#include "proto/job.pb.h"
#include "proto/optimizer.pb.h"
#include "worker/nn/step_result.h"

namespace monsoon {
namespace {

// Of a program that takes `taken` steps between two calls where its job says 10.
float PartOf(const Job& job, uint64_t taken) {
  DifferenceWeigher weigher(job, /*replicas=*/1);
  StepResult call;
  call.steps = taken;
  call.examples = 32 * taken;
  weigher.Add(call);
  return weigher.Take().part;
}

Job ProgramsJob() {
  Job job;
  job.set_batch_size(32);
  job.mutable_downpour()->mutable_local()->set_steps(10);
  return job;
}

TEST(DifferenceWeigherTest, AProgramsShortDifferenceIsAPart) {
  const Job job = ProgramsJob();
  EXPECT_EQ(PartOf(job, 10), 1.0f);
  EXPECT_EQ(PartOf(job, 5), 0.5f);
  EXPECT_EQ(PartOf(job, 20), 1.0f);
  EXPECT_EQ(PartOf(job, 0), 1.0f);
}

TEST(DifferenceWeigherTest, AWholeWithoutAFixedLengthHasNoParts) {
  Job job = ProgramsJob();
  job.mutable_downpour()->mutable_local()->set_dynamic(true);
  EXPECT_EQ(PartOf(job, 5), 1.0f);
  // Each call is a step of the exchange, which counts these.
  job = ProgramsJob();
  job.mutable_downpour()->mutable_local()->mutable_fragments()->set_count(2);
  EXPECT_EQ(PartOf(job, 5), 1.0f);
  job = ProgramsJob();
  job.mutable_downpour()->mutable_local()->mutable_inner()->mutable_sgd()->set_rate(1.0);
  EXPECT_EQ(PartOf(job, 5), 1.0f);
}

TEST(DifferenceWeigherTest, AWholeOfOtherStepsWeighsAsMuch) {
  for (const DifferenceWeight kind : {STEPS, TOKENS, TOKENS_SQUARED_PER_STEP}) {
    Job job = ProgramsJob();
    job.mutable_downpour()->mutable_local()->mutable_inner()->mutable_sgd()->set_rate(1.0);
    job.mutable_downpour()->mutable_local()->set_weight(kind);
    DifferenceWeigher weigher(job, /*replicas=*/1);
    StepResult call;
    call.steps = 40;
    call.examples = 32 * 40;
    weigher.Add(call);
    EXPECT_EQ(weigher.Take().weight, 4.0f);
    weigher.SetSteps(40);
    weigher.Add(call);
    EXPECT_EQ(weigher.Take().weight, 1.0f);
    // One that the job names is what it is.
    job.mutable_downpour()->mutable_local()->set_weight_reference(10);
    DifferenceWeigher named(job, /*replicas=*/1);
    named.Add(call);
    const float before = named.Take().weight;
    named.SetSteps(40);
    named.Add(call);
    EXPECT_EQ(named.Take().weight, before);
  }
}

}  // namespace
}  // namespace monsoon
