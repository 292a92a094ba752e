// Joined jobs: what they need, what they must not have, and what is filled in.
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "common/config/cluster.h"
#include "common/config/config_test_util.h"
#include "common/config/job.h"
#include "common/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/downpour.pb.h"
#include "proto/optimizer.pb.h"

namespace monsoon {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::StatusIs;

Job Joined() {
  Job job;
  job.set_name("gpt");
  ModelTensor* const tensor = job.mutable_model()->add_tensor();
  tensor->set_name("wte.weight");
  tensor->add_shape(100);
  job.mutable_train()->mutable_joiners()->set_examples(1000);
  job.set_batch_size(10);
  job.mutable_downpour()->mutable_optimizer()->mutable_adagrad()->set_rate(0.03);
  job.mutable_stop()->set_epochs(3);
  return job;
}

TEST(JoinedCheckTest, AJobOfTensorsAndJoinersIsValidWithItsDefaultsToo) {
  Job job = Joined();
  job.mutable_test()->mutable_joiners();
  job.mutable_downpour()->mutable_warmstart()->set_steps(100);
  EXPECT_TRUE(IsJoined(job));
  EXPECT_OK(ValidateJob(job));
  FillJobDefaults(&job);
  EXPECT_OK(ValidateJob(job));
}

// Who shares an outer optimizer that is not set is not the job's to know
// (coordinator/job/outer_optimizer.h).
TEST(JoinedCheckTest, LocalStepsNeedNoOuterOptimizer) {
  Job job = Joined();
  job.mutable_downpour()->clear_optimizer();
  job.mutable_downpour()->mutable_local()->set_steps(500);
  EXPECT_OK(ValidateJob(job));
  FillJobDefaults(&job);
  EXPECT_EQ(job.downpour().optimizer().kind_case(), Optimizer::KIND_NOT_SET);
  EXPECT_OK(ValidateJob(job));
  job.mutable_downpour()->set_programs(3);
  EXPECT_OK(ValidateJob(job));
}

TEST(JoinedCheckTest, AnOuterOptimizerTakesDifferences) {
  Job job = Joined();
  job.mutable_downpour()->mutable_local()->set_steps(500);
  Nesterov* const nesterov = job.mutable_downpour()->mutable_optimizer()->mutable_nesterov();
  nesterov->set_rate(0.7);
  nesterov->set_momentum(0.9);
  EXPECT_OK(ValidateJob(job));
  FillJobDefaults(&job);
  EXPECT_EQ(job.downpour().optimizer().nesterov().rate(), 0.7);
  EXPECT_EQ(job.downpour().optimizer().nesterov().period(), 1u);
  EXPECT_OK(ValidateJob(job));
}

TEST(JoinedCheckTest, BlocksAreLargerWhereStepsAreLocal) {
  struct Case {
    uint32_t local_steps, examples, batches;
  };
  for (const Case& c : {Case{0, 1000000, 8}, Case{20, 1000000, 8}, Case{100, 1000000, 25},
                        Case{500, 1000000, 64}, Case{500, 10000, 31}, Case{500, 100, 8}}) {
    Job job = Joined();
    job.mutable_downpour()->clear_optimizer();
    job.mutable_downpour()->mutable_local()->set_steps(c.local_steps);
    job.mutable_train()->mutable_joiners()->set_examples(c.examples);
    FillJobDefaults(&job);
    EXPECT_EQ(job.block_examples(), c.batches * 10) << c.local_steps << ", " << c.examples;
  }
}

TEST(JoinedCheckTest, NobodyNeedKnowHowManySamplesThereAre) {
  Job job = Joined();
  job.mutable_train()->mutable_joiners()->clear_examples();
  job.mutable_train()->mutable_joiners()->set_unnumbered(true);
  job.clear_stop();
  EXPECT_OK(ValidateJob(job));
  job.mutable_stop()->set_steps(10);
  EXPECT_OK(ValidateJob(job));
}

struct Wrong {
  std::string what;
  std::function<void(Job*)> change;
  std::string message;
};

TEST(JoinedCheckTest, ErrorsNameTheFieldAndWhatToDo) {
  const std::vector<Wrong> wrong = {
      {"no count", [](Job* job) { job->mutable_train()->mutable_joiners()->set_examples(0); },
       "train.joiners.examples: must be at least 1"},
      {"very many",
       [](Job* job) { job->mutable_train()->mutable_joiners()->set_examples(uint64_t{80} << 24); },
       "train.joiners.examples: 1342177280 samples are more than 16777216 blocks of 80"},
      {"both", [](Job* job) { job->mutable_train()->mutable_joiners()->set_unnumbered(true); },
       "train.joiners.unnumbered: samples without numbers are not counted either"},
      {"epochs of uncounted samples",
       [](Job* job) {
         job->mutable_train()->mutable_joiners()->clear_examples();
         job->mutable_train()->mutable_joiners()->set_unnumbered(true);
       },
       "stop.epochs: samples without numbers have no epochs"},
      {"files", [](Job* job) { job->mutable_train()->mutable_idx()->set_images("a"); },
       "train: a model that lists its tensors has its data in the programs"},
      {"test files", [](Job* job) { job->mutable_test()->mutable_synthetic(); },
       "test: a model that lists its tensors has its data in the programs"},
      {"no mode", [](Job* job) { job->clear_downpour(); },
       "downpour: a joined job is trained by Downpour SGD"},
      {"a batch", [](Job* job) { job->mutable_sandblaster(); },
       "sandblaster: a model that lists its tensors is trained by Downpour SGD"},
      {"workers", [](Job* job) { job->mutable_downpour()->set_workers(2); }, "downpour.workers"},
      {"precision", [](Job* job) { job->set_compute_precision(Job::TF32); }, "compute_precision"},
      {"standardise", [](Job* job) { job->set_standardise(true); }, "standardise"},
      {"limit", [](Job* job) { job->mutable_train()->set_limit(5); }, "train.limit"},
      {"mean", [](Job* job) { job->mutable_train()->set_mean(5); }, "train.mean"},
      {"a batch over the data", [](Job* job) { job->set_batch_size(0); }, "batch_size"},
      {"many local steps",
       [](Job* job) { job->mutable_downpour()->mutable_local()->set_steps(1048577); },
       "downpour.local.steps: 1048577 is more than 1048576"},
      {"a landing",
       [](Job* job) {
         job->mutable_downpour()->mutable_local()->set_steps(8);
         job->mutable_downpour()->mutable_local()->set_landing_steps(2);
       },
       "downpour.local.landing_steps: with programs what is fetched lands before their next step"},
      {"fragments of unequal steps",
       [](Job* job) {
         job->mutable_downpour()->mutable_local()->set_steps(9);
         job->mutable_downpour()->mutable_local()->mutable_fragments()->set_count(2);
       },
       "downpour.local.steps: 9 is no multiple of the 2 fragments"},
      {"local steps and decay",
       [](Job* job) {
         job->mutable_downpour()->mutable_local()->set_steps(5);
         job->mutable_downpour()->mutable_optimizer()->set_weight_decay(0.1);
       },
       "downpour.optimizer.weight_decay: with local steps the outer optimizer gets differences"},
      {"local steps and AdamW",
       [](Job* job) {
         job->mutable_downpour()->mutable_local()->set_steps(5);
         job->mutable_downpour()->mutable_optimizer()->mutable_adam_w()->set_rate(1);
       },
       "downpour.optimizer.adam_w: with local steps"},
      {"local steps and clipping",
       [](Job* job) {
         job->mutable_downpour()->mutable_local()->set_steps(5);
         job->mutable_downpour()->mutable_optimizer()->set_clip_norm(0.1);
       },
       "downpour.optimizer.clip_norm: with local steps"},
      {"local steps and n_fetch",
       [](Job* job) {
         job->mutable_downpour()->mutable_local()->set_steps(5);
         job->mutable_downpour()->set_n_fetch(5);
       },
       "downpour.n_fetch: with local steps each difference is one fetch"},
      {"an inner optimizer",
       [](Job* job) {
         job->mutable_downpour()->mutable_local()->set_steps(5);
         job->mutable_downpour()->mutable_local()->mutable_inner()->mutable_sgd()->set_rate(1);
       },
       "downpour.local.inner: the optimizer of local steps is the affair of the programs"},
      {"two tensors of a name",
       [](Job* job) { *job->mutable_model()->add_tensor() = job->model().tensor(0); },
       "model.tensor: tensor \"wte.weight\": the name is used twice"},
  };
  for (const Wrong& each : wrong) {
    Job job = Joined();
    each.change(&job);
    EXPECT_THAT(ValidateJob(job),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(each.message)))
        << each.what;
  }
}

