#include "tests/simulation/cluster_simulation.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/model/parameter_layout.h"
#include "common/testing/status_matchers.h"
#include "gtest/gtest.h"

namespace monsoon::simulation {
namespace {

constexpr uint32_t kStripes = 2;  // of a shard
constexpr uint32_t kBlock = 20;   // examples
constexpr absl::Duration kMostFaults = absl::Seconds(5);
constexpr absl::Duration kPatience = absl::Seconds(120);
constexpr absl::Duration kLook = absl::Milliseconds(20);

uint64_t BlocksOf(uint64_t examples) { return (examples + kBlock - 1) / kBlock; }

}  // namespace

ClusterSimulation::ClusterSimulation(uint64_t seed, SimulationCounts* counts)
    : world_(seed), counts_(counts), coordinator_(&world_) {
  world_.coordinator = &coordinator_;
  MakeCluster();
  MakeJob();
}

void ClusterSimulation::MakeCluster() {
  Cluster& cluster = world_.cluster;
  cluster.set_name("sim");
  cluster.mutable_coordinator()->set_address("unix-abstract:c");
  const uint32_t shards = 1 + world_.dice.Below(3);
  for (uint32_t i = 0; i < shards; ++i) {
    ParameterServerTask* const ps = cluster.add_ps();
    ps->set_address(absl::StrCat("unix-abstract:ps", i));
    ps->set_memory_limit_mib(8);
    ps_.push_back(std::make_unique<SimulatedPs>(&world_, i, kStripes));
    world_.ps.push_back(ps_.back().get());
  }
  const uint32_t workers = 1 + world_.dice.Below(3);
  for (uint32_t i = 0; i < workers; ++i) {
    cluster.add_worker()->set_address(absl::StrCat("unix-abstract:w", i));
    workers_.push_back(std::make_unique<SimulatedWorker>(&world_, i));
  }
  cluster.set_heartbeat_ms(100);
  cluster.set_lost_after_ms(600);
  cluster.set_ps_lost_after_ms(2000);
  cluster.set_rpc_deadline_ms(600);
  cluster.set_worker_wait_ms(60000);
}

void ClusterSimulation::MakeJob() {
  Dice& dice = world_.dice;
  JobPlan& plan = world_.plan;
  plan.job.set_name("sim");
  plan.job.set_seed(dice.Below(1000));
  Model& model = *plan.job.mutable_model();
  model.set_name("tiny");
  model.add_input_shape(kStripeFloats);
  Dense& dense = *model.add_layer()->mutable_dense();
  dense.set_units(static_cast<uint32_t>(ps_.size()) * kStripes);
  dense.set_no_bias(true);
  Optimizer& optimizer = *plan.job.mutable_downpour()->mutable_optimizer();
  switch (dice.Below(4)) {
    case 0:
      world_.counting = true;
      optimizer.mutable_sgd()->set_rate(1.0);
      dense.mutable_weight_initializer()->set_constant(0.0);
      break;
    case 1:
      optimizer.mutable_momentum()->set_rate(0.05);
      optimizer.mutable_momentum()->set_momentum(0.9);
      optimizer.set_weight_decay(0.01);
      break;
    case 2:
      optimizer.mutable_sgd()->set_rate(0.1);
      optimizer.mutable_schedule()->mutable_step()->set_every_pushes(10);
      optimizer.mutable_schedule()->mutable_step()->set_factor(0.7);
      optimizer.mutable_schedule()->set_warm_up_pushes(7);
      optimizer.set_clip_value(1.5);
      break;
    default:
      optimizer.mutable_adagrad()->set_rate(0.1);
      optimizer.mutable_adagrad()->set_initial_accumulator(0.5);
      break;
  }
  world_.format = dice.Once(2) ? FLOAT32 : BFLOAT16;
  plan.job.set_batch_size(5);
  plan.job.set_block_examples(kBlock);
  // Small ones, whose begin and end are most of what they do, and others.
  const bool small = dice.Once(2);
  plan.examples = kBlock * (1 + dice.Below(small ? 4 : 17)) + dice.Below(kBlock);
  plan.job.mutable_stop()->set_epochs(0.25 * (1 + dice.Below(small ? 4 : 12)));
  if (dice.Once(3)) {
    plan.job.mutable_test();
    plan.job.mutable_evaluation()->set_every_epochs(dice.Below(2));
  }
  if (dice.Once(3)) {
    plan.job.mutable_downpour()->mutable_warmstart()->set_steps(dice.Below(20));
  }
  plan.job.mutable_checkpoint()->set_every_seconds(0.1 + 0.1 * dice.Below(20));
  plan.job.mutable_checkpoint()->set_every_pushes(dice.Below(40));
  plan.replicas = static_cast<uint32_t>(workers_.size());
  plan.max_stripe_bytes = kStripeFloats * sizeof(float);
  const absl::StatusOr<ParameterLayout> layout = ParameterLayout::Create(model);
  CHECK_OK(layout.status());
  plan.parameters = layout->parameters();
  plan.layout_hash = layout->Hash();
  plan.shard_bytes.assign(ps_.size(), 16 << 10);
}

void ClusterSimulation::Run() {
  for (uint32_t i = 0; i < ps_.size(); ++i) {
    ps_[i]->Start();
  }
  coordinator_.Start();
  for (const auto& worker : workers_) {
    worker->Start();
  }
  world_.network.set_copies_in(3 << world_.dice.Below(5));
  pause_ = absl::Milliseconds(15 << world_.dice.Below(6));
  coordinator_.Serve<SubmitReply>(
      [this](CoordinatorCore& core, Moment now) {
        return core.Submit(world_.plan, {.client_id = "sim"}, now);
      },
      [this](const absl::StatusOr<SubmitReply>& reply) {
        ASSERT_OK(reply);
        job_ = reply->job();
      });
  RunUntil(world_.time.now() + absl::Milliseconds(5));
  const absl::Duration end =
      world_.time.now() + world_.dice.Between(absl::ZeroDuration(), kMostFaults);
  Disturb();
  RunUntil(end);
  EndFaults();
  RunUntil(world_.time.now() + kPatience);
  if (::testing::Test::HasFatalFailure()) {
    return;
  }
  const absl::StatusOr<JobDescription> job =
      coordinator_.core().Describe(job_, coordinator_.moment());
  ASSERT_OK(job);
  counts_->restores += job->counts().restores();
  if (job->summary().state() == FAILED && MayFail(*job)) {
    ++counts_->failed_jobs;
    return;
  }
  if (job->summary().state() != SUCCEEDED) {
    FAIL() << Explain(*job);
  }
  Judge(*job);
  if (::testing::Test::HasFatalFailure()) {
    ADD_FAILURE() << Explain(*job);
  }
}

std::string ClusterSimulation::Explain(const JobDescription& job) const {
  std::string text = absl::StrCat(job.DebugString(), "\n", JobState_Name(job.summary().state()),
                                  ": ", job.summary().reason(), "\n");
  for (const auto& worker : workers_) {
    absl::StrAppend(&text, worker->Describe(), "\n");
  }
  for (const auto& worker : replaced_) {
    absl::StrAppend(&text, "replaced: ", worker->Describe(), "\n");
  }
  return text;
}

void ClusterSimulation::RunUntil(absl::Duration end) {
  absl::Duration look = world_.time.now();
  while (world_.time.now() < end && !::testing::Test::HasFatalFailure()) {
    if (!world_.time.RunNext()) {
      return;
    }
    if (world_.time.now() >= look) {
      look = world_.time.now() + kLook;
      for (uint32_t i = 0; !faults_ && i < workers_.size(); ++i) {
        StartWorker(i, absl::ZeroDuration());  // one that was told to leave
      }
      const JobState state = State();
      if (state == SUCCEEDED || state == FAILED || state == CANCELLED) {
        return;
      }
    }
  }
}

JobState ClusterSimulation::State() {
  if (!coordinator_.process.alive || job_.empty()) {
    return JOB_STATE_UNSPECIFIED;
  }
  const ListReply list = coordinator_.core().List(coordinator_.moment());
  return list.job_size() == 0 ? JOB_STATE_UNSPECIFIED : list.job(0).state();
}

bool ClusterSimulation::MayFail(const JobDescription& job) const {
  // All have left, so that only the newest part would do, and its bits have turned over.
  for (const auto& ps : ps_) {
    if (job.data().blocks_done() == Blocks() && !ps->rotten().empty() &&
        absl::StrContains(job.summary().reason(),
                          absl::StrCat("no good part of shard ", ps->index(), " from generation ",
                                       job.durability().generation(), " on (", ps->rotten()))) {
      return true;
    }
  }
  // All who knew the parameters are dead, and no disk had them yet.
  const bool any_lost =
      std::ranges::any_of(world_.books, [](const auto& book) { return !book.second.whole; });
  return any_lost && job.durability().generation() == 0 && job.data().blocks_done() == Blocks() &&
         absl::StrContains(job.summary().reason(), "from generation 1 on");
}

// ---- the judge ----------------------------------------------------------------------

void ClusterSimulation::Judge(const JobDescription& job) {
  for (const auto& [session, book] : world_.books) {
    JudgeSession(job, session, book);
  }
  JudgeBlocks(job);
  for (const auto& ps : ps_) {
    ps->Judge();
  }
  if (world_.counting) {
    JudgeCounting();
  }
}

uint64_t ClusterSimulation::Reported(const JobDescription& job, SessionId session, uint32_t shard) {
  uint64_t records = 0;
  for (const LostPushes& lost : job.durability().lost()) {
    if (lost.shard() == shard && lost.worker() == session.worker &&
        lost.incarnation() == session.incarnation) {
      records += lost.records();
    }
  }
  return records;
}

void ClusterSimulation::JudgeSession(const JobDescription& job, SessionId session,
                                     const SessionBook& book) {
  ++counts_->sessions;
  counts_->pushes += book.pushed;
  counts_->lost_sessions += book.whole ? 0 : 1;
  const std::string name =
      absl::StrCat("session ", session.worker, "#", session.incarnation, " of job ", job_);
  for (uint32_t shard = 0; shard < ps_.size(); ++shard) {
    const AppliedLog& log = ps_[shard]->log();
    const uint64_t reported = Reported(job, session, shard);
    counts_->lost_records += reported;
    uint64_t missing = 0;  // acknowledged once, and not there
    uint64_t undone = 0;   // seen by an earlier life, and not there
    for (uint32_t stripe = 0; stripe < log.stripes(); ++stripe) {
      const uint64_t held = log.Held(stripe, session);
      ASSERT_LE(held, book.pushed) << name;
      missing += book.acknowledged[shard] - std::min(held, book.acknowledged[shard]);
      undone += log.Seen(stripe, session) - held;
      if (book.whole) {
        ASSERT_EQ(held, book.pushed) << name << ", ps/" << shard << ", stripe " << stripe;
      }
    }
    if (ps_[shard]->power_cuts() == 0) {
      ASSERT_LE(missing, reported) << name << ", ps/" << shard << ": lost without a word";
      ASSERT_EQ(undone, reported) << name << ", ps/" << shard;
    } else {
      ASSERT_LE(reported, undone) << name << ", ps/" << shard;
    }
  }
}

uint64_t ClusterSimulation::Blocks() const {
  const JobPlan& plan = world_.plan;
  const auto granted = static_cast<uint64_t>(
      std::ceil(plan.job.stop().epochs() * static_cast<double>(plan.examples) - 1e-6));
  return granted / plan.examples * BlocksOf(plan.examples) + BlocksOf(granted % plan.examples);
}

void ClusterSimulation::JudgeBlocks(const JobDescription& job) {
  const uint64_t per_epoch = BlocksOf(world_.plan.examples);
  const uint64_t total = Blocks();
  ASSERT_EQ(job.data().blocks_done(), total);
  for (uint64_t i = 0; i < total; ++i) {
    const auto block =
        std::pair(static_cast<uint32_t>(i / per_epoch), static_cast<uint32_t>(i % per_epoch));
    const bool trained = std::ranges::any_of(world_.books, [&](const auto& entry) {
      const auto last = entry.second.blocks.find(block);
      if (last == entry.second.blocks.end()) {
        return false;
      }
      for (uint32_t shard = 0; shard < ps_.size(); ++shard) {
        const bool told = Reported(job, entry.first, shard) > 0 || ps_[shard]->power_cuts() > 0;
        for (uint32_t stripe = 0; stripe < kStripes; ++stripe) {
          if (ps_[shard]->log().Held(stripe, entry.first) < last->second && !told) {
            return false;
          }
        }
      }
      return true;
    });
    ASSERT_TRUE(trained) << "block " << block.second << " of epoch " << block.first;
  }
}

// By the parameters alone: each counts its worker's pushes.
void ClusterSimulation::JudgeCounting() {
  const size_t workers = workers_.size();
  for (uint32_t shard = 0; shard < ps_.size(); ++shard) {
    const std::vector<float> parameters = ps_[shard]->Parameters();
    for (size_t i = 0; i < parameters.size(); ++i) {
      uint64_t least = 0, most = 0;
      for (const auto& [session, book] : world_.books) {
        if (session.worker == i % workers) {
          most += book.pushed;
          least += book.whole ? book.pushed : 0;
        }
      }
      ASSERT_GE(parameters[i], static_cast<float>(least)) << "ps/" << shard << ", " << i;
      ASSERT_LE(parameters[i], static_cast<float>(most)) << "ps/" << shard << ", " << i;
    }
  }
}

}  // namespace monsoon::simulation
