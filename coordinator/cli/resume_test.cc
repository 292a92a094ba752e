// submit --resume.
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "common/config/data_findings.h"
#include "common/config/diagnostics.h"
#include "common/data/access/data_access.h"
#include "coordinator/cli/checkpoint_fixture.h"
#include "gmock/gmock.h"
#include "google/protobuf/util/message_differencer.h"

namespace monsoon {
namespace {

using ::google::protobuf::util::MessageDifferencer;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class ResumeTest : public CheckpointCliTest {
 protected:
  void SetUp() override {
    CheckpointCliTest::SetUp();
    cli_.coordinator.descriptions = {Description(INITIALIZING)};
    Layout();
  }
  const SubmitRequest& Submitted() const { return cli_.coordinator.submitted.back(); }
  // Nothing was asked of the coordinator but where the old job is.
  void ExpectNoJob() const {
    EXPECT_THAT(cli_.coordinator.calls, Each("Locate tiny-1"));
    EXPECT_TRUE(cli_.coordinator.submitted.empty());
  }
  // The job file of the fixture, with the checkpoint's optimizer.
  std::string JobFile(const std::string& name,
                      const std::vector<std::pair<std::string, std::string>>& changes) {
    std::string text = absl::StrReplaceAll(kJob, {{"sgd { rate: 0.1 }", "adagrad { rate: 0.1 }"}});
    for (const auto& [from, to] : changes) {
      text = absl::StrReplaceAll(text, {{from, to}});
    }
    return Write(name, text);
  }
};

TEST_F(ResumeTest, GoesOnAsTheJobThatItWas) {
  Keep({.generation = 1, .first = 10});
  Keep({.generation = 2, .steps = 24, .first = 20});
  EXPECT_EQ(Run({"submit", "--resume=tiny-1"}), 0) << cli_.err();
  EXPECT_EQ(cli_.out(),
            "submitted tiny-1, state PENDING\n"
            "resuming tiny-1 generation 2 (epoch 1.5, 24 steps) as tiny-1\n");
  EXPECT_EQ(cli_.err(), "");
  EXPECT_TRUE(MessageDifferencer::Equals(Submitted().job(), stored_))
      << Submitted().job().DebugString();
  EXPECT_TRUE(Submitted().init());
  EXPECT_EQ(Submitted().resume().source_job(), "tiny-1");
  EXPECT_EQ(Submitted().resume().generation(), 2u);
  EXPECT_EQ(Submitted().resume().context().downpour().steps(), 24u);
  const InitialValues& written = cli_.transfer.written;
  EXPECT_EQ(written.parameters, Parameters(20));
  EXPECT_EQ(written.state, Parameters(120));
  ASSERT_TRUE(written.map.has_value());
  EXPECT_EQ(written.map->shards(), 2u);
  EXPECT_THAT(written.versions, ElementsAre(ElementsAre(2), ElementsAre(12)));
  EXPECT_EQ(cli_.coordinator.calls.back(), "Start tiny-1");
}

// Its network is its programs', which enter it then.
TEST_F(ResumeTest, AJobThatProgramsJoinGoesOnToo) {
  stored_.clear_model();
  ModelTensor* const tensor = stored_.mutable_model()->add_tensor();
  tensor->set_name("w");
  tensor->add_shape(20);
  stored_.clear_train();
  stored_.mutable_train()->mutable_joiners()->set_examples(70);
  stored_.clear_test();
  stored_.clear_evaluation();
  stored_.mutable_downpour()->clear_workers();
  ASSERT_OK_AND_ASSIGN(layout_, ParameterLayout::Create(stored_.model()));
  *cli_.coordinator.location.mutable_model() = stored_.model();
  cli_.coordinator.location.set_layout_hash(layout_.Hash());
  Keep({.first = 20});
  EXPECT_EQ(Run({"submit", "--resume=tiny-1", "--set=stop.epochs=20"}), 0) << cli_.err();
  EXPECT_EQ(Submitted().job().model().tensor(0).name(), "w");
  EXPECT_EQ(Submitted().job().stop().epochs(), 20);
  EXPECT_EQ(cli_.transfer.written.parameters, Parameters(20));
  EXPECT_EQ(cli_.transfer.written.state, Parameters(120));
  EXPECT_EQ(cli_.coordinator.calls.back(), "Start tiny-1");
}

using Rows = FakeTransfer::Rows;

TEST_F(ResumeTest, RowsThatWereTouchedGoOnToo) {
  UseTables();
  // Of 7 rows on 3 shards the first stripes are [0, 3), [3, 6) and [6, 7); of 4 [0, 2) and [2, 4).
  Keep({.shards = 3, .touched = {1, 2}});
  EXPECT_EQ(Run({"submit", "--resume=tiny-1", "--set=stop.epochs=20"}), 0) << cli_.err();
  EXPECT_EQ(cli_.err(), "");
  EXPECT_EQ(Submitted().job().model().table(0).name(), "words");
  EXPECT_EQ(cli_.transfer.written.parameters, Parameters());
  EXPECT_THAT(
      cli_.transfer.written_rows,
      ElementsAre(Rows{0, 3, {1003, 1003, 1004, 1004, 1005, 1005}, {1003.5f, 1004.5f, 1005.5f}},
                  Rows{0, 6, {1006, 1006}, {1006.5f}}, Rows{1, 0, {2000, 2001}, {2000.5f, 2001.5f}},
                  Rows{1, 2, {2002, 2003}, {2002.5f, 2003.5f}}));
  EXPECT_EQ(cli_.coordinator.calls.back(), "Start tiny-1");
}

TEST_F(ResumeTest, RowsThatBeginOtherwiseAreSaid) {
  UseTables();
  Keep({.touched = {0}});
  EXPECT_EQ(Run({"submit", "--resume=tiny-1", "--set=seed=9"}), 0) << cli_.err();
  // Those of `words` are constant.
  EXPECT_THAT(cli_.err(), HasSubstr("rows of users that tiny-1 has not touched begin as the new "
                                    "job says, by another seed, initializer or initial_sum"));
}

TEST_F(ResumeTest, RowsThatAreDamagedEndTheNewJob) {
  UseTables();
  Keep({.touched = {0, 1}});
  cli_.coordinator.describe = [&]() -> absl::StatusOr<JobDescription> {
    // Read once by now.
    const std::string file = Part({}, 1, "safetensors");
    const absl::StatusOr<std::string> bytes = cli_.storage.ReadAll(file, 1 << 20);
    const float sum = RowSum(0, 6);
    cli_.storage.CorruptByte(
        file, bytes->find(std::string(reinterpret_cast<const char*>(&sum), sizeof(sum))), 1);
    return Description(INITIALIZING);
  };
  EXPECT_EQ(Run({"submit", "--resume=tiny-1"}), 5);
  EXPECT_THAT(cli_.err(), HasSubstr(Part({}, 1, "safetensors")));
  EXPECT_EQ(cli_.coordinator.calls.back(), "Cancel tiny-1");
}

TEST_F(ResumeTest, AnotherTableIsRefused) {
  UseTables();
  Keep({.touched = {0}});
  EXPECT_EQ(Run({"submit", "--resume=tiny-1", "--set=model.table[0].rows=8"}), 2);
  EXPECT_THAT(cli_.err(),
              HasSubstr("the new job cannot go on from tiny-1: table words is (7, 2) in "
                        "tiny-1, but (8, 2) in the new job"));
  ExpectNoJob();
}

TEST_F(ResumeTest, SetAndNameChangeTheJob) {
  Keep({.first = 20});
  EXPECT_EQ(
      Run({"submit", "--resume=" + Folder(), "--set=stop.epochs=20", "--name=more", "--json"}), 0);
  EXPECT_EQ(cli_.out(),
            "{\"schema_version\":1,\"job\":\"more-1\",\"state\":\"PENDING\","
            "\"resumed_job\":\"tiny-1\",\"resumed_generation\":1}\n");
  EXPECT_EQ(Submitted().job().stop().epochs(), 20);
  EXPECT_EQ(Submitted().job().name(), "more");
  EXPECT_EQ(Run({"submit", "--resume=latest", "--set=batch_sise=3"}), 2);
  EXPECT_THAT(cli_.err(), HasSubstr("batch_size"));
  EXPECT_EQ(cli_.coordinator.submitted.size(), 1u);
}

TEST_F(ResumeTest, AJobFileMayTakeThePlaceOfTheStoredJob) {
  Keep({.has_job = false});
  EXPECT_EQ(Run({"submit", "--resume=tiny-1"}), 2);
  EXPECT_THAT(cli_.err(), HasSubstr("name a job file"));
  const std::string file = JobFile("next.textproto", {{"batch_size: 8", "batch_size: 16"}});
  EXPECT_EQ(Run({"submit", file, "--resume=tiny-1"}), 0) << cli_.err();
  EXPECT_EQ(Submitted().job().name(), "next");
  EXPECT_EQ(Submitted().job().batch_size(), 16u);
  EXPECT_EQ(cli_.transfer.written.state, Parameters(101));
}

TEST_F(ResumeTest, AnotherLayoutIsRefusedByItsFirstTensor) {
  Keep({});
  const std::string wide = JobFile("wide.textproto", {{"units: 2", "units: 4"}});
  EXPECT_EQ(Run({"submit", wide, "--resume=tiny-1"}), 2);
  EXPECT_THAT(cli_.err(), HasSubstr("the new job cannot go on from tiny-1: a/weight is (2, 3) in "
                                    "tiny-1, but (4, 3) in the new job"));
  ExpectNoJob();
  // The same tensors, used otherwise.
  const std::string other =
      JobFile("other.textproto",
              {{"dense { units: 2 }\n    }", "dense { units: 2 }\n    }\n    layer { relu {} }"}});
  EXPECT_EQ(Run({"submit", other, "--resume=tiny-1"}), 2);
  EXPECT_THAT(cli_.err(), AllOf(HasSubstr("the same tensors, but other layers"),
                                HasSubstr("submit --init=FILE")));
  ExpectNoJob();
}

// Earlier builds numbered classes that are called 2 and 10 as words.
TEST_F(ResumeTest, ClassesKeepTheirNumbersOrAreRefused) {
  Write("a.csv", "a,b,c,kind\n1,2,3,10.0\n3,2,1,2.0\n");
  const std::string table = "train { csv { file: \"a.csv\" label: \"kind\" } @ }";
  const std::pair<std::string, std::string> sets[] = {
      {"train { synthetic { examples: 64 classes: 2 } }", table},
      {"test { synthetic { examples: 64 classes: 2 seed: 1 } }", ""},
      {"batch_size: 8", "batch_size: 1"}};
  const auto file = [&](const std::string& more) {
    return JobFile("table.textproto", {sets[0], sets[1], sets[2], {"@", more}});
  };
  ASSERT_OK_AND_ASSIGN(stored_, LoadJob(file("")));
  Keep({.generation = 1});
  EXPECT_EQ(Run({"submit", file(""), "--resume=tiny-1"}), 0) << cli_.err();
  EXPECT_EQ(Submitted().job().train().class_order(), Dataset::BY_VALUE);
  stored_.mutable_train()->clear_class_order();
  Keep({.generation = 2});
  // Whoever has the file is asked, and refuses it.
  const auto refusals = [&] {
    std::string all;
    for (const Diagnostic& error : FindInData(Submitted().job(), DataAccess::Own()).errors) {
      absl::StrAppend(&all, error.message, "\n");
    }
    return all;
  };
  const std::string both = "by value [\"2.0\", \"10.0\"], or as words [\"10.0\", \"2.0\"]";
  EXPECT_EQ(Run({"submit", file(""), "--resume=tiny-1"}), 0);
  EXPECT_EQ(Submitted().job().train().class_order(), Dataset::UNTOLD);
  EXPECT_THAT(refusals(), HasSubstr(both));
  EXPECT_EQ(Run({"submit", "--resume=tiny-1"}), 0);
  EXPECT_THAT(refusals(), HasSubstr(both));
  EXPECT_EQ(Run({"submit", "--resume=tiny-1", "--set=train.class_name=[\"10.0\", \"2.0\"]"}), 0)
      << cli_.err();
  EXPECT_THAT(Submitted().job().train().class_name(), ElementsAre("10.0", "2.0"));
  EXPECT_EQ(refusals(), "");
}

TEST_F(ResumeTest, AnotherOptimizerBeginsAnewAndSaysSo) {
  Keep({.first = 3});
  EXPECT_EQ(Run({"submit", job_, "--resume=tiny-1"}), 0) << cli_.err();
  EXPECT_THAT(cli_.err(), HasSubstr("tiny-1 was trained with adagrad, the new job with sgd: the "
                                    "optimizer's state begins anew"));
  EXPECT_EQ(cli_.transfer.written.parameters, Parameters(3));
  EXPECT_TRUE(cli_.transfer.written.state.empty());
  EXPECT_THAT(cli_.transfer.written.versions, ElementsAre(ElementsAre(1), ElementsAre(11)));
}

class ResumeOfRounds : public ResumeTest {
 protected:
  void SetUp() override {
    ResumeTest::SetUp();
    Downpour* const downpour = stored_.mutable_downpour();
    downpour->mutable_local()->set_steps(5);
    downpour->mutable_local()->mutable_inner()->mutable_sgd()->set_rate(0.1);
    downpour->mutable_rounds();
    downpour->clear_n_fetch();
    downpour->clear_n_push();
    downpour->clear_local_update();
  }
};

TEST_F(ResumeOfRounds, TheOptimizersStateGoesOnAndRoundsAreDropped) {
  Keep({.first = 20, .in_rounds = 2});
  EXPECT_EQ(Run({"submit", "--resume=tiny-1"}), 0) << cli_.err();
  EXPECT_THAT(cli_.err(), HasSubstr("2 differences in open rounds of tiny-1 are not taken over"));
  EXPECT_THAT(cli_.err(), Not(HasSubstr("begins anew")));
  EXPECT_TRUE(Submitted().job().downpour().has_rounds());
  EXPECT_EQ(cli_.transfer.written.parameters, Parameters(20));
  EXPECT_EQ(cli_.transfer.written.state, Parameters(120));
}

// Nothing is lost, so nothing is said; the new job need not have rounds.
TEST_F(ResumeOfRounds, BetweenRoundsOrIntoAJobWithoutThem) {
  Keep({.first = 20});
  EXPECT_EQ(Run({"submit", "--resume=tiny-1"}), 0) << cli_.err();
  EXPECT_EQ(cli_.err(), "");
  EXPECT_EQ(cli_.transfer.written.state, Parameters(120));
  const std::string file = JobFile("next.textproto", {});
  EXPECT_EQ(Run({"submit", file, "--resume=tiny-1"}), 0) << cli_.err();
  EXPECT_FALSE(Submitted().job().downpour().has_rounds());
  EXPECT_EQ(cli_.err(), "");
  EXPECT_EQ(cli_.transfer.written.state, Parameters(120));
}

// The new job's copy begins with the parameters.
TEST_F(ResumeOfRounds, ThePublicCopyIsNotTakenOver) {
  stored_.mutable_downpour()->set_fetch_changes(INT4);
  Keep({.first = 20});
  EXPECT_EQ(Run({"submit", "--resume=tiny-1"}), 0) << cli_.err();
  EXPECT_EQ(cli_.err(), "");
  EXPECT_EQ(Submitted().job().downpour().fetch_changes(), INT4);
  EXPECT_EQ(cli_.transfer.written.parameters, Parameters(20));
  EXPECT_EQ(cli_.transfer.written.state, Parameters(120));
  EXPECT_EQ(Run({"inspect", "tiny-1"}), 0) << cli_.err();
  EXPECT_THAT(cli_.out(), HasSubstr(", and the sum of a round, and a public copy\n"));
}

TEST_F(ResumeOfRounds, InspectTellsTheirSumFromTheOptimizersState) {
  Keep({});
  EXPECT_EQ(Run({"inspect", "tiny-1"}), 0) << cli_.err();
  EXPECT_THAT(cli_.out(), HasSubstr("optimizer    adagrad, 1 floats of state for each parameter, "
                                    "and the sum of a round\n"));
}

TEST_F(ResumeTest, AStopThatIsReachedIsSaid) {
  Keep({.steps = 24});
  EXPECT_EQ(Run({"submit", "--resume=tiny-1", "--set=stop={ epochs: 1.5 }"}), 0);
  EXPECT_THAT(cli_.err(), HasSubstr("tiny-1 is at its stop already (epoch 1.5, 24 steps): the new "
                                    "job will not train; raise it, as in --set=stop.epochs=3\n"));
  EXPECT_EQ(Run({"submit", "--resume=tiny-1", "--set=stop={ steps: 24 }"}), 0);
  EXPECT_THAT(cli_.err(), HasSubstr("--set=stop.steps=48\n"));
  // Seconds are those of the new job.
  EXPECT_EQ(Run({"submit", "--resume=tiny-1", "--set=stop={ epochs: 1.75 steps: 25 seconds: 1 }"}),
            0);
  EXPECT_EQ(cli_.err(), "");
}

TEST_F(ResumeTest, TheNewestGoodGenerationOrTheOneThatIsNamed) {
  Keep({.generation = 1, .first = 10});
  Keep({.generation = 2, .first = 20});
  Keep({.generation = 3, .first = 30});
  cli_.storage.CorruptByte(Part({.generation = 3}, 0, "safetensors"), 20, 1);
  EXPECT_EQ(Run({"submit", "--resume=tiny-1"}), 0);
  EXPECT_THAT(cli_.err(), AllOf(StartsWith("coordinator: passed over: generation 3"),
                                HasSubstr(Part({.generation = 3}, 0, "safetensors"))));
  EXPECT_EQ(cli_.transfer.written.parameters, Parameters(20));
  EXPECT_EQ(Run({"submit", "--resume=" + Part({.generation = 1}, 0, "manifest")}), 0);
  EXPECT_EQ(cli_.transfer.written.parameters, Parameters(10));
  EXPECT_EQ(Run({"submit", "--resume=" + Part({.generation = 3}, 0, "manifest")}), 5);
  EXPECT_THAT(cli_.err(), HasSubstr(Part({.generation = 3}, 0, "safetensors")));
}

TEST_F(ResumeTest, MistakesLeaveNoJobBehind) {
  EXPECT_EQ(Run({"submit", "--resume=tiny-1"}), 2);
  EXPECT_THAT(cli_.err(), HasSubstr("there is no checkpoint of any job in /state/jobs"));
  Keep({});
  EXPECT_EQ(Run({"submit", "--resume=tiny-1", "--init=" + model_}), 2);
  EXPECT_THAT(cli_.err(), HasSubstr("--init and --resume exclude each other"));
  EXPECT_EQ(Run({"submit"}), 2);
  EXPECT_THAT(cli_.err(), HasSubstr("an argument is missing"));
  ExpectNoJob();
  cli_.transfer.status = absl::UnavailableError("ps/0 does not answer");
  EXPECT_EQ(Run({"submit", "--resume=tiny-1"}), 3);
  EXPECT_EQ(cli_.coordinator.calls.back(), "Cancel tiny-1");
}

// The shards hold what tiny-1 has ended with.
class HeldResume : public ResumeTest {
 protected:
  void SetUp() override {
    ResumeTest::SetUp();
    Hold();
  }
  void Hold() {
    ResumePoint* const held = cli_.coordinator.location.mutable_held();
    held->set_source_job("tiny-1");
    held->set_generation(2);
    *held->mutable_context() = Content({.generation = 2, .steps = 24}, 0).context();
  }
};

// No checkpoint can be read here, and nothing is written.
TEST_F(HeldResume, StaysOnTheShards) {
  EXPECT_EQ(Run({"submit", "--resume=tiny-1"}), 0) << cli_.err();
  EXPECT_EQ(cli_.out(),
            "submitted tiny-1, state PENDING\n"
            "resuming tiny-1 generation 2 (epoch 1.5, 24 steps) as tiny-1, from what the shards "
            "hold\n");
  EXPECT_EQ(cli_.err(), "");
  EXPECT_TRUE(Submitted().init());
  EXPECT_TRUE(Submitted().resume_held());
  EXPECT_EQ(Submitted().resume().source_job(), "tiny-1");
  EXPECT_EQ(Submitted().resume().generation(), 2u);
  EXPECT_TRUE(MessageDifferencer::Equals(Submitted().job(), stored_));
  EXPECT_TRUE(cli_.transfer.written.parameters.empty());
  EXPECT_THAT(cli_.coordinator.calls, ElementsAre("Locate tiny-1", "Submit tiny"));
  EXPECT_EQ(Run({"submit", "--resume=tiny-1", "--set=stop.epochs=20", "--name=more", "--json"}), 0);
  EXPECT_EQ(cli_.out(),
            "{\"schema_version\":1,\"job\":\"more-1\",\"state\":\"PENDING\","
            "\"resumed_job\":\"tiny-1\",\"resumed_generation\":2,\"from_shards\":true}\n");
}

TEST_F(HeldResume, IsHeldAgainstTheNewJob) {
  const std::string wide = JobFile("wide.textproto", {{"units: 2", "units: 4"}});
  EXPECT_EQ(Run({"submit", wide, "--resume=tiny-1"}), 2);
  EXPECT_THAT(cli_.err(), HasSubstr("the new job cannot go on from tiny-1: a/weight is (2, 3) in "
                                    "tiny-1, but (4, 3) in the new job"));
  ExpectNoJob();
  EXPECT_EQ(Run({"submit", job_, "--resume=tiny-1", "--set=stop={ epochs: 1.5 }"}), 0);
  EXPECT_THAT(cli_.err(), AllOf(HasSubstr("tiny-1 was trained with adagrad, the new job with sgd: "
                                          "the optimizer's state begins anew"),
                                HasSubstr("tiny-1 is at its stop already (epoch 1.5, 24 steps)")));
  EXPECT_TRUE(Submitted().resume_held());
}

TEST_F(HeldResume, ClassesKeepTheirNumbersOrAreRefused) {
  Write("a.csv", "a,b,c,kind\n1,2,3,10.0\n3,2,1,2.0\n");
  const std::string file =
      JobFile("table.textproto", {{"train { synthetic { examples: 64 classes: 2 } }",
                                   "train { csv { file: \"a.csv\" label: \"kind\" } }"},
                                  {"test { synthetic { examples: 64 classes: 2 seed: 1 } }", ""},
                                  {"batch_size: 8", "batch_size: 1"}});
  ASSERT_OK_AND_ASSIGN(stored_, LoadJob(file));
  stored_.mutable_train()->add_class_name("10.0");
  stored_.mutable_train()->add_class_name("2.0");
  Hold();
  EXPECT_EQ(Run({"submit", file, "--resume=tiny-1"}), 0) << cli_.err();
  EXPECT_TRUE(Submitted().resume_held());
  EXPECT_THAT(Submitted().job().train().class_name(), ElementsAre("10.0", "2.0"));
  EXPECT_EQ(Run({"submit", file, "--resume=tiny-1", "--set=train.class_name=[\"2.0\", \"10.0\"]"}),
            2);
  EXPECT_THAT(cli_.err(), HasSubstr("lists the classes in another order than tiny-1, whose model "
                                    "goes on, has numbered them: 10.0, 2.0"));
  EXPECT_EQ(cli_.coordinator.submitted.size(), 1u);
  // Earlier builds numbered them as words: whoever has the file refuses it, with both lists.
  stored_.mutable_train()->clear_class_name();
  stored_.mutable_train()->clear_class_order();
  Hold();
  EXPECT_EQ(Run({"submit", "--resume=tiny-1"}), 0) << cli_.err();
  EXPECT_EQ(Submitted().job().train().class_order(), Dataset::UNTOLD);
  EXPECT_EQ(Run({"submit", file, "--resume=tiny-1"}), 0) << cli_.err();
  EXPECT_EQ(Submitted().job().train().class_order(), Dataset::UNTOLD);
  EXPECT_THAT(FindInData(Submitted().job(), DataAccess::Own()).errors.at(0).message,
              HasSubstr("by value [\"2.0\", \"10.0\"], or as words [\"10.0\", \"2.0\"]"));
}

TEST_F(HeldResume, WhatTheyHoldNoMoreIsCopied) {
  Keep({.generation = 2, .first = 20});
  cli_.coordinator.submit_errors = {absl::FailedPreconditionError("in stripes of another size")};
  EXPECT_EQ(Run({"submit", "--resume=tiny-1", "--set=stripe_kib=4"}), 0) << cli_.err();
  EXPECT_EQ(cli_.err(),
            "coordinator: the checkpoint of tiny-1 is copied: in stripes of another size\n");
  EXPECT_THAT(cli_.out(), Not(HasSubstr("from what the shards hold")));
  ASSERT_EQ(cli_.coordinator.submitted.size(), 2u);
  EXPECT_TRUE(cli_.coordinator.submitted[0].resume_held());
  EXPECT_FALSE(Submitted().resume_held());
  EXPECT_EQ(cli_.transfer.written.parameters, Parameters(20));
}

TEST_F(HeldResume, WhyTheyDoNotHoldItIsSaid) {
  Keep({.generation = 2, .first = 20});
  cli_.coordinator.location.clear_held();
  cli_.coordinator.location.set_not_held("tiny-1 (RUNNING) still changes on the shards");
  EXPECT_EQ(Run({"submit", "--resume=tiny-1"}), 0) << cli_.err();
  EXPECT_EQ(
      cli_.err(),
      "coordinator: the checkpoint of tiny-1 is copied: tiny-1 (RUNNING) still changes on the "
      "shards\n");
  EXPECT_FALSE(Submitted().resume_held());
  EXPECT_EQ(cli_.transfer.written.parameters, Parameters(20));
}

// The one that was written last may be of an earlier coordinator; a path is one on the disk.
TEST_F(HeldResume, OnlyTheJobThatIsMeantIsTaken) {
  Keep({.generation = 2, .first = 20});
  for (const std::string named : {"latest", "tiny-1@1000"}) {
    cli_.coordinator.location.set_job_term(1000);
    EXPECT_EQ(Run({"submit", "--resume=" + named}), 0) << cli_.err();
    EXPECT_TRUE(Submitted().resume_held()) << named;
    cli_.coordinator.location.set_job_term(2000);
    EXPECT_EQ(Run({"submit", "--resume=" + named}), 0) << cli_.err();
    EXPECT_FALSE(Submitted().resume_held()) << named;
    EXPECT_EQ(cli_.err(), "coordinator: the checkpoint of " + named +
                              " is copied: the coordinator's tiny-1 is another one\n");
  }
  EXPECT_EQ(Run({"submit", "--resume=" + Folder()}), 0) << cli_.err();
  EXPECT_FALSE(Submitted().resume_held());
  EXPECT_EQ(cli_.err(), "");
}

}  // namespace
}  // namespace monsoon
