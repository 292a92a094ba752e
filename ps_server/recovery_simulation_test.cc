// Shards that crash, lose their power and rot, and senders that keep what is not
// durable, in virtual time: the real cores of both (Shard, the writer and reader of
// parts, ReplayWindow) over a simulated disk and network, driven by a seed. At the end
// every acknowledged push must have counted exactly once.
//
//   recovery_simulation_test --seeds=1000..1999     (default: the first 300)
//
// The network: a connection carries frames in order, breaks at any time, and what was
// in it may still arrive at the shard later. Gradients are integers, each sender has
// coordinates of its own, and the rate is 1, so any order of application gives the same
// bits and a parameter counts the pushes that it has got. Not here yet: senders that
// die, the coordinator, messages of other kinds.

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "common/base/random.h"
#include "common/checkpoint/checkpoint.h"
#include "common/memory/aligned_floats.h"
#include "common/storage/simulated_storage.h"
#include "common/testing/status_matchers.h"
#include "common/transport/frame/frame_codec.h"
#include "gtest/gtest.h"
#include "ps_server/checkpoint/kept_parts.h"
#include "ps_server/checkpoint/restore_part.h"
#include "ps_server/checkpoint/write_part.h"
#include "ps_server/client/replay_window.h"
#include "ps_server/shard/shard.h"

namespace monsoon {
namespace {

constexpr uint32_t kShards = 2;
constexpr uint32_t kWorkers = 2;
constexpr uint32_t kStripes = 2;  // of a shard
constexpr size_t kStripe = 32;    // floats
constexpr size_t kSlice = kStripe * kStripes;
constexpr int kEvents = 500;
constexpr int kCalmEvents = 20000;
constexpr uint64_t kWindowPushes = 12;
constexpr char kStateDir[] = "/state";
constexpr char kJob[] = "sim-1";

uint64_t first_seed = 0;
uint64_t end_seed = 300;

// Draws by (seed, how many were drawn).
class Dice {
 public:
  explicit Dice(uint64_t seed) : stream_(seed, StreamKind::kTest) {}
  uint32_t Below(uint32_t bound) { return stream_.Below(drawn_++, bound); }
  bool Once(uint32_t in) { return Below(in) == 0; }

 private:
  const PhiloxStream stream_;
  uint64_t drawn_ = 0;
};

CreateShardJobRequest MakeCreate(uint32_t shard) {
  CreateShardJobRequest request;
  request.set_job(kJob);
  request.mutable_model()->set_name("tiny");
  request.mutable_model()->add_input_shape(16);
  Dense* const dense = request.mutable_model()->add_layer()->mutable_dense();
  dense->set_units(kShards * kSlice / 16);
  dense->set_no_bias(true);
  request.mutable_optimizer()->mutable_sgd()->set_rate(1.0);
  request.set_shard(shard);
  request.set_shards(kShards);
  request.set_written_by_client(true);  // zeros
  request.set_max_stripe_bytes(kStripe * sizeof(float));
  request.set_layout_hash(ParameterLayout::Create(request.model())->Hash());
  return request;
}

SessionKey SessionOf(uint32_t worker) {
  SessionKey session;
  session.set_job(kJob);
  session.set_worker(worker);
  session.set_incarnation(1);
  return session;
}

// -1 at the worker's own coordinates.
std::shared_ptr<const std::string> GradientOf(uint32_t worker) {
  std::vector<float> gradient(kSlice, 0.0f);
  for (size_t i = worker; i < kSlice; i += kWorkers) {
    gradient[i] = -1.0f;
  }
  return std::make_shared<const std::string>(reinterpret_cast<const char*>(gradient.data()),
                                             gradient.size() * sizeof(float));
}

// What travels to a shard: a push, or with `bytes` null a question for marks.
struct Frame {
  uint64_t epoch = 0;
  uint64_t sequence = 0;
  std::shared_ptr<const std::string> bytes;
};
struct Answer {
  bool marks = false;
  Verdict verdict = APPLIED;
  uint64_t epoch = 0;
  uint64_t sequence = 0;
  uint64_t applied = UINT64_MAX;
  uint64_t durable = UINT64_MAX;
};
struct Connection {
  std::deque<Frame> out;
  std::deque<Answer> in;
  bool asked = false;
};

// One parameter server with its disk.
class SimulatedServer {
 public:
  explicit SimulatedServer(uint32_t index)
      : index_(index),
        folder_(JobFolder(kStateDir, kJob, 0)),
        storage_(std::make_unique<SimulatedStorage>()) {
    Start();
  }

