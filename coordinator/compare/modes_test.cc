#include "coordinator/compare/modes.h"

#include <google/protobuf/text_format.h>

#include "common/config/job.h"
#include "common/testing/status_matchers.h"
#include "coordinator/compare/rates.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/downpour.pb.h"
#include "proto/optimizer.pb.h"
#include "proto/synchronous.pb.h"

namespace monsoon {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr char kModel[] = R"pb(
  name: "tiny"
  model {
    name: "tiny"
    input_shape: 3
    layer {
      name: "a"
      dense { units: 2 }
    }
  }
  train { synthetic { examples: 64 classes: 2 } }
  test { synthetic { examples: 64 classes: 2 seed: 1 } }
  seed: 7
  batch_size: 8
)pb";

Job JobOf(const std::string& more) {
  Job job;
  const bool parsed = google::protobuf::TextFormat::ParseFromString(kModel + more, &job);
  EXPECT_TRUE(parsed) << more;
  FillJobDefaults(&job);
  EXPECT_OK(ValidateJob(job));
  return job;
}

Job Plain() {
  return JobOf(R"pb(
    downpour {
      local_update { adagrad_rate: 0.02 }
      optimizer {
        adagrad { rate: 0.01 }
        schedule { warm_up_pushes: 300 }
      }
    }
    stop { epochs: 2.5 }
    evaluation { every_epochs: 0.5 }
  )pb");
}

ChosenMode Chosen(const std::string& text) { return ParseModes(text)->at(0); }

ModeJob Made(const std::string& mode, const Job& job) {
  absl::StatusOr<ModeJob> made = MakeModeJob(Chosen(mode), job);
  EXPECT_OK(made.status());
  return made.ok() ? *std::move(made) : ModeJob();
}

std::string Refusal(const std::string& mode, const Job& job) {
  return std::string(MakeModeJob(Chosen(mode), job).status().message());
}

std::string ParseError(const std::string& list) {
  return std::string(ParseModes(list).status().message());
}

TEST(ModesTest, EachRowsExampleIsAModeOfAPlainJob) {
  for (const Mode& mode : Modes()) {
    const std::string text = ExampleOf(mode);
    const auto parsed = ParseModes(text);
    ASSERT_OK(parsed.status());
    EXPECT_EQ(parsed->at(0).text, text);
    EXPECT_OK(MakeModeJob(parsed->at(0), Plain()).status()) << text;
    EXPECT_THAT(ModesHelp("  "), HasSubstr(mode.summary));
  }
}

TEST(ModesTest, WhatIsComparedStaysTheSame) {
  const Job plain = Plain();
  for (const Mode& mode : Modes()) {
    const Job job = Made(ExampleOf(mode), plain).job;
    EXPECT_EQ(job.seed(), plain.seed()) << mode.name;
    EXPECT_EQ(job.batch_size(), plain.batch_size()) << mode.name;
    EXPECT_EQ(job.block_examples(), plain.block_examples()) << mode.name;
    if (job.has_downpour()) {
      EXPECT_EQ(job.stop().epochs(), plain.stop().epochs()) << mode.name;
    }
  }
}

TEST(ModesTest, ANumberIsWrittenInOneWay) {
  EXPECT_EQ(Chosen("damped:0.50").text, "damped:0.5");
  EXPECT_EQ(Chosen("damped:0.50").NamePart(), "damped-0_5");
  EXPECT_EQ(Chosen("local:1048576").NamePart(), "local-1048576");
  EXPECT_EQ(Chosen("damped:0.12345678").text, "damped:0.12345678");
  EXPECT_EQ(Chosen(" single ").text, "single");
}

TEST(ModesTest, StepsMayBeLeftOut) {
  const auto modes = ParseModes("local,diloco");
  ASSERT_OK(modes);
  ASSERT_EQ(modes->size(), 2u);
  EXPECT_EQ((*modes)[0].text, "local:50");
  EXPECT_EQ((*modes)[1].number, 50);
  EXPECT_EQ((*modes)[1].NamePart(), "diloco-50");
  EXPECT_THAT(ModesHelp(""), HasSubstr("\ndiloco[:H]"));
}

