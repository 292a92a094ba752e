#include "worker/sidecar/half_vectors.h"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "common/testing/status_matchers.h"
#include "proto/downpour.pb.h"
#include "proto/optimizer.pb.h"

namespace monsoon {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::StatusIs;

Model OneTensor(ModelTensor::Kind kind = ModelTensor::TRAINED) {
  Model model;
  ModelTensor* const tensor = model.add_tensor();
  tensor->set_name("w");
  tensor->add_shape(3);
  tensor->set_kind(kind);
  return model;
}

Job HalfJob() {
  Job job;
  job.mutable_downpour()->set_push_format(BFLOAT16);
  job.mutable_downpour()->set_fetch_format(BFLOAT16);
  return job;
}

TEST(CheckHalfVectorsTest, TakesAJobInWhichNothingIsComputedFromFloats) {
  ASSERT_OK_AND_ASSIGN(const ParameterLayout layout, ParameterLayout::Create(OneTensor()));
  EXPECT_OK(CheckHalfVectors(HalfJob(), layout));
}

TEST(CheckHalfVectorsTest, NamesWhatIsComputedFromFloats) {
  ASSERT_OK_AND_ASSIGN(const ParameterLayout layout, ParameterLayout::Create(OneTensor()));
  const std::vector<std::pair<std::string, std::function<void(Downpour*)>>> cases = {
      {"push_format FLOAT32 and fetch_format BFLOAT16",
       [](Downpour* downpour) { downpour->clear_push_format(); }},
      {"push_format BFLOAT16 and fetch_format FLOAT16",
       [](Downpour* downpour) { downpour->set_fetch_format(FLOAT16); }},
      {"fetch_changes", [](Downpour* downpour) { downpour->set_fetch_changes(INT8); }},
      {"n_push 2", [](Downpour* downpour) { downpour->set_n_push(2); }},
      {"local steps", [](Downpour* downpour) { downpour->mutable_local()->set_steps(5); }},
      {"clip_norm", [](Downpour* downpour) { downpour->mutable_optimizer()->set_clip_norm(1); }},
  };
  for (const auto& [named, change] : cases) {
    Job job = HalfJob();
    change(job.mutable_downpour());
    EXPECT_THAT(CheckHalfVectors(job, layout),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         AllOf(HasSubstr(named), HasSubstr("give float32 vectors"))));
  }
}

TEST(CheckHalfVectorsTest, RefusesStatisticsByName) {
  Model model = OneTensor();
  *model.add_tensor() = OneTensor(ModelTensor::STATISTIC).tensor(0);
  model.mutable_tensor(1)->set_name("mean");
  ASSERT_OK_AND_ASSIGN(const ParameterLayout layout, ParameterLayout::Create(model));
  EXPECT_THAT(CheckHalfVectors(HalfJob(), layout),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("tensor mean")));
}

TEST(FloatsOfHalvesTest, EachFloatHoldsTwo) {
  // 1, -2, the largest below 1, and the least subnormal.
  const std::vector<uint16_t> halves = {0x3f80, 0xc000, 0x3f7f, 0x0001};
  std::vector<float> packed(2);
  std::memcpy(packed.data(), halves.data(), sizeof(float) * packed.size());
  const AlignedFloats floats = FloatsOfHalves(packed);
  const std::vector<float> values(floats.span().begin(), floats.span().end());
  EXPECT_THAT(values, ElementsAre(1.0f, -2.0f, 1.0f - 0x1p-8f, std::ldexp(1.0f, -133)));
}

}  // namespace
}  // namespace monsoon
