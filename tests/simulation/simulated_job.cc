#include "tests/simulation/simulated_job.h"

#include "common/base/check.h"
#include "common/config/job.h"
#include "common/model/parameter_layout.h"
#include "common/model/shard_map.h"
#include "google/protobuf/text_format.h"
#include "proto/downpour.pb.h"
#include "worker/sidecar/enter_job.h"

namespace monsoon::simulation {
namespace {

constexpr uint32_t kBatch = 5;

// What a job does. Drawn from dice of its own.
enum class Mode { kTraining, kBatch, kChain, kProgram };
constexpr uint64_t kModes = (uint64_t{1} << 40) + 1;
// Of the jobs of programs one in so many is ended by a program: of seeds of which none is of what
// was found once.
constexpr uint64_t kFinished = 5;
constexpr uint64_t kFinishedSeed = 3;
constexpr uint32_t kMostSteps = 12;
// Likewise, of the jobs in which the bound may be, one in so many has it.
constexpr uint64_t kBounded = 8;
constexpr uint64_t kBoundedSeed = 7;
constexpr uint32_t kBounds = 4;

Mode PickMode(Dice* dice) {
  switch (dice->Below(7)) {
    case 0:
      return Mode::kBatch;
    case 1:
      return Mode::kChain;
    case 2:
      return Mode::kProgram;
    default:
      return Mode::kTraining;
  }
}

// Exact: any order of integers gives the same bits.
void MakeCounting(World* world, Downpour* downpour) {
  world->counting = true;
  downpour->mutable_optimizer()->mutable_sgd()->set_rate(1.0);
  downpour->set_push_format(world->dice.Once(2) ? FLOAT32 : BFLOAT16);
}

void PickOptimizer(Dice* dice, Optimizer* optimizer) {
  switch (dice->Below(3)) {
    case 0:
      optimizer->mutable_momentum()->set_rate(0.05);
      optimizer->mutable_momentum()->set_momentum(0.9);
      optimizer->set_weight_decay(0.01);
      break;
    case 1:
      optimizer->mutable_sgd()->set_rate(0.1);
      optimizer->mutable_schedule()->mutable_step()->set_every_pushes(10);
      optimizer->mutable_schedule()->mutable_step()->set_factor(0.7);
      optimizer->mutable_schedule()->set_warm_up_pushes(7);
      optimizer->set_clip_value(1.5);
      break;
    default:
      optimizer->mutable_adagrad()->set_rate(0.1);
      optimizer->mutable_adagrad()->set_initial_accumulator(0.5);
      break;
  }
}

void PickPushFormat(Dice* dice, Downpour* downpour) {
  static constexpr std::array<WireFormat, 8> kFormats = {FLOAT32,  FLOAT32, FLOAT32, BFLOAT16,
                                                         BFLOAT16, FLOAT16, INT8,    TOP_K};
  downpour->set_push_format(kFormats[dice->Below(kFormats.size())]);
}

void MakeGradients(World* world, Downpour* downpour) {
  Dice& dice = world->dice;
  if (dice.Once(3)) {
    MakeCounting(world, downpour);
  } else {
    PickOptimizer(&dice, downpour->mutable_optimizer());
    PickPushFormat(&dice, downpour);
  }
  if (dice.Once(3)) {
    downpour->set_n_fetch(1 + dice.Below(3));
    downpour->set_n_push(1 + dice.Below(3));
  }
  if (dice.Once(3)) {
    downpour->set_overlap(NONE);
  }
}

void MakeDifferences(World* world, bool in_rounds, Downpour* downpour) {
  Dice& dice = world->dice;
  const uint32_t steps = 2 + 2 * dice.Below(2);
  downpour->mutable_local()->set_steps(steps);
  downpour->mutable_local()->mutable_inner()->mutable_sgd()->set_rate(0.02);
  const bool rounds = dice.Once(2) || in_rounds;
  const bool fragments = dice.Once(3);
  if (rounds) {
    Rounds& rule = *downpour->mutable_rounds();
    if (dice.Once(2)) {
      rule.set_quorum(1 + dice.Below(static_cast<uint32_t>(world->cluster.worker_size())));
      rule.set_grace_seconds(0.05 * dice.Below(5));
      rule.set_adaptive_share(rule.grace_seconds() > 0 && dice.Once(2) ? 0.9 : 0);
    }
    if (dice.Once(2)) {
      downpour->mutable_optimizer()->mutable_momentum()->set_rate(0.7);
      downpour->mutable_optimizer()->mutable_momentum()->set_momentum(0.9);
    } else {
      downpour->mutable_optimizer()->mutable_sgd()->set_rate(1.0);
    }
  } else {
    PickOptimizer(&dice, downpour->mutable_optimizer());
  }
  if (fragments) {
    downpour->mutable_local()->mutable_fragments()->set_count(2);
    downpour->mutable_local()->mutable_fragments()->set_order(Fragments::BY_STRIPE);
  } else if (dice.Once(3)) {
    downpour->set_overlap(NONE);
  }
  if (!(rounds && fragments) && dice.Once(3)) {
    downpour->mutable_local()->set_landing_steps(1 + dice.Below(fragments ? steps / 2 : steps));
  }
  PickPushFormat(&dice, downpour);
  if (dice.Once(3)) {
    downpour->set_fetch_changes(dice.Once(2) ? INT8 : BFLOAT16);
  }
}

void MakeBatch(Dice* dice, Sandblaster* batch) {
  static constexpr std::array<Sandblaster::Algorithm, 4> kAlgorithms = {
      Sandblaster::LBFGS, Sandblaster::LBFGS, Sandblaster::NONLINEAR_CG,
      Sandblaster::GRADIENT_DESCENT};
  batch->set_algorithm(kAlgorithms[dice->Below(kAlgorithms.size())]);
  batch->set_history(1 + dice->Below(4));
  batch->set_max_iterations(1 + dice->Below(8));
  batch->set_l2(dice->Once(2) ? 0.01 : 0);
  batch->set_chunk_examples(kBatch * (1 + dice->Below(2)));
  batch->set_chunks_per_contribution(1 + dice->Below(3));
  batch->set_no_backup_copies(dice->Once(3));
  batch->set_evaluate_every_iterations(dice->Below(3));
}

// What programs train: validated, as what they say is.
void PickOfPrograms(Dice* dice, Downpour* downpour) {
  downpour->Clear();
  const bool steps = dice->Once(2);
  if (steps) {
    downpour->mutable_local()->set_steps(2 + 2 * dice->Below(2));
    if (dice->Once(3)) {
      downpour->mutable_local()->mutable_fragments()->set_count(2);
      downpour->mutable_local()->mutable_fragments()->set_order(Fragments::BY_STRIPE);
    }
    downpour->mutable_optimizer()->mutable_sgd()->set_rate(1.0);
  } else {
    PickOptimizer(dice, downpour->mutable_optimizer());
    downpour->set_n_fetch(1 + dice->Below(3));
    downpour->set_n_push(1 + dice->Below(3));
  }
  PickPushFormat(dice, downpour);
  if (dice->Once(3) && !downpour->local().has_fragments()) {
    downpour->set_overlap(NONE);
  }
}

void MakeJoined(Dice* dice, JobPlan* plan) {
  Job settings = plan->job;
  Model tensors;
  const uint64_t floats = uint64_t{plan->job.model().layer(0).dense().units()} * kStripeFloats;
  ModelTensor* const tensor = tensors.add_tensor();
  tensor->set_name("w");
  tensor->add_shape(static_cast<uint32_t>(floats));
  settings.clear_model();
  settings.mutable_train()->mutable_joiners()->set_examples(plan->examples);
  if (settings.has_test()) {
    settings.mutable_test()->Clear();
    settings.mutable_test()->mutable_joiners();
  }
  PickOfPrograms(dice, settings.mutable_downpour());
  std::string text;
  CHECK(google::protobuf::TextFormat::PrintToString(settings, &text));
  const absl::StatusOr<Job> job = MakeProgramJob(text, tensors);
  CHECK_OK(job.status());
  plan->job = *job;
}

void PickData(Dice* dice, JobPlan* plan, uint32_t classes) {
  Job& job = plan->job;
  job.set_batch_size(kBatch);
  job.set_block_examples(kBlock);
  // Small ones, whose begin and end are most of what they do, and others.
  const bool small = dice->Once(2);
  plan->examples = kBlock * (1 + dice->Below(small ? 4 : 17)) + dice->Below(kBlock);
  job.mutable_stop()->set_epochs(0.25 * (1 + dice->Below(small ? 4 : 12)));
  SyntheticSource& train = *job.mutable_train()->mutable_synthetic();
  train.set_classes(classes);
  train.set_examples(plan->examples);
  if (dice->Once(3)) {
    *job.mutable_test() = job.train();
    job.mutable_test()->mutable_synthetic()->set_examples(30);
    job.mutable_evaluation()->set_every_epochs(dice->Below(2));
  }
}

void PickBound(World* world, Downpour* downpour) {
  if (world->seed % kBounded == kBoundedSeed && !downpour->has_rounds() &&
      !downpour->local().has_fragments()) {
    downpour->set_staleness_bound(static_cast<uint32_t>(world->seed / kBounded % kBounds));
  }
}

void PlanShards(World* world, JobPlan* plan) {
  const auto shards = static_cast<uint32_t>(world->ps.size());
  plan->replicas = static_cast<uint32_t>(world->cluster.worker_size());
  plan->max_stripe_bytes = kStripeFloats * sizeof(float);
  const absl::StatusOr<ParameterLayout> layout = ParameterLayout::Create(plan->job.model());
  CHECK_OK(layout.status());
  plan->parameters = layout->parameters();
  plan->layout_hash = layout->Hash();
  plan->shard_bytes.assign(shards, 16 << 10);
  const absl::StatusOr<ShardMap> map =
      ShardMap::Create(layout->size(), shards, plan->max_stripe_bytes);
  CHECK_OK(map.status());
  world->fragments = FragmentMap::Whole(*map);
  if (plan->job.downpour().local().has_fragments()) {
    const absl::StatusOr<FragmentMap> fragments =
        FragmentMap::Create(plan->job.downpour().local().fragments(), *layout, *map);
    CHECK_OK(fragments.status());
    world->fragments = *fragments;
  }
}

}  // namespace

const std::array<const char*, static_cast<size_t>(Feature::kCount)> kFeatureNames = {
    "counting",
    "long n_fetch",
    "long n_push",
    "no overlap",
    "rough pushes",
    "local steps",
    "rounds",
    "quorum",
    "fragments",
    "landing_steps",
    "fetch_changes",
    "memory only",
    "test set",
    "warmstart",
    "batch",
    "chain",
    "programs",
    "steps of programs",
    "ended by program",
    "staleness_bound"};

bool HasFeature(const World& world, Feature feature) {
  const Job& job = world.plan.job;
  const Downpour& downpour = job.downpour();
  switch (feature) {
    case Feature::kCounting:
      return world.counting;
    case Feature::kLongFetch:
      return downpour.n_fetch() > 1;
    case Feature::kLongPush:
      return downpour.n_push() > 1;
    case Feature::kNoOverlap:
      return downpour.overlap() == NONE;
    case Feature::kRoughPushes:
      return downpour.push_format() != FLOAT32 && !world.counting;
    case Feature::kLocalSteps:
      return downpour.local().has_inner();
    case Feature::kRounds:
      return downpour.has_rounds();
    case Feature::kQuorum:
      return downpour.rounds().quorum() > 0;
    case Feature::kFragments:
      return downpour.local().has_fragments();
    case Feature::kLanding:
      return downpour.local().landing_steps() > 0;
    case Feature::kChanges:
      return downpour.fetch_changes() != FLOAT32;
    case Feature::kMemoryOnly:
      return job.checkpoint().off();
    case Feature::kTestSet:
      return job.has_test();
    case Feature::kWarmstart:
      return downpour.has_warmstart();
    case Feature::kBatch:
      return job.has_sandblaster();
    case Feature::kChain:
      return job.has_sandblaster() && job.has_downpour();
    case Feature::kProgram:
      return IsJoined(job);
    case Feature::kProgramSteps:
      return IsJoined(job) && downpour.local().steps() > 0;
    case Feature::kFinish:
      return world.finish_step > 0;
    case Feature::kBound:
      return downpour.has_staleness_bound();
    case Feature::kCount:
      break;
  }
  return false;
}

void MakeJob(World* world, bool in_rounds) {
  Dice& dice = world->dice;
  // Of their own, so that the jobs without them stay what they were.
  Dice modes(world->seed + kModes);
  const Mode mode = in_rounds ? Mode::kTraining : PickMode(&modes);
  JobPlan& plan = world->plan;
  plan.job.set_name("sim");
  plan.job.set_seed(dice.Below(1000));
  Model& model = *plan.job.mutable_model();
  model.set_name("tiny");
  model.add_input_shape(kStripeFloats);
  Dense& dense = *model.add_layer()->mutable_dense();
  dense.set_units(static_cast<uint32_t>(world->ps.size()) * kStripes);
  dense.set_no_bias(true);
  Downpour& downpour = *plan.job.mutable_downpour();
  if (dice.Once(2) || in_rounds) {
    MakeDifferences(world, in_rounds, &downpour);
  } else {
    MakeGradients(world, &downpour);
  }
  world->counting &= mode == Mode::kTraining;
  if (world->counting) {
    dense.mutable_weight_initializer()->set_constant(0.0);
  }
  PickData(&dice, &plan, dense.units());
  if (dice.Once(3)) {
    downpour.mutable_warmstart()->set_steps(dice.Below(20));
  }
  if (dice.Once(8) && !in_rounds) {
    plan.job.mutable_checkpoint()->set_off(true);
  } else {
    plan.job.mutable_checkpoint()->set_every_seconds(0.1 + 0.1 * dice.Below(20));
    plan.job.mutable_checkpoint()->set_every_pushes(dice.Below(40));
  }
  if (mode == Mode::kBatch || mode == Mode::kChain) {
    MakeBatch(&modes, plan.job.mutable_sandblaster());
  }
  if (mode == Mode::kBatch) {
    plan.job.clear_downpour();
    plan.job.clear_stop();
  }
  if (mode == Mode::kTraining || mode == Mode::kChain) {
    PickBound(world, &downpour);
  }
  if (mode == Mode::kProgram) {
    MakeJoined(&modes, &plan);
    PickBound(world, plan.job.mutable_downpour());
    if (world->seed % kFinished == kFinishedSeed) {
      world->finish_step = 1 + modes.Below(kMostSteps);
    }
    world->cluster.set_open(true);
  } else {
    FillJobDefaults(&plan.job);
  }
  PlanShards(world, &plan);
}

}  // namespace monsoon::simulation