Job JoinedWithTable() {
  Job job = Joined();
  Table* const table = job.mutable_model()->add_table();
  table->set_name("words");
  table->set_rows(1000);
  table->set_columns(16);
  return job;
}

TEST(JoinedCheckTest, TablesStandBesideTensors) {
  Job job = JoinedWithTable();
  EXPECT_OK(ValidateJob(job));
  FillJobDefaults(&job);
  EXPECT_OK(ValidateJob(job));
  job.mutable_downpour()->set_n_push(4);
  job.mutable_downpour()->set_push_format(TOP_K);
  EXPECT_OK(ValidateJob(job));
}

TEST(JoinedCheckTest, TablesMoveByGradientsAlone) {
  constexpr char kWhatToDo[] = "leave it out, or make the tables tensors of the model";
  const std::vector<Wrong> wrong = {
      {"local steps", [](Job* job) { job->mutable_downpour()->mutable_local()->set_steps(50); },
       "downpour.local: not with tables: rows are pushed as gradients"},
      {"rounds",
       [](Job* job) {
         job->mutable_downpour()->mutable_local()->set_steps(50);
         job->mutable_downpour()->mutable_rounds();
       },
       "downpour.rounds: not with tables: "},
      {"fragments",
       [](Job* job) {
         job->mutable_downpour()->mutable_local()->set_steps(50);
         job->mutable_downpour()->mutable_local()->mutable_fragments()->set_count(2);
       },
       "downpour.local.fragments: not with tables: "},
      {"changes",
       [](Job* job) {
         job->mutable_downpour()->mutable_local()->set_steps(50);
         job->mutable_downpour()->set_fetch_changes(INT8);
       },
       "downpour.fetch_changes: not with tables: "},
      {"damping", [](Job* job) { job->mutable_downpour()->mutable_optimizer()->set_damping(0.5); },
       "downpour.optimizer.damping: not with tables: "},
      {"drop_older",
       [](Job* job) {
         job->mutable_downpour()->set_staleness_bound(4);
         job->mutable_downpour()->set_staleness_policy(DROP_OLDER);
       },
       "downpour.staleness_policy: not with tables: "},
  };
  for (const Wrong& each : wrong) {
    Job job = JoinedWithTable();
    each.change(&job);
    EXPECT_THAT(ValidateJob(job), StatusIs(absl::StatusCode::kInvalidArgument,
                                           AllOf(HasSubstr(each.message), HasSubstr(kWhatToDo))))
        << each.what;
    job.mutable_model()->clear_table();
    EXPECT_OK(ValidateJob(job)) << each.what;
  }
  Job job = JoinedWithTable();
  job.mutable_sandblaster();
  EXPECT_THAT(ValidateJob(job), StatusIs(absl::StatusCode::kInvalidArgument,
                                         HasSubstr("sandblaster: a model that lists its tensors")));
}

