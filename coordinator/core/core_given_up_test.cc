// A parameter server's state folder will not come back, and people say so.
#include "coordinator/core/core_restores_fixture.h"

namespace monsoon {
namespace {

using ::monsoon::testing::CoreRestoresTest;
using ::monsoon::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr char kFolder[] = "ps/1's state folder with generation 1 of j-1; found: none (/s/jobs)";

class GivenUpTest : public CoreRestoresTest {
 protected:
  void StartAndLoseTheFolder() {
    StartWithAGeneration();
    h_.shard(1).lacks = kFolder;
    h_.Restart(1);
    Pass(1);
    ASSERT_EQ(h_.State(), RUNNING);
    ASSERT_THAT(h_.Reason(), HasSubstr(kFolder));
  }
  std::vector<std::string> GiveUp() {
    const absl::StatusOr<GiveUpReply> reply = h_.core().GiveUp("ps/1", "ann@desk", h_.now());
    EXPECT_OK(reply);
    return reply.ok() ? std::vector<std::string>(reply->job().begin(), reply->job().end())
                      : std::vector<std::string>();
  }
};

TEST_F(GivenUpTest, TheJobThatWaitsForItFailsByName) {
  StartAndLoseTheFolder();
  EXPECT_THAT(GiveUp(), ElementsAre("j-1"));
  Pass(1);
  EXPECT_EQ(h_.State(), FAILED);
  EXPECT_EQ(h_.Reason(),
            "ps/1 (pid 151) at unix:ps1 has restarted and cannot restore its slice: "
            "ann@desk has given up ps/1's state folder with generation 1 of j-1; found: none "
            "(/s/jobs); its slice of job j-1 is lost");
  EXPECT_EQ(CountOf("shard_not_restored ps/1"), 1);
  EXPECT_THAT(GiveUp(), IsEmpty());
  // The shard serves the next one.
  h_.shard(1).lacks.clear();
  h_.Submit(h_.Plan(2));
  h_.Poll();
  h_.Settle();
  h_.Join(0);
  EXPECT_EQ(h_.State(), RUNNING);
}

TEST_F(GivenUpTest, AFolderThatIsThereAfterAllCounts) {
  StartAndLoseTheFolder();
  h_.shard(1).lacks.clear();
  EXPECT_THAT(GiveUp(), ElementsAre("j-1"));
  Pass(1);
  EXPECT_EQ(h_.State(), RUNNING);
  EXPECT_EQ(h_.Reason(), "");
  EXPECT_THAT(GiveUp(), IsEmpty());
}

TEST_F(GivenUpTest, TheNextLifeOfTheShardIsNotGivenUp) {
  StartAndLoseTheFolder();
  h_.shard(1).restore_error = absl::DeadlineExceededError("it still reads");
  EXPECT_THAT(GiveUp(), ElementsAre("j-1"));
  Pass(1);
  h_.shard(1).restore_error = absl::OkStatus();
  h_.Restart(1);
  h_.Poll();
  Pass(1);
  EXPECT_EQ(h_.State(), RUNNING);
  EXPECT_THAT(h_.Reason(), HasSubstr(kFolder));
}

TEST_F(GivenUpTest, OnlyWhatIsThere) {
  StartAndLoseTheFolder();
  EXPECT_THAT(h_.core().GiveUp("ps/7", "ann", h_.now()),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("no ps/7")));
  EXPECT_THAT(h_.core().GiveUp("worker/0", "ann", h_.now()),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("say ps/N")));
  EXPECT_THAT(h_.core().GiveUp("coordinator/0", "ann", h_.now()),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("nothing to give up")));
  Kill(1);
  Pass(10);
  EXPECT_THAT(h_.core().GiveUp("ps/1", "ann", h_.now()),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("start it first")));
  EXPECT_EQ(h_.State(), RUNNING);
}

}  // namespace
}  // namespace monsoon
