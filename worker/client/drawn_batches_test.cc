#include "worker/client/drawn_batches.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

namespace monsoon {
namespace {

// The batches of an answer, of one epoch.
std::string Batches(std::initializer_list<std::vector<uint32_t>> batches) {
  FieldWriter fields;
  fields.Number(static_cast<uint32_t>(batches.size()));
  for (const std::vector<uint32_t>& samples : batches) {
    fields.Number(uint32_t{3});
    fields.Number(static_cast<uint32_t>(samples.size()));
    fields.Bytes(samples.data(), samples.size() * sizeof(uint32_t));
  }
  return fields.bytes();
}

void Lease(std::initializer_list<std::vector<uint32_t>> batches, DrawnBatches* to) {
  const std::string bytes = Batches(batches);
  FieldReader fields(bytes);
  to->ReadLeased(&fields);
  EXPECT_TRUE(fields.ok());
}

struct Told {
  uint32_t batches = 0;
  uint64_t steps = 0, examples = 0, judged = 0, correct = 0;
  bool has_loss = false;
  double loss = 0;
};

Told ToldBy(const DrawnBatches& batches) {
  FieldWriter written;
  batches.WriteUncounted(&written);
  FieldReader fields(written.bytes());
  Told told;
  told.batches = fields.Number<uint32_t>();
  told.steps = fields.Number<uint64_t>();
  told.examples = fields.Number<uint64_t>();
  told.judged = fields.Number<uint64_t>();
  told.correct = fields.Number<uint64_t>();
  told.has_loss = fields.Number<uint8_t>() != 0;
  told.loss = fields.Number<double>();
  EXPECT_TRUE(fields.ok());
  return told;
}

TEST(DrawnBatchesTest, GivesBatchesInTheirOrderUntilThereAreNone) {
  DrawnBatches batches;
  Lease({{7, 8}, {9}}, &batches);
  monsoon_batch batch{};
  ASSERT_TRUE(batches.Give(&batch));
  ASSERT_EQ(batch.count, 2u);
  EXPECT_EQ(batch.samples[1], 8u);
  EXPECT_EQ(batch.epoch, 3u);
  EXPECT_EQ(batch.left, 1u);
  ASSERT_TRUE(batches.Give(&batch));
  EXPECT_EQ(batch.samples[0], 9u);
  EXPECT_FALSE(batches.Give(&batch));
  EXPECT_EQ(batches.unstepped(), 2u);
}

TEST(DrawnBatchesTest, StepsAreUncountedUntilAnAnswerCountsThem) {
  DrawnBatches batches;
  Lease({{1, 2}, {3, 4}, {5}}, &batches);
  monsoon_batch batch{};
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(batches.Give(&batch));
  }
  monsoon_step_info step{};
  step.batches = 2;
  step.has_loss = 1;
  step.loss = 0.5;
  step.has_correct = 1;
  step.correct = 3;
  batches.CountStep(step);
  step = {};
  step.batches = 1;
  step.examples = 9;  // the program knows better than the batches' sizes
  batches.CountStep(step);

  const Told told = ToldBy(batches);
  EXPECT_EQ(told.batches, 3u);
  EXPECT_EQ(told.steps, 2u);
  EXPECT_EQ(told.examples, 13u);
  EXPECT_EQ(told.judged, 4u);  // the second step has judged nothing
  EXPECT_EQ(told.correct, 3u);
  EXPECT_TRUE(told.has_loss);
  EXPECT_EQ(told.loss, 0.5);  // the mean of the steps that told one
  EXPECT_EQ(batches.steps(), 0u);

  batches.TakeCounted();
  EXPECT_EQ(batches.steps(), 2u);
  EXPECT_EQ(batches.examples(), 13u);
  EXPECT_EQ(batches.uncounted_steps(), 0u);
  EXPECT_EQ(batches.unstepped(), 0u);
}

TEST(DrawnBatchesTest, WhatIsForgottenIsNotCounted) {
  DrawnBatches batches;
  Lease({{1}, {2}, {3}}, &batches);
  monsoon_batch batch{};
  ASSERT_TRUE(batches.Give(&batch));
  ASSERT_TRUE(batches.Give(&batch));
  monsoon_step_info step{};
  step.batches = 1;
  batches.CountStep(step);
  batches.Forget();
  EXPECT_FALSE(batches.has_leased());
  EXPECT_EQ(batches.unstepped(), 0u);
  EXPECT_EQ(ToldBy(batches).steps, 0u);
  batches.TakeCounted();
  EXPECT_EQ(batches.steps(), 0u);
}

}  // namespace
}  // namespace monsoon