TEST(JoinedCheckTest, WhatIsWrongWithATableIsSaidOfIt) {
  const std::vector<Wrong> wrong = {
      {"a tensor's name",
       [](Job* job) { job->mutable_model()->mutable_table(0)->set_name("wte.weight"); },
       "model.table: table \"wte.weight\": the name is used twice"},
      {"no rows", [](Job* job) { job->mutable_model()->mutable_table(0)->set_rows(0); },
       "model.table: table \"words\": 0 rows of 16 columns"},
      {"a rate",
       [](Job* job) {
         job->mutable_model()->mutable_table(0)->mutable_optimizer()->set_learning_rate(-1);
       },
       "model.table[0].optimizer.learning_rate: -1 is not positive and finite"},
      {"no tensor", [](Job* job) { job->mutable_model()->clear_tensor(); },
       "model.table: tables stand beside listed tensors"},
      {"layers",
       [](Job* job) {
         job->mutable_model()->clear_tensor();
         job->mutable_model()->add_input_shape(4);
         job->mutable_model()->add_layer()->mutable_dense()->set_units(2);
       },
       "model.table: tables stand beside listed tensors, at least one; a model of layers has none; "
       "leave one of them out"},
  };
  for (const Wrong& each : wrong) {
    Job job = JoinedWithTable();
    each.change(&job);
    EXPECT_THAT(ValidateJob(job),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(each.message)))
        << each.what;
  }
}