  bool up() const { return shard_ != nullptr; }
  uint64_t epoch() const { return epoch_; }
  uint64_t generations_written() const { return written_; }

  void Start() {
    ++epoch_;
    shard_ = std::make_unique<Shard>(ShardOptions{"sim", index_, epoch_, 8 << 20});
    parts_ = std::make_unique<KeptParts>(folder_);
    std::vector<std::string> skipped;
    const absl::StatusOr<uint64_t> restored =
        RestoreNewestPart(storage_.get(), folder_, index_, 0, shard_.get(), &skipped);
    if (!restored.ok()) {
      ASSERT_EQ(restored.status().code(), absl::StatusCode::kNotFound) << restored.status();
      // Nothing was promised before there were two.
      ASSERT_LT(written_, 2u) << restored.status();
      ASSERT_OK(shard_->CreateJob(MakeCreate(index_)));
    }
    for (uint32_t worker = 0; worker < kWorkers; ++worker) {
      ASSERT_OK(shard_->OpenSession(SessionOf(worker)));
    }
  }

  // False: the disk failed in the middle, and the process must die.
  bool Checkpoint(std::optional<uint32_t> fail_at) {
    CheckpointRequest order;
    order.set_job(kJob);
    order.set_generation(++generation_);
    if (fail_at.has_value()) {
      storage_->FailAfter(*fail_at + 1, absl::UnavailableError("the disk is gone"));
    }
    const std::shared_ptr<ShardJob> job = shard_->FindJob(kJob);
    const absl::StatusOr<WrittenPart> part = WritePart(
        storage_.get(), kStateDir, *job, order, [] { return absl::OkStatus(); },
        [] { return true; });
    if (part.ok()) {
      ++written_;
      job->NoteWritten(part->stripes);
      for (const PartFiles& files : parts_->Add(part->manifest, job->applied())) {
        (void)RemovePart(storage_.get(), files);
      }
    }
    storage_->ClearFailure();
    return !fail_at.has_value();
  }

  void Crash(bool power_cut, bool rot, Dice* dice) {
    shard_.reset();
    if (power_cut) {
      storage_ = storage_->PowerCut(dice->Below(1u << 30));
    }
    if (rot) {
      Rot(dice);
    }
  }

  Answer Serve(uint32_t worker, const Frame& frame) {
    Answer answer;
    answer.epoch = epoch_;
    answer.sequence = frame.sequence;
    if (frame.bytes == nullptr) {
      TellMarks(worker, &answer);
    } else {
      Push(worker, frame, &answer);
    }
    return answer;
  }

  std::vector<float> Parameters() {
    AlignedFloats out(kSlice);
    EXPECT_OK(
        shard_->FindJob(kJob)->CopyStripes(std::nullopt, 0, kStripes, nullptr, FLOAT32, &out));
    return {out.span().begin(), out.span().end()};
  }

 private:
  // A bit of the newest part turns over, where an older one is there.
  void Rot(Dice* dice) {
    const auto generations = ListGenerations(storage_.get(), folder_);
    if (!generations.ok() || generations->size() < 2 || written_ < 2) {
      return;
    }
    const std::string manifest = (*generations)[0].manifest[index_];
    const auto part = PartReader::Open(storage_.get(), manifest);
    const auto older = PartReader::Open(storage_.get(), (*generations)[1].manifest[index_]);
    if (!part.ok() || !older.ok()) {
      return;
    }
    const std::string file = absl::StrCat(folder_, "/", (*part)->manifest().file());
    const auto bytes = static_cast<uint32_t>((*part)->manifest().bytes());
    storage_->CorruptByte(file, dice->Below(bytes), static_cast<int>(dice->Below(8)));
    // From here on there is one good generation, until two more are written.
    written_ = 1;
  }