TEST(ModesTest, AllThatIsWrongWithAListIsTold) {
  EXPECT_EQ(ParseError("downpuor,ssp,local:0,local:1.5,ssp:65537,drop:-1,damped:0,damped:4.1,"
                       "single:3,diloco:x"),
            "--modes: there is no mode \"downpuor\"; did you mean \"downpour\"?\n"
            "--modes: \"ssp\": its S is missing; as in ssp:3\n"
            "--modes: \"local:0\": H is a whole number in 1 .. 1048576; as in local:50\n"
            "--modes: \"local:1.5\": H is a whole number in 1 .. 1048576; as in local:50\n"
            "--modes: \"ssp:65537\": S is a whole number in 0 .. 65536; as in ssp:3\n"
            "--modes: \"drop:-1\": S is a whole number in 0 .. 65536; as in drop:8\n"
            "--modes: \"damped:0\": P is a number above 0 and up to 4; as in damped:0.5\n"
            "--modes: \"damped:4.1\": P is a number above 0 and up to 4; as in damped:0.5\n"
            "--modes: \"single:3\": single takes no number; write single\n"
            "--modes: \"diloco:x\": H is a whole number in 1 .. 1048576; as in diloco:50");
  EXPECT_EQ(ParseError("local:50,local:50.0"),
            "--modes: \"local:50\" is there twice; leave one out");
  EXPECT_THAT(ParseError("ring!"), HasSubstr("there are single, downpour"));
  EXPECT_THAT(ParseError("local:nan"), HasSubstr("H is a whole number"));
  EXPECT_THAT(ParseError(""), HasSubstr("there is no mode \"\""));
}

TEST(ModesTest, Single) {
  const Job job = Made("single", Plain()).job;
  EXPECT_EQ(job.downpour().workers(), 1);
  EXPECT_EQ(job.downpour().overlap(), ASYNC);
  const Job chain = JobOf(R"pb(downpour { optimizer { sgd { rate: 0.1 } } }
                               sandblaster {}
                               stop { epochs: 1 })pb");
  EXPECT_EQ(Made("single", chain).job.sandblaster().workers(), 1);
}

TEST(ModesTest, DownpourIsTheJobItself) {
  const Job plain = Plain();
  EXPECT_EQ(Made("downpour", plain).job.SerializeAsString(), plain.SerializeAsString());
}

TEST(ModesTest, Bounds) {
  const Downpour waits = Made("ssp:3", Plain()).job.downpour();
  EXPECT_EQ(waits.staleness_bound(), 3);
  EXPECT_EQ(waits.staleness_policy(), WAIT_FOR_SLOWEST);
  EXPECT_TRUE(Made("ssp:0", Plain()).job.downpour().has_staleness_bound());
  const Downpour drops = Made("drop:8", Plain()).job.downpour();
  EXPECT_EQ(drops.staleness_bound(), 8);
  EXPECT_EQ(drops.staleness_policy(), DROP_OLDER);
}

TEST(ModesTest, Damped) {
  EXPECT_EQ(Made("damped:0.5", Plain()).job.downpour().optimizer().damping(), 0.5);
}

TEST(ModesTest, Local) {
  const Downpour local = Made("local:50", Plain()).job.downpour();
  EXPECT_EQ(local.local().steps(), 50);
  EXPECT_EQ(local.local().inner().adagrad().rate(), 0.01);
  // What counted the pushes of all counts the steps of all.
  EXPECT_EQ(local.local().inner().schedule().warm_up_pushes(), 300);
  EXPECT_TRUE(local.local().inner().schedule().in_steps());
  // Averaged.
  EXPECT_EQ(local.optimizer().kind_case(), Optimizer::KIND_NOT_SET);
  EXPECT_FALSE(local.has_rounds());
  EXPECT_TRUE(local.local_update().has_none());
}