TEST(JoinedCheckTest, AFileOfLayersAndTablesIsRefusedAtItsTable) {
  const std::string text = R"(model {
  input_shape: 4
  layer { dense { units: 2 } }
  table { name: "words" rows: 10 columns: 4 }
}
batch_size: 4
train { synthetic { examples: 8 classes: 2 } }
downpour { optimizer { sgd { rate: 0.1 } } }
stop { epochs: 1 }
)";
  LoadOptions options;
  options.contents = &text;
  EXPECT_THAT(LoadJob("words.textproto", options).status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("words.textproto:4:3: error: model.table: tables stand beside")));
}

TEST(JoinedCheckTest, RoundsAndWeightsAreOfDifferences) {
  Job job = Joined();
  Downpour* const downpour = job.mutable_downpour();
  const auto refused = [&job](const std::string& message) {
    EXPECT_THAT(ValidateJob(job), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(message)));
    EXPECT_THAT(std::string(ValidateJob(job).message()), Not(HasSubstr("\n")));  // that alone
  };
  downpour->mutable_rounds();
  refused("downpour.rounds: means nothing without local steps");
  downpour->clear_rounds();
  downpour->mutable_local()->set_weight(TOKENS);
  refused("downpour.local.steps: says nothing of how many");
  downpour->mutable_local()->set_weight(DEFAULT_WEIGHT);
  downpour->mutable_local()->set_weight_reference(50);
  refused("downpour.local.steps: says nothing of how many");

  downpour->mutable_local()->set_steps(50);
  refused("downpour.local.weight_reference: means nothing without weight");
  downpour->mutable_local()->set_weight(STEPS);
  EXPECT_OK(ValidateJob(job));
  downpour->mutable_local()->set_weight(DEFAULT_WEIGHT);
  downpour->mutable_rounds();  // where it is STEPS
  EXPECT_OK(ValidateJob(job));
  for (const double reference : {-1.0, std::nan(""), HUGE_VAL}) {
    downpour->mutable_local()->set_weight_reference(reference);
    refused("downpour.local.weight_reference: ");
  }
  downpour->mutable_local()->clear_weight_reference();
  downpour->mutable_local()->set_weight(static_cast<DifferenceWeight>(4));
  refused("downpour.local.weight: unknown weight");
  downpour->mutable_local()->set_weight(TOKENS_SQUARED_PER_STEP);
  EXPECT_OK(ValidateJob(job));
  downpour->mutable_optimizer()->set_damping(0.5);  // both at once
  EXPECT_OK(ValidateJob(job));
  FillJobDefaults(&job);
  EXPECT_TRUE(job.downpour().has_rounds());
  EXPECT_OK(ValidateJob(job));
}

