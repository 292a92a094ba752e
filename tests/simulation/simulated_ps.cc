#include "tests/simulation/simulated_ps.h"

#include <algorithm>
#include <bit>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status.h"
#include "common/base/virtual_threads.h"
#include "common/checkpoint/checkpoint.h"
#include "common/testing/status_matchers.h"
#include "gtest/gtest.h"
#include "proto/downpour.pb.h"
#include "ps_server/checkpoint/kept_parts.h"

namespace monsoon::simulation {
namespace {

constexpr char kStateDir[] = "/state";
constexpr absl::Duration kPatience = absl::Seconds(60);
constexpr uint64_t kMessageBytes = 64 << 20;

// Its own thread is the kernel's, and wakes up no virtual one that waits for its mutex.
CheckpointKeeper* FromEvent(const std::unique_ptr<CheckpointKeeper>& keeper) {
  CHECK(VirtualThreads::Current() == nullptr);
  return keeper.get();
}

SessionId IdOf(const SessionKey& session) { return {session.worker(), session.incarnation()}; }

// In the round that is open.
uint64_t OpenPushes(const StripeRecord& record) {
  uint64_t pushes = 0;
  for (const RoundMember& member : record.member()) {
    pushes += member.pushes();
  }
  return pushes;
}

// A round's mean is rounded otherwise here.
bool AreNear(const std::vector<float>& a, const std::vector<float>& b) {
  return std::ranges::equal(a, b, [](float x, float y) {
    return std::abs(x - y) <= 1e-4f * std::max(1.0f, std::abs(x));
  });
}

// -0 is not 0 here.
bool SameBits(const std::vector<float>& a, const std::vector<float>& b) {
  return std::ranges::equal(a, b, [](float x, float y) {
    return std::bit_cast<uint32_t>(x) == std::bit_cast<uint32_t>(y);
  });
}

// What each stripe holds now.
std::vector<StripeRecord> RecordsNow(ShardJob& job) {
  std::vector<StripeRecord> records;
  std::vector<float> parameters(kStripeFloats);
  std::vector<float> state(kStripeFloats * static_cast<size_t>(job.stripes()->state_slots()));
  for (uint32_t stripe = 0; stripe < job.stripes()->count(); ++stripe) {
    records.push_back(job.checkpoint()->CutStripe(stripe, parameters, state));
  }
  return records;
}

}  // namespace

SimulatedPs::SimulatedPs(World* world, uint32_t index, uint32_t stripes)
    : world_(world),
      index_(index),
      folder_{std::make_unique<SimulatedStorage>(), {}},
      log_(stripes) {}

void SimulatedPs::Start() {
  process.alive = true;
  process.wakes_at = absl::ZeroDuration();
  ++process.life;
  Heal();
  shard_ = std::make_unique<Shard>(
      ShardOptions{world_->cluster.name(), index_, process.life, 8 << 20,
                   [this](const CreateShardJobRequest& create, uint32_t stripes, bool fresh) {
                     return folder_.marks.OpenJob(create, stripes, fresh);
                   },
                   &clock_});
  handler_ = std::make_unique<ShardFrameHandler>(shard_.get());
  frames_ = std::make_unique<FrameServer>(handler_.get(), kMessageBytes, FaultOptions());
  CheckpointKeeperOptions options;
  options.state_dir = kStateDir;
  options.task = index_;
  options.check_owner = [] { return absl::OkStatus(); };
  kept_.parts = std::make_unique<CheckpointKeeper>(options, folder_.storage.get());
  const std::string own_folder = absl::StrCat(kStateDir, "/ps-", index_);
  folder_.storage->MakeFolder(own_folder).IgnoreError();
  kept_.heard = std::make_unique<HeardJournal>(folder_.storage.get(), own_folder + "/coordinator");
}

void SimulatedPs::Kill(bool power_cut, bool rot) {
  process.alive = false;
  kept_.parts.reset();
  kept_.heard.reset();
  frames_.reset();
  handler_.reset();
  shard_.reset();
  folder_.storage->ClearFailure();
  if (power_cut) {
    ++power_cuts_;
    folder_.storage = folder_.storage->PowerCut(world_->dice.Below(1u << 30));
    folder_.marks.PowerCut(&world_->dice);
  }
  if (rot) {
    Rot();
  }
  world_->ps_died(index_);
}

bool SimulatedPs::WillForget() const {
  return disk_.dies_in.has_value() || (disk_.is_full && shard_->GetStatus({})->draining());
}

void SimulatedPs::BackUp() { backup_ = StateFolder{folder_.storage->Copy(), folder_.marks.Copy()}; }

void SimulatedPs::TakeBackup(bool empty) {
  Kill(/*power_cut=*/false, /*rot=*/false);
  if (!own_.has_value()) {
    own_ = std::move(folder_);
  }
  folder_ = empty || !backup_.has_value()
                ? StateFolder{std::make_unique<SimulatedStorage>(), {}}
                : StateFolder{backup_->storage->Copy(), backup_->marks.Copy()};
}

bool SimulatedPs::PutFolderBack() {
  if (!own_.has_value()) {
    return false;
  }
  if (process.alive) {
    Kill(/*power_cut=*/false, /*rot=*/false);
  }
  folder_ = *std::exchange(own_, std::nullopt);
  return true;
}

void SimulatedPs::FillDisk(bool full) {
  disk_.is_full = full;
  if (full) {
    folder_.storage->FailAfter(1, absl::ResourceExhaustedError("No space left on device"));
  } else {
    folder_.storage->ClearFailure();
  }
}

void SimulatedPs::Heal() {
  disk_.delay = absl::ZeroDuration();
  disk_.dies_in.reset();
  FillDisk(false);
}

void SimulatedPs::Rot() {
  const std::string folder = JobFolder(kStateDir, create_.job(), create_.job_term());
  const auto parts = ListOwnParts(*folder_.storage, folder, index_);
  if (!parts.ok() || good_parts_ < 2 || parts->size() < 2 || !(*parts)[0].whole ||
      !(*parts)[1].whole) {
    return;
  }
  const auto part = PartReader::Open(folder_.storage.get(), (*parts)[0].files.manifest);
  if (!part.ok()) {
    return;
  }
  const auto bytes = static_cast<uint32_t>((*part)->manifest().bytes());
  rotten_ = (*parts)[0].files.file;
  folder_.storage->CorruptByte(rotten_, world_->dice.Below(bytes),
                               static_cast<int>(world_->dice.Below(8)));
  // From here on there is one good part, until another is written.
  good_parts_ = 1;
}

absl::StatusOr<ShardStatusReply> SimulatedPs::GetStatus() {
  ShardStatusRequest request;
  request.set_cluster(world_->cluster.name());
  ASSIGN_OR_RETURN(ShardStatusReply reply, shard_->GetStatus(request));
  FromEvent(kept_.parts)->FillStatus(&reply);
  *reply.mutable_journal() = heard()->newest().value_or(JournalMark());
  reply.set_pid(static_cast<uint32_t>(1000 * (index_ + 1) + process.life));
  return reply;
}

absl::StatusOr<CreateShardJobReply> SimulatedPs::CreateJob(const CreateShardJobRequest& request) {
  const bool fresh = shard_->FindJob(request.job(), request.job_term()) == nullptr;
  ASSIGN_OR_RETURN(const CreateShardJobReply reply, shard_->CreateJob(request));
  if (fresh) {
    create_ = request;
    Begin(RecordsNow(*Slice()));
  }
  return reply;
}

absl::StatusOr<RestoreShardJobReply> SimulatedPs::RestoreJob(
    const RestoreShardJobRequest& request) {
  const CreateShardJobRequest& create = request.create();
  const bool there = shard_->FindJob(create.job(), create.job_term()) != nullptr;
  ASSIGN_OR_RETURN(const RestoreShardJobReply reply,
                   FromEvent(kept_.parts)->Restore(shard_.get(), request));
  if (!there) {
    create_ = create;
    // A round that has lost a session may have closed since: what the part says counts.
    Begin(reply.generation() == 0 ? RecordsNow(*Slice()) : RecordsOf(reply));
  }
  return reply;
}

absl::Status SimulatedPs::DeleteJob(const std::string& job, uint64_t job_term, uint64_t term,
                                    uint64_t call) {
  RETURN_IF_ERROR(shard_->DeleteJob(job, job_term, term, call));
  return FromEvent(kept_.parts)->Delete(job, job_term);
}

absl::StatusOr<OpenSessionReply> SimulatedPs::OpenSession(const SessionKey& session, uint64_t term,
                                                          uint64_t call,
                                                          const MemberIdentity& member) {
  return shard_->OpenSession(session, term, call, member);
}

absl::StatusOr<CloseSessionReply> SimulatedPs::CloseSession(const SessionKey& session,
                                                            uint64_t term, uint64_t call) {
  return shard_->CloseSession(session, term, call);
}

absl::StatusOr<VectorReply> SimulatedPs::Vector(const VectorRequest& request) {
  const bool first = !batch_began_ && request.shard_epoch() == process.life && HasSlice();
  if (first && create_.has_optimizer()) {
    CheckBits();  // of Downpour SGD, from whose parameters the batch goes on
  }
  absl::StatusOr<VectorReply> reply = shard_->Vector(request);
  batch_began_ |= reply.ok();
  return reply;
}

absl::Status SimulatedPs::Checkpoint(const CheckpointRequest& request) {
  ASSIGN_OR_RETURN(std::shared_ptr<ShardJob> job, shard_->StartCheckpoint(request));
  kept_.heard->Keep();
  // The event may outlive the shard.
  world_->network.In(&process, disk_.delay, [this, waits = std::weak_ptr(job), request] {
    if (std::shared_ptr<ShardJob> slice = waits.lock()) {
      Write(std::move(slice), request);
    }
  });
  return absl::OkStatus();
}

absl::Status SimulatedPs::ReduceRate(const ReduceRateRequest& request) {
  return shard_->ReduceRate(request);
}

absl::StatusOr<ChangeSettingsReply> SimulatedPs::ChangeSettings(
    const ChangeSettingsRequest& request) {
  return shard_->ChangeSettings(request);
}

void SimulatedPs::Write(std::shared_ptr<ShardJob> job, const CheckpointRequest& order) {
  if (disk_.dies_in.has_value()) {
    folder_.storage->FailAfter(*disk_.dies_in + 1, absl::UnavailableError("the process dies"));
  }
  const absl::Status ordered = FromEvent(kept_.parts)->Order(std::move(job), order);
  ASSERT_TRUE(FromEvent(kept_.parts)->AwaitIdle(kPatience));
  if (disk_.dies_in.has_value()) {
    Kill(world_->dice.Once(2), /*rot=*/false);
    return disk_.then();
  }
  const absl::StatusOr<ShardStatusReply> reply = GetStatus();
  ASSERT_OK(reply);
  for (const ShardJobStatus& status : reply->job()) {
    good_parts_ += ordered.ok() && status.generation() == order.generation() ? 1 : 0;
  }
}

std::shared_ptr<ShardJob> SimulatedPs::Slice() const {
  return shard_->FindJob(create_.job(), create_.job_term());
}

void SimulatedPs::Begin(const std::vector<StripeRecord>& records) {
  if (own_.has_value()) {
    // The copy has all that anybody goes by, but what marks say may be of earlier.
    own_.reset();
    ++power_cuts_;
  }
  if (batch_began_) {
    return;
  }
  ASSERT_EQ(records.size(), log_.stripes());
  for (uint32_t stripe = 0; stripe < log_.stripes(); ++stripe) {
    log_.Restored(stripe, records[stripe].version(), OpenPushes(records[stripe]));
  }
}

std::vector<StripeRecord> SimulatedPs::RecordsOf(const RestoreShardJobReply& restored) const {
  const std::string folder = JobFolder(kStateDir, create_.job(), create_.job_term());
  const auto parts = ListOwnParts(*folder_.storage, folder, index_);
  EXPECT_OK(parts);
  const auto found = std::ranges::find_if(*parts, [&restored](const OwnPart& part) {
    return part.whole && part.name.generation == restored.generation() &&
           part.name.epoch == restored.parent_epoch();
  });
  EXPECT_NE(found, parts->end());
  const auto part = PartReader::Open(folder_.storage.get(), found->files.manifest);
  EXPECT_OK(part);
  const auto& records = (*part)->content().stripe();
  return {records.begin(), records.end()};
}

void SimulatedPs::Revive() {
  Kill(/*power_cut=*/true, /*rot=*/false);
  Start();
  RestoreShardJobRequest request;
  *request.mutable_create() = create_;
  request.mutable_create()->set_term(UINT64_MAX);
  ASSERT_OK(RestoreJob(request));
}

std::vector<float> SimulatedPs::Parameters() {
  std::vector<float> all;
  const std::shared_ptr<ShardJob> job = Slice();
  std::vector<float> parameters(kStripeFloats);
  std::vector<float> state(kStripeFloats * static_cast<size_t>(job->stripes()->state_slots()));
  for (uint32_t stripe = 0; stripe < log_.stripes(); ++stripe) {
    job->checkpoint()->CutStripe(stripe, parameters, state);
    all.insert(all.end(), parameters.begin(), parameters.end());
  }
  return all;
}

void SimulatedPs::CheckBits() {
  const std::shared_ptr<ShardJob> job = Slice();
  ASSERT_NE(job, nullptr);
  Shard fresh({world_->cluster.name(), index_, 1, 8 << 20, nullptr});
  ASSERT_OK(fresh.CreateJob(create_));
  const std::shared_ptr<ShardJob> initial = fresh.FindJob(create_.job(), create_.job_term());
  std::vector<float> parameters(kStripeFloats), first(kStripeFloats);
  std::vector<float> state(kStripeFloats * static_cast<size_t>(job->stripes()->state_slots()));
  for (uint32_t stripe = 0; stripe < log_.stripes(); ++stripe) {
    if (create_.written_by_client()) {
      for (size_t i = 0; i < first.size(); ++i) {
        first[i] = InitialOfPrograms(i);
      }
    } else {
      initial->checkpoint()->CutStripe(stripe, first, state);
    }
    const StripeRecord record = job->checkpoint()->CutStripe(stripe, parameters, state);
    log_.CheckVersion(stripe, record.version(), OpenPushes(record));
    const AppliedLog::Content content =
        log_.Replay(stripe, record.version(), create_.optimizer(), first);
    // Behind the optimizer's state stands that of rounds and of the public copy.
    const std::vector<float> kept(state.begin(),
                                  state.begin() + static_cast<long>(content.state.size()));
    const auto same = create_.has_rounds() ? AreNear : SameBits;
    ASSERT_TRUE(same(content.parameters, parameters))
        << "stripe " << stripe << ": " << content.parameters[0] << " is " << parameters[0];
    ASSERT_TRUE(same(content.state, kept)) << "the state of stripe " << stripe;
  }
}

std::vector<std::string> SimulatedPs::Serve(const std::string& frame) {
  const std::vector<ByteChunk> chunks = {std::as_bytes(std::span(frame))};
  ChunkCursor cursor(chunks);
  const absl::StatusOr<DataHeader> request = DecodeFrameHead(&cursor);
  EXPECT_OK(request);
  FrameCall call(frames_.get());
  EXPECT_TRUE(call.Serve(chunks, &world_->scratch));
  std::vector<std::string> answers;
  while (std::optional<FrameCall::Answer> answer = call.NextAnswer()) {
    answers.push_back(std::move(answer->head));
    if (answer->payload.bytes > 0) {
      answers.back().append(reinterpret_cast<const char*>(answer->payload.floats->data()),
                            answer->payload.bytes);
    }
  }
  if (request->has_push() && !answers.empty()) {
    const std::vector<ByteChunk> told = {std::as_bytes(std::span(answers[0]))};
    ChunkCursor after(told);
    NotePush(request->push(), &cursor, DecodeFrameHead(&after)->push_reply());
  }
  return answers;
}

// A push that came just now is of the round that is open, or has ended it.
uint64_t SimulatedPs::NewestRound(uint32_t stripe) const {
  const std::shared_ptr<ShardJob> job = Slice();
  std::vector<float> parameters(kStripeFloats);
  std::vector<float> state(kStripeFloats * static_cast<size_t>(job->stripes()->state_slots()));
  const StripeRecord record = job->checkpoint()->CutStripe(stripe, parameters, state);
  return record.version() + (record.member().empty() ? 0 : 1);
}

namespace {

// With staleness_bound: that push is not too far ahead of those that its session was told of.
void CheckBound(World* world, const SessionId& session, uint64_t push) {
  const Downpour& downpour = world->plan.job.downpour();
  if (!downpour.has_staleness_bound()) {
    return;
  }
  const SessionBook& book = world->books[session];
  ASSERT_TRUE(book.least.has_value()) << "it has not asked how far the others are";
  EXPECT_LE(push + book.raised, *book.least + downpour.staleness_bound() + 1)
      << "push " << push << " of worker/" << session.worker << "#" << session.incarnation
      << " is too far ahead";
}

}  // namespace

void SimulatedPs::NotePush(const PushRequest& push, ChunkCursor* payload, const PushReply& reply) {
  std::map<uint32_t, std::vector<float>> gradients;
  for (const PushRecord& record : push.record()) {
    std::vector<std::byte> bytes(record.length());
    payload->Copy(bytes.size(), bytes.data());
    gradients[record.stripe()] = DecodeStripe(record.format(), bytes);
  }
  for (const PushVerdict& verdict : reply.verdict()) {
    if (verdict.verdict() == APPLIED) {
      EXPECT_FALSE(batch_began_) << "a push changes what a batch goes on from";
      CheckBound(world_, IdOf(push.session()), verdict.sequence());
      log_.Applied(verdict.stripe(), {.session = IdOf(push.session()),
                                      .sequence = verdict.sequence(),
                                      .gradient = std::move(gradients[verdict.stripe()]),
                                      .weight = push.weight() == 0 ? 1.0 : push.weight(),
                                      .part = push.part() == 0 ? 1.0 : push.part(),
                                      .round = NewestRound(verdict.stripe())});
    }
  }
}

bool SimulatedPs::IsOpen(const SessionKey& session) {
  if (!process.alive || Slice() == nullptr) {
    return false;
  }
  MarksRequest request;
  *request.mutable_session() = session;
  request.set_layout_hash(world_->plan.layout_hash);
  request.set_stripe_count(log_.stripes());
  return shard_->Marks(request).ok();
}

}  // namespace monsoon::simulation