TEST(ModesTest, APushOfSeveralStepsCountsAsThese) {
  const Job job = JobOf(R"pb(downpour {
                               n_push: 4
                               n_fetch: 4
                               optimizer {
                                 sgd { rate: 0.1 }
                                 schedule { warm_up_pushes: 10 }
                               }
                             }
                             stop { steps: 100 })pb");
  const ModeJob local = Made("local:8", job);
  EXPECT_EQ(local.job.downpour().local().inner().schedule().warm_up_pushes(), 40);
  EXPECT_EQ(local.job.downpour().n_push(), 1);
  EXPECT_THAT(local.notes, ElementsAre(HasSubstr("n_fetch means nothing")));
}

TEST(ModesTest, Diloco) {
  const Downpour rounds = Made("diloco:20", Plain()).job.downpour();
  EXPECT_EQ(rounds.local().steps(), 20);
  EXPECT_TRUE(rounds.has_rounds());
  EXPECT_EQ(rounds.rounds().quorum(), 0);
  EXPECT_EQ(rounds.optimizer().nesterov().rate(), 0.7);
  EXPECT_EQ(rounds.optimizer().nesterov().momentum(), 0.9);
  EXPECT_LE(rounds.optimizer().nesterov().period(), 1);
}

TEST(ModesTest, AJobOfLocalStepsKeepsItsInnerOptimizerAlone) {
  const Job job = JobOf(R"pb(downpour {
                               local {
                                 steps: 4
                                 mixing: 0.5
                                 inner { adam_w { rate: 0.001 } }
                               }
                               optimizer { nesterov { rate: 0.7 momentum: 0.8 period: 3 } }
                             }
                             stop { epochs: 1 })pb");
  const Downpour local = Made("local:8", job).job.downpour();
  EXPECT_EQ(local.local().inner().adam_w().rate(), 0.001);
  EXPECT_EQ(local.local().steps(), 8);
  EXPECT_EQ(local.local().mixing(), 0);
  EXPECT_FALSE(local.optimizer().has_nesterov());
}

TEST(ModesTest, Sandblaster) {
  const ModeJob batch = Made("sandblaster", Plain());
  EXPECT_FALSE(batch.job.has_downpour());
  EXPECT_FALSE(batch.job.has_stop());
  EXPECT_EQ(batch.job.sandblaster().max_iterations(), 3);
  EXPECT_EQ(batch.job.sandblaster().evaluate_every_iterations(), 1);
  EXPECT_THAT(batch.notes, ElementsAre(HasSubstr("ends after 3 iterations")));

  Job job = Plain();
  job.mutable_stop()->set_target_accuracy(0.9);
  job.mutable_stop()->set_seconds(5);
  job.mutable_evaluation()->clear_every_epochs();
  const ModeJob other = Made("sandblaster", job);
  EXPECT_EQ(other.job.sandblaster().target_accuracy(), 0.9);
  EXPECT_EQ(other.job.sandblaster().evaluate_every_iterations(), 1);
  EXPECT_THAT(other.notes, ElementsAre(HasSubstr("ends after 3"), "without stop.seconds"));
}

TEST(ModesTest, ABatchPartOfTheJobsOwnIsTakenAsItIs) {
  const Job chain = JobOf(R"pb(downpour { optimizer { sgd { rate: 0.1 } } }
                               sandblaster { max_iterations: 12 l2: 0.5 }
                               stop { seconds: 3 })pb");
  const ModeJob batch = Made("sandblaster", chain);
  EXPECT_EQ(batch.job.sandblaster().max_iterations(), 12);
  EXPECT_EQ(batch.job.sandblaster().l2(), 0.5);
  EXPECT_THAT(batch.notes, IsEmpty());
  EXPECT_TRUE(Made("downpour", chain).job.has_sandblaster());
}

