#include "worker/downpour/round_judge.h"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "common/testing/status_matchers.h"
#include "worker/session/session_status.h"

namespace monsoon {
namespace {

using ::testing::HasSubstr;

class RoundJudgeTest : public ::testing::Test {
 protected:
  RoundJudgeTest() {
    Model model;
    ModelTensor* const tensor = model.add_tensor();
    tensor->set_name("w");
    tensor->add_shape(16);
    layout_ = *ParameterLayout::Create(model);
    good_.assign(layout_.size(), 1.0f);
    bad_ = good_;
    bad_[3] = std::numeric_limits<float>::infinity();
  }
  RoundJudge Make(DivergencePolicy::Action action, bool of_program = false) {
    DivergencePolicy policy;
    policy.set_action(action);
    policy.set_max_refused(2);
    return RoundJudge(policy, &layout_, of_program);
  }

  ParameterLayout layout_;
  std::vector<float> good_;
  std::vector<float> bad_;
};

TEST_F(RoundJudgeTest, ALossThatIsNoNumberNamesTheFirstTensor) {
  RoundJudge judge = Make(DivergencePolicy::REJECT);
  const auto message = [&](std::vector<float> gradient, const std::vector<float>& parameters) {
    const absl::Status status = judge.NonFiniteLoss("here", std::nan(""), gradient, parameters);
    EXPECT_TRUE(IsDivergedError(status));
    return std::string(status.message());
  };
  EXPECT_THAT(message(bad_, good_), HasSubstr("here: loss is nan"));
  EXPECT_THAT(message(bad_, good_), HasSubstr("w[3]"));
  EXPECT_THAT(message(good_, bad_), HasSubstr("w[3]"));
  EXPECT_THAT(message(good_, good_), HasSubstr("all tensors are finite"));
  EXPECT_THAT(message({}, bad_), HasSubstr("w[3]"));  // a device that does not answer
}

TEST_F(RoundJudgeTest, HalfAsManyFloatsAreHalves) {
  std::vector<uint16_t> halves(layout_.size(), 0x3f80);
  halves[5] = 0x7f80;  // infinity
  std::vector<float> packed(layout_.size() / 2);
  std::memcpy(packed.data(), halves.data(), sizeof(float) * packed.size());
  EXPECT_THAT(Make(DivergencePolicy::HALT).Refused("here", "no", packed).message(),
              HasSubstr("tensor w[5]: no"));
}

TEST_F(RoundJudgeTest, AStepIsDroppedWhereTheJobSaysSo) {
  EXPECT_OK(Make(DivergencePolicy::SKIP).NonFiniteLoss("here", std::nan(""), bad_, good_));
}

TEST_F(RoundJudgeTest, RefusalsAreCountedInARow) {
  RoundJudge judge = Make(DivergencePolicy::REJECT);
  EXPECT_OK(judge.Refused("here", "no", good_));
  judge.Accepted();
  EXPECT_OK(judge.Refused("here", "no", good_));
  const absl::Status status = judge.Refused("here", "no", bad_);
  EXPECT_TRUE(IsDivergedError(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("2 pushes refused in a row"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("tensor w[3]: no"));
}

TEST_F(RoundJudgeTest, TheFirstRefusalHaltsWhereTheJobSaysSo) {
  EXPECT_TRUE(IsDivergedError(Make(DivergencePolicy::HALT).Refused("here", "no", {})));
  RoundJudge skips = Make(DivergencePolicy::SKIP);
  for (int i = 0; i < 5; ++i) {
    EXPECT_OK(skips.Refused("here", "no", {}));
  }
}

// What a program pushes is its own trouble, and not the job's.
TEST_F(RoundJudgeTest, AProgramOfWhichNothingIsOfUseDivergesAlone) {
  for (const auto action : {DivergencePolicy::REJECT, DivergencePolicy::SKIP}) {
    RoundJudge judge = Make(action, /*of_program=*/true);
    EXPECT_OK(judge.Refused("here", "no", bad_));
    judge.Accepted();
    EXPECT_OK(judge.Refused("here", "no", bad_)) << "the row was broken";
    const absl::Status status = judge.Refused("here", "no", bad_);
    EXPECT_TRUE(IsProgramDivergedError(status)) << status;
    EXPECT_FALSE(IsDivergedError(status));
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("here: 2 pushes refused in a row, the last: tensor w[3]: no"));
  }
  RoundJudge halts = Make(DivergencePolicy::HALT, /*of_program=*/true);
  EXPECT_TRUE(IsDivergedError(halts.Refused("here", "no", bad_)));
  EXPECT_TRUE(IsDivergedError(halts.NonFiniteLoss("here", std::nan(""), {}, good_)));
}

TEST_F(RoundJudgeTest, ALossOfAProgramThatIsNoNumberIsItsOwnTrouble) {
  RoundJudge rejects = Make(DivergencePolicy::REJECT, /*of_program=*/true);
  EXPECT_TRUE(IsProgramDivergedError(rejects.NonFiniteLoss("here", std::nan(""), bad_, good_)));
  // What it pushed may have moved the copy that is here.
  RoundJudge moved = Make(DivergencePolicy::REJECT, /*of_program=*/true);
  EXPECT_OK(moved.NonFiniteLoss("here", std::nan(""), bad_, bad_));
  EXPECT_TRUE(IsProgramDivergedError(moved.NonFiniteLoss("here", std::nan(""), bad_, bad_)));

  RoundJudge skips = Make(DivergencePolicy::SKIP, /*of_program=*/true);
  EXPECT_OK(skips.NonFiniteLoss("here", std::nan(""), bad_, good_));
  skips.Used();
  EXPECT_OK(skips.NonFiniteLoss("here", std::nan(""), bad_, good_)) << "the row was broken";
  EXPECT_TRUE(IsProgramDivergedError(skips.NonFiniteLoss("here", std::nan(""), bad_, good_)));
}

TEST_F(RoundJudgeTest, ParametersThatAreFetchedAndNotFiniteAreTheJobs) {
  for (const auto action : {DivergencePolicy::REJECT, DivergencePolicy::SKIP}) {
    RoundJudge judge = Make(action, /*of_program=*/true);
    EXPECT_FALSE(judge.wants_fetched()) << "it costs a look at all of them";
    EXPECT_OK(judge.Refused("here", "no", bad_));
    ASSERT_TRUE(judge.wants_fetched());
    judge.NoteFetched(bad_);
    const absl::Status status = judge.Refused("here", "no", bad_);
    EXPECT_TRUE(IsDivergedError(status)) << status;
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("parameters are not finite, as in tensor w[3]"));
    judge.NoteFetched(good_);
    EXPECT_TRUE(IsProgramDivergedError(judge.Refused("here", "no", bad_)));
    judge.Accepted();
    EXPECT_FALSE(judge.wants_fetched());
  }
  RoundJudge ours = Make(DivergencePolicy::SKIP);
  EXPECT_OK(ours.Refused("here", "no", bad_));
  EXPECT_FALSE(ours.wants_fetched());
}

}  // namespace
}  // namespace monsoon