  void TellMarks(uint32_t worker, Answer* answer) {
    MarksRequest request;
    *request.mutable_session() = SessionOf(worker);
    request.set_layout_hash(MakeCreate(index_).layout_hash());
    request.set_stripe_count(kStripes);
    const absl::StatusOr<MarksReply> reply = shard_->Marks(request);
    ASSERT_OK(reply);
    answer->marks = true;
    for (const StripeMarks& stripe : reply->stripe()) {
      answer->applied = std::min<uint64_t>(answer->applied, stripe.applied());
      answer->durable = std::min<uint64_t>(answer->durable, stripe.durable());
    }
  }

  void Push(uint32_t worker, const Frame& frame, Answer* answer) {
    PushRequest request;
    *request.mutable_session() = SessionOf(worker);
    request.set_layout_hash(MakeCreate(index_).layout_hash());
    for (uint32_t stripe = 0; stripe < kStripes; ++stripe) {
      PushRecord* const record = request.add_record();
      record->set_stripe(stripe);
      record->set_sequence(frame.sequence);
      record->set_shard_epoch(frame.epoch);
      record->set_length(kStripe * sizeof(float));
    }
    const std::vector<ByteChunk> chunks = {std::as_bytes(std::span(*frame.bytes))};
    ChunkCursor cursor(chunks);
    const absl::StatusOr<PushReply> reply = shard_->Push(request, &cursor, &scratch_);
    ASSERT_OK(reply);
    for (const PushVerdict& verdict : reply->verdict()) {
      if (verdict.verdict() != APPLIED && verdict.verdict() != DUPLICATE) {
        answer->verdict = verdict.verdict();
      }
      answer->durable = std::min<uint64_t>(answer->durable, verdict.durable_sequence());
    }
  }

  const uint32_t index_;
  const std::string folder_;
  std::unique_ptr<SimulatedStorage> storage_;
  uint64_t epoch_ = 0;
  uint64_t generation_ = 0;  // the coordinator's number
  uint64_t written_ = 0;     // whole generations, as the process has seen
  std::unique_ptr<Shard> shard_;
  std::unique_ptr<KeptParts> parts_;
  AlignedFloats scratch_{kMaxFramePayloadBytes / sizeof(float)};
};

class Simulation {
 public:
  explicit Simulation(uint64_t seed) : dice_(seed) {
    for (uint32_t shard = 0; shard < kShards; ++shard) {
      servers_.push_back(std::make_unique<SimulatedServer>(shard));
    }
    for (uint32_t worker = 0; worker < kWorkers; ++worker) {
      gradients_.push_back(GradientOf(worker));
      for (uint32_t shard = 0; shard < kShards; ++shard) {
        links_.push_back(std::make_unique<Link>(worker, shard));
        links_.back()->window.NameEpoch(servers_[shard]->epoch());
      }
    }
  }

  void Run() {
    for (int i = 0; i < kEvents && !::testing::Test::HasFatalFailure(); ++i) {
      Event();
    }
    faults_ = false;
    for (int i = 0; i < kCalmEvents && !Settled() && !::testing::Test::HasFatalFailure(); ++i) {
      Event();
    }
    Judge();
  }

  uint64_t pushes() const { return pushed_[0] + pushed_[1]; }
  uint64_t crashes() const { return crashes_; }
  uint64_t replayed() const { return replayed_; }

 private:
  struct Link {
    Link(uint32_t of_worker, uint32_t to_shard) : worker(of_worker), shard(to_shard) {}
    const uint32_t worker;
    const uint32_t shard;
    ReplayWindow window{kWindowPushes * kSlice * sizeof(float)};
    Connection connection;
    std::deque<Frame> late;  // of earlier connections
  };