TEST(ModesTest, WhatCannotBeMadeSaysWhyAndWhatToDo) {
  const Job batch = JobOf("sandblaster { max_iterations: 3 }");
  for (const char* const mode :
       {"single", "downpour", "ssp:1", "drop:1", "damped:1", "local:5", "diloco:5"}) {
    EXPECT_EQ(Refusal(mode, batch),
              "the job has no downpour { } part; add downpour { optimizer { ... } } and stop { "
              "epochs: N }")
        << mode;
  }
  EXPECT_OK(MakeModeJob(Chosen("sandblaster"), batch).status());
  const Job timed = JobOf("downpour { optimizer { sgd { rate: 0.1 } } } stop { seconds: 3 }");
  EXPECT_EQ(Refusal("sandblaster", timed),
            "a batch job ends by its iterations, and stop { } has no epochs to tell how many; add "
            "sandblaster { max_iterations: N } or stop { epochs: N }");
  const Job averaged =
      JobOf("downpour { optimizer { adagrad { rate: 0.1 } average { } } } stop { epochs: 3 }");
  EXPECT_THAT(Refusal("local:5", averaged),
              HasSubstr("downpour.optimizer.average is the shards' affair"));
  const Job damped =
      JobOf("downpour { optimizer { sgd { rate: 0.1 } damping: 1 } } stop { epochs: 3 }");
  EXPECT_THAT(Refusal("diloco:5", damped),
              HasSubstr("downpour.optimizer.damping is the shards' affair"));
  // What `validate` would say.
  EXPECT_THAT(Refusal("ssp:3", Made("diloco:5", Plain()).job),
              HasSubstr("downpour.staleness_bound: not with rounds"));
  Job halves = Plain();
  halves.set_compute_precision(Job::BFLOAT16);
  EXPECT_THAT(Refusal("sandblaster", halves),
              HasSubstr("compute_precision: BFLOAT16 is for Downpour SGD"));
}

TEST(RatesTest, WhatGoesAlongKeepsItsProportion) {
  Job job = Plain();
  OptimizerGroup* const group = job.mutable_downpour()->mutable_optimizer()->add_group();
  group->add_tensors("*");
  group->set_rate(0.001);
  EXPECT_EQ(RateOf(job), 0.01);
  SetRate(0.1, &job);
  EXPECT_EQ(job.downpour().optimizer().adagrad().rate(), 0.1);
  EXPECT_DOUBLE_EQ(job.downpour().local_update().adagrad_rate(), 0.2);
  EXPECT_DOUBLE_EQ(job.downpour().optimizer().group(0).rate(), 0.01);
}

TEST(RatesTest, TheRateIsThatOfWhoeverTakesTheSteps) {
  Job job = Made("diloco:5", Plain()).job;
  EXPECT_EQ(RateOf(job), 0.01);
  SetRate(0.5, &job);
  EXPECT_EQ(job.downpour().local().inner().adagrad().rate(), 0.5);
  EXPECT_EQ(job.downpour().optimizer().nesterov().rate(), 0.7);
  EXPECT_EQ(RateOf(Made("sandblaster", Plain()).job), std::nullopt);
}

TEST(ModesTest, StepsAreTakenTogetherByAWord) {
  EXPECT_EQ(Chosen("synchronous").text, "synchronous:ring");
  EXPECT_EQ(Chosen("synchronous:SHARDS").NamePart(), "synchronous-shards");
  EXPECT_THAT(ParseError("synchronous:4"),
              HasSubstr("R is one of auto, naive, tree, ring, direct, exchange, shards; as in "
                        "synchronous:ring"));
  const Job job = Made("synchronous:tree", Plain()).job;
  EXPECT_EQ(job.synchronous().reduce(), Synchronous::TREE);
  EXPECT_EQ(job.synchronous().scale_rate(), Synchronous::LINEAR);
  EXPECT_FALSE(job.downpour().local_update().has_adagrad_rate());
  EXPECT_EQ(job.downpour().optimizer().adagrad().rate(), 0.01);
  // And back, whatever it stood for.
  const Job shards = Made("synchronous:shards", Plain()).job;
  EXPECT_TRUE(shards.downpour().has_rounds());
  const Job plain = Made("downpour", shards).job;
  EXPECT_FALSE(plain.has_synchronous());
  EXPECT_FALSE(plain.downpour().has_rounds());
}

}  // namespace
}  // namespace monsoon