TEST(JoinedCheckTest, ARoundHasAQuorumAndAGrace) {
  Job job = Joined();
  job.mutable_downpour()->mutable_local()->set_steps(50);
  Rounds* const rounds = job.mutable_downpour()->mutable_rounds();
  const auto check = [&](uint32_t quorum, double grace) {
    rounds->set_quorum(quorum);
    rounds->set_grace_seconds(grace);
    return ValidateJob(job);
  };
  EXPECT_OK(check(0, 0));
  EXPECT_OK(check(1, 0));
  EXPECT_OK(check(4096, 3600));
  const auto refusal = [](const std::string& message) {
    return StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(message));
  };
  EXPECT_THAT(check(4097, 1), refusal("downpour.rounds.quorum: 4097 is more than 4096"));
  EXPECT_THAT(check(0, 1), refusal("downpour.rounds.grace_seconds: means nothing without quorum"));
  EXPECT_THAT(check(1, 3600.5),
              refusal("downpour.rounds.grace_seconds: 3600.5 is outside 0 .. 3600 seconds"));
  EXPECT_THAT(check(1, -0.5), refusal("downpour.rounds.grace_seconds: -0.5 is outside"));
  EXPECT_THAT(check(1, std::nan("")), refusal("downpour.rounds.grace_seconds: nan is outside"));
  EXPECT_THAT(check(1, HUGE_VAL), refusal("downpour.rounds.grace_seconds: inf is outside"));
  rounds->set_adaptive_share(0.9);
  EXPECT_OK(check(1, 10));
  EXPECT_THAT(check(1, 0),
              refusal("downpour.rounds.adaptive_share: means nothing without grace_seconds"));
  rounds->set_adaptive_share(1.5);
  EXPECT_THAT(check(1, 10), refusal("downpour.rounds.adaptive_share: 1.5"));
  rounds->clear_adaptive_share();

  // Of a network, whose workers are counted.
  job.mutable_model()->clear_tensor();
  job.mutable_model()->add_input_shape(4);
  job.mutable_model()->add_layer()->mutable_dense()->set_units(2);
  job.mutable_train()->mutable_synthetic()->set_examples(100);
  job.mutable_train()->mutable_synthetic()->set_classes(2);
  job.mutable_downpour()->mutable_local()->mutable_inner()->mutable_sgd()->set_rate(0.1);
  EXPECT_OK(check(5, 0));
  job.mutable_downpour()->set_workers(4);
  EXPECT_OK(check(4, 2));
  EXPECT_THAT(check(5, 2), refusal("downpour.rounds.quorum: 5 is more than the job's workers (4)"));
}