  void Event() {
    Link& link = *links_[dice_.Below(static_cast<uint32_t>(links_.size()))];
    SimulatedServer& server = *servers_[link.shard];
    const uint32_t what = dice_.Below(faults_ ? 100 : 70);
    if (what < 15) {
      Train(link.worker);
    } else if (what < 35) {
      Send(&link);
    } else if (what < 50) {
      Deliver(&link);
    } else if (what < 65) {
      Answered(&link);
    } else if (what < 67) {
      Name(&link);
    } else if (what < 69) {
      if (server.up()) {
        server.Checkpoint(std::nullopt);
      } else {
        server.Start();
      }
    } else if (what < 70) {
      DeliverLate(&link);
    } else if (what < 80) {
      DeliverLate(&link);
    } else if (what < 84) {
      Break(&link);
    } else if (what < 87 && server.up()) {
      ++crashes_;
      if (dice_.Once(3)) {
        server.Checkpoint(dice_.Below(16));
      }
      server.Crash(dice_.Once(2), dice_.Once(3), &dice_);
      BreakAll(link.shard);
    } else if (what < 92 && !server.up()) {
      server.Start();
    }
  }

  // The worker's next gradient goes to all shards, if all have room for it.
  void Train(uint32_t worker) {
    if (!faults_) {
      return;
    }
    for (uint32_t shard = 0; shard < kShards; ++shard) {
      if (LinkOf(worker, shard).window.full(gradients_[worker]->size())) {
        return;
      }
    }
    ++pushed_[worker];
    for (uint32_t shard = 0; shard < kShards; ++shard) {
      ASSERT_EQ(LinkOf(worker, shard).window.Add(gradients_[worker]), pushed_[worker]);
    }
  }

  void Send(Link* link) {
    if (!servers_[link->shard]->up()) {
      return;  // nothing to connect to
    }
    const ReplayWindow::Push* const push = link->window.Next();
    if (link->window.asks() || (push == nullptr && link->window.bytes() > 0)) {
      if (!link->connection.asked) {
        link->connection.asked = true;
        link->connection.out.push_back({});
      }
      return;
    }
    if (push != nullptr) {
      replayed_ += push->replayed ? 1 : 0;
      link->connection.out.push_back({link->window.epoch(), push->sequence, push->bytes});
      link->window.OnSent();
    }
  }

  void Deliver(Link* link) {
    Connection& connection = link->connection;
    if (!servers_[link->shard]->up() || connection.out.empty()) {
      return;
    }
    connection.in.push_back(servers_[link->shard]->Serve(link->worker, connection.out.front()));
    connection.out.pop_front();
  }

  // Frames of a connection that is gone: nobody hears the answer.
  void DeliverLate(Link* link) {
    if (servers_[link->shard]->up() && !link->late.empty()) {
      if (link->late.front().bytes != nullptr) {
        (void)servers_[link->shard]->Serve(link->worker, link->late.front());
      }
      link->late.pop_front();
    }
  }

  void Answered(Link* link) {
    if (link->connection.in.empty()) {
      return;
    }
    const Answer answer = link->connection.in.front();
    link->connection.in.pop_front();
    if (answer.marks) {
      link->connection.asked = false;
      ASSERT_OK(link->window.OnMarks(answer.epoch, answer.applied, answer.durable));
      return;
    }
    switch (answer.verdict) {
      case APPLIED:
        link->window.OnAcknowledged(answer.epoch, answer.sequence, answer.durable);
        break;
      case REFUSED_EPOCH:
        link->window.OnRefusedEpoch();
        break;
      default:
        FAIL() << Verdict_Name(answer.verdict) << " for push " << answer.sequence << " of worker "
               << link->worker << " to shard " << link->shard;
    }
  }

