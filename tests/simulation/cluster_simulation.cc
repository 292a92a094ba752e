#include "tests/simulation/cluster_simulation.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/testing/status_matchers.h"
#include "coordinator/downpour/downpour_job.h"
#include "gtest/gtest.h"
#include "proto/downpour.pb.h"
#include "tests/simulation/counting_network.h"
#include "tests/simulation/simulated_job.h"
#include "tests/simulation/simulated_transport.h"

namespace monsoon::simulation {
namespace {

constexpr absl::Duration kMostFaults = absl::Seconds(5);
constexpr absl::Duration kPatience = absl::Seconds(120);
constexpr absl::Duration kLook = absl::Milliseconds(20);

uint64_t BlocksOf(uint64_t examples) { return (examples + kBlock - 1) / kBlock; }

bool IsEndedByProgram(const JobDescription& job) {
  return std::ranges::any_of(job.event(), [](const JobDescription::Event& event) {
    return event.kind() == "finishing" && absl::StartsWith(event.text(), kEndedBy);
  });
}

}  // namespace

ClusterSimulation::ClusterSimulation(uint64_t seed, FiberStacks* stacks, SimulationCounts* counts,
                                     const Options& options)
    : stacks_(stacks),
      options_(options),
      world_(seed, stacks),
      counts_(counts),
      coordinator_(&world_),
      rare_dice_(~seed) {
  world_.coordinator = &coordinator_;
  world_.ps_died = [this](uint32_t index) {
    for (const auto& [number, transport] : world_.transports) {
      transport->Break(index, /*heard=*/!world_.dice.Once(8));
    }
  };
  MakeCluster();
  MakeJob(&world_, /*in_rounds=*/options_.restarts);
  for (int i = 0; i < world_.cluster.worker_size(); ++i) {
    workers_.push_back(MakeReplica(static_cast<uint32_t>(i)));
  }
  for (size_t feature = 0; feature < counts->features.size(); ++feature) {
    counts->features[feature] += HasFeature(world_, static_cast<Feature>(feature)) ? 1 : 0;
  }
}

ClusterSimulation::~ClusterSimulation() {
  faults_ = false;
  ended_ = true;
  if (coordinator_.process.alive) {
    coordinator_.Kill();  // the judge has given shards another term
  }
  for (const auto& worker : workers_) {
    worker->Kill();
  }
  for (const auto& worker : replaced_) {
    worker->Kill();
  }
  const absl::Duration end = world_.time.now() + kPatience;
  while (world_.threads.running() > 0 && world_.time.now() < end && world_.time.RunNext()) {
  }
  EXPECT_EQ(world_.threads.running(), 0u) << "threads of dead workers wait for ever";
}

void ClusterSimulation::MakeCluster() {
  Cluster& cluster = world_.cluster;
  cluster.set_name("sim");
  cluster.mutable_coordinator()->set_address("unix:c");
  const uint32_t least = options_.restarts ? 2 : 1;
  const uint32_t shards = least + world_.dice.Below(4 - least);
  for (uint32_t i = 0; i < shards; ++i) {
    ParameterServerTask* const ps = cluster.add_ps();
    ps->set_address(absl::StrCat("unix:ps", i));
    ps->set_memory_limit_mib(8);
    ps_.push_back(std::make_unique<SimulatedPs>(&world_, i, kStripes));
    world_.ps.push_back(ps_.back().get());
  }
  const uint32_t workers = least + world_.dice.Below(4 - least);
  for (uint32_t i = 0; i < workers; ++i) {
    cluster.add_worker()->set_address(absl::StrCat("unix:w", i));
  }
  cluster.set_heartbeat_ms(100);
  cluster.set_lost_after_ms(600);
  cluster.set_ps_lost_after_ms(2000);
  cluster.set_rpc_deadline_ms(600);
  cluster.set_worker_wait_ms(60000);
}

JobDescription ClusterSimulation::Play() {
  for (uint32_t i = 0; i < ps_.size(); ++i) {
    ps_[i]->Start();
  }
  coordinator_.Start();
  for (const auto& worker : workers_) {
    worker->Start();
  }
  world_.network.set_copies_in(3 << world_.dice.Below(5));
  pause_ = absl::Milliseconds(15 << world_.dice.Below(6));
  if (!HasFeature(world_, Feature::kProgram)) {
    Submit();
  }
  RunUntil(world_.time.now() + absl::Milliseconds(5));
  const absl::Duration end =
      world_.time.now() + world_.dice.Between(absl::ZeroDuration(), kMostFaults);
  const bool rare = options_.rare && !options_.calm && !options_.restarts;
  if (options_.calm) {
    EndFaults();
  } else if (options_.restarts) {
    RestartOneByOne();
  } else {
    Disturb();
  }
  if (rare) {
    DisturbRarely();
  }
  RunUntil(end);
  EndFaults();
  if (const JobState state = State(); rare && (state == RUNNING || state == INITIALIZING)) {
    CutForGood();
  }
  RunUntil(world_.time.now() + kPatience);
  // People mend the link that a job names. Others do not take over where nobody else has a session
  // that would show that the shard can be reached.
  if (absl::StrContains(Reason(), " does not reach ")) {
    world_.network.set_faults(false);
    RunUntil(world_.time.now() + kPatience);
  }
  const absl::StatusOr<JobDescription> job =
      coordinator_.core().Describe(job_, coordinator_.moment());
  EXPECT_OK(job);
  return job.ok() ? *job : JobDescription();
}

void ClusterSimulation::Submit() {
  coordinator_.Serve<SubmitReply>(
      [this](CoordinatorCore& core, Moment now) {
        return core.Submit(world_.plan, {.client_id = "sim"}, now);
      },
      [this](const absl::StatusOr<SubmitReply>& reply) {
        ASSERT_OK(reply);
        job_ = reply->job();
      });
}

void ClusterSimulation::Run() {
  const JobDescription job = Play();
  if (::testing::Test::HasFatalFailure()) {
    return;
  }
  counts_->restores += job.counts().restores();
  if (job.summary().state() == FAILED &&
      absl::StrContains(job.summary().reason(), "sim has given up ")) {
    ++counts_->given_up;
    return;
  }
  if (job.summary().state() == FAILED && MayFail(job)) {
    ++(HasFeature(world_, Feature::kMemoryOnly) ? counts_->lost_jobs : counts_->failed_jobs);
    return;
  }
  if (job.summary().state() != SUCCEEDED) {
    FAIL() << Explain(job);
  }
  Judge(job);
  if (::testing::Test::HasFatalFailure()) {
    ADD_FAILURE() << Explain(job);
  }
}

std::string ClusterSimulation::Explain(const JobDescription& job) const {
  std::string text =
      absl::StrCat(world_.plan.job.downpour().DebugString(), job.DebugString(), "\n",
                   JobState_Name(job.summary().state()), ": ", job.summary().reason(), "\n");
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
      NoteJob();
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

void ClusterSimulation::NoteJob() {
  if (!job_.empty()) {
    return;
  }
  job_ = world_.entered;
  if (job_.empty() && coordinator_.process.alive) {
    const ListReply list = coordinator_.core().List(coordinator_.moment());
    if (list.job_size() > 0 && list.job(0).state() == FAILED) {
      job_ = list.job(0).job();  // before the program that made it was told its name
    }
  }
}

std::string ClusterSimulation::Reason() {
  const absl::StatusOr<JobDescription> job =
      coordinator_.core().Describe(job_, coordinator_.moment());
  return job.ok() ? job->summary().reason() : "";
}

JobState ClusterSimulation::State() {
  if (!coordinator_.process.alive || job_.empty()) {
    return JOB_STATE_UNSPECIFIED;
  }
  const ListReply list = coordinator_.core().List(coordinator_.moment());
  return list.job_size() == 0 ? JOB_STATE_UNSPECIFIED : list.job(0).state();
}

bool ClusterSimulation::MayFail(const JobDescription& job) const {
  // Nothing was on a disk.
  const std::string& reason = job.summary().reason();
  if (HasFeature(world_, Feature::kMemoryOnly) &&
      (absl::StrContains(reason, "; its slice of job") ||
       absl::StrContains(reason, "the coordinator died during the batch") ||
       absl::StrContains(reason, "has lost the job's vectors"))) {
    return true;
  }
  // A shard that dies again and again while it makes the slice may lack the memory for it.
  if (absl::StrContains(reason, " times in a row while it made its slice of job")) {
    return true;
  }
  // A disk that was full when the slices were made anew, which only a joined job's are: what
  // cannot be removed there ends it before it has begun.
  if (HasFeature(world_, Feature::kProgram) &&
      absl::StrContains(reason, "its slices cannot be created") &&
      absl::StrContains(reason, "No space left on device")) {
    return true;
  }
  const bool trained = job.data().blocks_done() == Blocks() || IsEndedByProgram(job);
  // All have left, so that only the newest part would do, and its bits have turned over.
  for (const auto& ps : ps_) {
    if (trained && !ps->rotten().empty() &&
        absl::StrContains(job.summary().reason(),
                          absl::StrCat("no good part of shard ", ps->index(), " from generation ",
                                       job.durability().generation(), " on (", ps->rotten()))) {
      return true;
    }
  }
  // All who knew the parameters are dead, and no disk had them yet.
  const bool any_lost =
      std::ranges::any_of(world_.books, [](const auto& book) { return !book.second.whole; });
  return any_lost && job.durability().generation() == 0 && trained &&
         absl::StrContains(job.summary().reason(), "from generation 1 on");
}

// ---- the judge ----------------------------------------------------------------------

void ClusterSimulation::Judge(const JobDescription& job) {
  for (const auto& [session, book] : world_.books) {
    JudgeSession(job, session, book);
  }
  if (IsEndedByProgram(job)) {
    ++counts_->ended_by_programs;
    ASSERT_GT(world_.finish_step, 0u);
    ASSERT_TRUE(absl::StartsWith(job.summary().reason(), kEndedBy)) << job.summary().reason();
  } else if (world_.plan.job.has_downpour()) {
    JudgeBlocks(job);
  }
  if (world_.plan.job.has_sandblaster()) {
    return JudgeBatch(job);
  }
  for (const auto& ps : ps_) {
    if (ps->HasSlice()) {
      ps->CheckBits();
    }
  }
  JudgeCounting();
  if (HasFeature(world_, Feature::kMemoryOnly)) {
    return;
  }
  for (const auto& ps : ps_) {
    ps->Revive();
    ps->CheckBits();
  }
  JudgeCounting();
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
      const uint64_t sent = world_.LastSequence(shard, stripe, book.pushed);
      const uint64_t acknowledged =
          book.acknowledged.empty() ? 0 : book.acknowledged[shard][stripe];
      ASSERT_LE(held, sent) << name;
      missing += acknowledged - std::min(held, acknowledged);
      undone += log.Seen(stripe, session) - held;
      if (book.whole) {
        missing += sent - std::max(held, acknowledged);
        const bool told = reported > 0 && !ps_[shard]->rotten().empty();
        ASSERT_TRUE(held == sent || told) << name << ", ps/" << shard << ", stripe " << stripe;
      }
    }
    // What marks have said of one that was lost a power cut may have taken.
    if (book.whole || ps_[shard]->power_cuts() == 0) {
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
          if (ps_[shard]->log().Held(stripe, entry.first) <
                  world_.LastSequence(shard, stripe, last->second) &&
              !told) {
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
  if (!world_.counting || !std::ranges::all_of(world_.ps, &SimulatedPs::HasSlice)) {
    return;
  }
  const size_t workers = workers_.size();
  for (uint32_t shard = 0; shard < ps_.size(); ++shard) {
    const std::vector<float> parameters = ps_[shard]->Parameters();
    for (size_t i = 0; i < parameters.size(); ++i) {
      uint64_t least = 0, most = 0;
      for (const auto& [session, book] : world_.books) {
        if (session.worker == CountingNetwork::OwnerOf(i, workers)) {
          const uint64_t steps = std::accumulate(book.steps.begin(), book.steps.end(), uint64_t{0});
          most += steps;
          least += book.whole && ps_[shard]->rotten().empty() ? steps : 0;
        }
      }
      ASSERT_GE(parameters[i], static_cast<float>(least)) << "ps/" << shard << ", " << i;
      ASSERT_LE(parameters[i], static_cast<float>(most)) << "ps/" << shard << ", " << i;
    }
  }
}

}  // namespace monsoon::simulation