TEST(JoinedCheckTest, OneOfLayersHasNoJoinersAndAnInnerOptimizerForItsLocalSteps) {
  Job job = Joined();
  job.mutable_model()->clear_tensor();
  job.mutable_model()->add_input_shape(4);
  job.mutable_model()->add_layer()->mutable_dense()->set_units(2);
  EXPECT_THAT(ValidateJob(job), StatusIs(absl::StatusCode::kInvalidArgument,
                                         HasSubstr("train.joiners: only a model that lists")));
  job.mutable_train()->mutable_synthetic()->set_examples(100);
  job.mutable_train()->mutable_synthetic()->set_classes(2);
  EXPECT_OK(ValidateJob(job));
  const auto refused = [&job](const std::string& message) {
    EXPECT_THAT(ValidateJob(job), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(message)));
  };
  Downpour* const downpour = job.mutable_downpour();
  downpour->mutable_local()->set_steps(50);
  refused("downpour.local.inner: local steps of a network are by an optimizer of the replica's");
  Optimizer* const inner = downpour->mutable_local()->mutable_inner();
  refused("downpour.local.inner: local steps of a network");
  inner->mutable_adam_w()->set_rate(0.001);
  downpour->mutable_optimizer()->set_clip_norm(1.0);
  EXPECT_OK(ValidateJob(job));
  Job filled = job;
  FillJobDefaults(&filled);
  EXPECT_EQ(filled.downpour().local().inner().adam_w().beta2(), 0.999);
  EXPECT_OK(ValidateJob(filled));
  inner->mutable_muon()->set_rate(0.02);
  downpour->mutable_local()->set_dynamic(true);
  EXPECT_OK(ValidateJob(job));
  filled = job;
  FillJobDefaults(&filled);
  EXPECT_EQ(filled.downpour().local().inner().muon().momentum(), 0.95);
  EXPECT_EQ(filled.downpour().local().inner().muon().weight_decay(), 0.1);
  EXPECT_EQ(filled.downpour().local().inner().muon().steps(), 5u);
  EXPECT_OK(ValidateJob(filled));
  // A model's only weight may be a table, or a scale.
  Job other = job;
  *other.mutable_model()->mutable_layer(0)->mutable_layer_norm() = LayerNorm();
  EXPECT_THAT(ValidateJob(other),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("downpour.local.inner.muon: the model has no matrix for it")));
  inner->clear_muon();
  downpour->mutable_local()->set_dynamic(false);
  inner->set_damping(1.0);
  refused("downpour.local.inner.damping: is the shards' affair");
  inner->clear_damping();
  inner->mutable_average();
  refused("downpour.local.inner.average: is the shards' affair");
  inner->clear_average();
  inner->set_weight_decay(0.1);
  refused("downpour.local.inner.weight_decay: adam_w has a weight_decay of its own");
  inner->clear_weight_decay();
  downpour->mutable_local()->set_steps(0);
  refused("downpour.local.steps: says nothing of how many");
}

TEST(JoinedCheckTest, NoFileIsOne) {
  const std::string text = R"(model { tensor { name: "a" shape: 4 } }
batch_size: 4
train { joiners { examples: 8 } }
downpour { optimizer { sgd { rate: 0.1 } } }
stop { epochs: 1 }
)";
  LoadOptions options;
  options.contents = &text;
  EXPECT_THAT(LoadJob("gpt.textproto", options).status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("made by the programs that join them, and only these can train")));
}

TEST(JoinedCheckTest, TablesMustFitTheirShardsOnceAllRowsAreTouched) {
  Cluster cluster;
  cluster.set_name("c");
  cluster.add_ps()->set_address("unix:p0");
  cluster.mutable_ps(0)->set_memory_limit_mib(1);
  Job job = JoinedWithTable();
  Table* const table = job.mutable_model()->mutable_table(0);
  table->set_columns(63);  // with the sum 256 bytes a row
  table->set_rows(3800);
  EXPECT_OK(ValidateJobOnCluster(job, cluster));
  table->set_rows(4000);
  // 4000 x 256 and 192 for a stripe; 112 floats twice, and what they have beside.
  EXPECT_THAT(
      ValidateJobOnCluster(job, cluster),
      StatusIs(absl::StatusCode::kResourceExhausted,
               HasSubstr("job \"gpt\" needs 1075776 bytes on ps/0 for 112 floats of the model "
                         "(parameters, optimizer state, rows of tables and their sums), its limit "
                         "is 1048576")));
  *cluster.add_ps() = cluster.ps(0);
  EXPECT_OK(ValidateJobOnCluster(job, cluster));
  table->set_columns(1);
  table->set_rows(uint64_t{1} << 34);
  EXPECT_THAT(ValidateJobOnCluster(job, cluster),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("job \"gpt\": model.table: table \"words\": 17179869184 rows on 2 "
                                 "shards: a shard holds at most 2^32; use more ps tasks")));
}

TEST(JoinedCheckTest, NeedsNoWorkersOfTheCluster) {
  Cluster cluster;
  cluster.set_name("c");
  cluster.add_ps()->set_address("unix:p0");
  EXPECT_OK(ValidateJobOnCluster(Joined(), cluster));
}

}  // namespace
}  // namespace monsoon