  // The coordinator has seen the shard.
  void Name(Link* link) {
    if (servers_[link->shard]->up()) {
      link->window.NameEpoch(servers_[link->shard]->epoch());
    }
  }

  void Break(Link* link) {
    for (Frame& frame : link->connection.out) {
      link->late.push_back(std::move(frame));
    }
    link->connection = {};
    link->window.Reconnect();
  }

  void BreakAll(uint32_t shard) {
    for (uint32_t worker = 0; worker < kWorkers; ++worker) {
      Break(&LinkOf(worker, shard));
      // The process's sockets died with it.
      LinkOf(worker, shard).late.clear();
    }
  }

  Link& LinkOf(uint32_t worker, uint32_t shard) { return *links_[worker * kShards + shard]; }

  bool Settled() {
    for (const auto& link : links_) {
      if (!servers_[link->shard]->up() || link->window.asks() ||
          link->window.acknowledged() < pushed_[link->worker] ||
          link->window.durable() < pushed_[link->worker] || !link->late.empty()) {
        return false;
      }
    }
    return true;
  }

  void Judge() {
    ASSERT_TRUE(Settled()) << "it does not end";
    for (uint32_t shard = 0; shard < kShards; ++shard) {
      // Once more from the disk.
      for (int life = 0; life < 2; ++life) {
        const std::vector<float> parameters = servers_[shard]->Parameters();
        for (size_t i = 0; i < kSlice; ++i) {
          ASSERT_EQ(parameters[i], static_cast<float>(pushed_[i % kWorkers]))
              << "shard " << shard << ", coordinate " << i << ", life " << life;
        }
        servers_[shard]->Crash(/*power_cut=*/true, /*rot=*/false, &dice_);
        servers_[shard]->Start();
      }
    }
  }

  Dice dice_;
  bool faults_ = true;
  std::vector<std::unique_ptr<SimulatedServer>> servers_;
  std::vector<std::unique_ptr<Link>> links_;  // [worker * kShards + shard]
  std::vector<std::shared_ptr<const std::string>> gradients_;
  uint64_t pushed_[kWorkers] = {};
  uint64_t crashes_ = 0;
  uint64_t replayed_ = 0;
};

TEST(RecoverySimulation, EveryAcknowledgedPushCountsOnce) {
  uint64_t pushes = 0, crashes = 0, replayed = 0;
  for (uint64_t seed = first_seed; seed < end_seed; ++seed) {
    SCOPED_TRACE(absl::StrCat("--seeds=", seed, "..", seed));
    Simulation simulation(seed);
    simulation.Run();
    pushes += simulation.pushes();
    crashes += simulation.crashes();
    replayed += simulation.replayed();
    if (HasFailure()) {
      return;
    }
  }
  std::printf("%llu seeds: %llu pushes, %llu crashes, %llu records sent again\n",
              static_cast<unsigned long long>(end_seed - first_seed),
              static_cast<unsigned long long>(pushes), static_cast<unsigned long long>(crashes),
              static_cast<unsigned long long>(replayed));
  EXPECT_GT(crashes, 0u);
  EXPECT_GT(replayed, 0u);
}

// "a..b", both included.
bool ParseSeeds(absl::string_view text) {
  const std::vector<std::string> ends = absl::StrSplit(text, "..");
  uint64_t last = 0;
  if (ends.size() != 2 || !absl::SimpleAtoi(ends[0], &first_seed) ||
      !absl::SimpleAtoi(ends[1], &last) || last < first_seed) {
    return false;
  }
  end_seed = last + 1;
  return true;
}

}  // namespace
}  // namespace monsoon

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  for (int i = 1; i < argc; ++i) {
    absl::string_view argument = argv[i];
    if (!absl::ConsumePrefix(&argument, "--seeds=") || !monsoon::ParseSeeds(argument)) {
      std::fprintf(stderr, "recovery_simulation_test: --seeds=FIRST..LAST, not %s\n", argv[i]);
      return 2;
    }
  }
  return RUN_ALL_TESTS();
}
