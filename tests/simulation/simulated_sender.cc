#include "tests/simulation/simulated_sender.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/testing/status_matchers.h"
#include "gtest/gtest.h"

namespace monsoon::simulation {
namespace {

constexpr absl::Duration kSilence = absl::Milliseconds(300);
constexpr absl::Duration kAskMarks = absl::Milliseconds(60);
constexpr absl::Duration kRetry = absl::Milliseconds(20);
constexpr uint64_t kWindowPushes = 12;
constexpr uint32_t kPushesAhead = 4;  // unanswered frames of one connection

}  // namespace

SimulatedSender::SimulatedSender(World* world, SimulatedProcess* process, const SessionKey& session)
    : world_(world), process_(process), session_(session) {
  for (const SimulatedPs* const ps : world_->ps) {
    links_.push_back(std::make_unique<Link>(kWindowPushes * PushBytes::StripeBytes(world_->format) *
                                            ps->log().stripes()));
  }
  book().acknowledged.resize(links_.size());
}

void SimulatedSender::Start(const std::vector<uint64_t>& epochs) {
  for (uint32_t shard = 0; shard < links_.size(); ++shard) {
    links_[shard]->window.NameEpoch(epochs[shard]);
    PumpOn(shard);
  }
}

void SimulatedSender::Stop() {
  stopped_ = true;
  for (uint32_t shard = 0; shard < links_.size(); ++shard) {
    Break(shard);
  }
}

bool SimulatedSender::full() const {
  for (uint32_t shard = 0; shard < links_.size(); ++shard) {
    const uint64_t bytes =
        PushBytes::StripeBytes(world_->format) * world_->ps[shard]->log().stripes();
    if (links_[shard]->window.full(bytes)) {
      return true;
    }
  }
  return false;
}

void SimulatedSender::Push() {
  book().pushed = ++pushed_;
  for (uint32_t shard = 0; shard < links_.size(); ++shard) {
    Link& link = *links_[shard];
    link.kept.push_back(Gradient(shard));
    // The window keeps the bytes with their owner.
    const std::shared_ptr<const KeptBytes> bytes(link.kept.back(), &link.kept.back()->bytes);
    ASSERT_EQ(link.window.Add(bytes), pushed_);
    Pump(shard);
  }
}

uint64_t SimulatedSender::acknowledged() const {
  uint64_t acknowledged = pushed_;
  for (const auto& link : links_) {
    acknowledged = std::min(acknowledged, link->window.once_acknowledged());
  }
  return acknowledged;
}

bool SimulatedSender::all_acknowledged() const {
  return std::ranges::all_of(links_, [this](const auto& link) {
    return !link->window.asks() && link->window.acknowledged() >= pushed_;
  });
}

bool SimulatedSender::all_written() const {
  return std::ranges::all_of(links_, [this](const auto& link) {
    return !link->window.asks() && link->written >= pushed_;
  });
}

void SimulatedSender::NameEpoch(uint32_t shard, uint64_t epoch) {
  if (links_[shard]->window.epoch() != epoch) {
    links_[shard]->window.NameEpoch(epoch);
    Break(shard);  // what comes of the old life does not count
  }
}

std::string SimulatedSender::Describe() const {
  std::string text;
  for (uint32_t shard = 0; shard < links_.size(); ++shard) {
    const ReplayWindow& window = links_[shard]->window;
    absl::StrAppend(&text, "  ps/", shard, ": epoch ", window.epoch(), " of ",
                    world_->ps[shard]->epoch(), ", pushed ", pushed_, ", acknowledged ",
                    window.acknowledged(), " (once ", window.once_acknowledged(), "), durable ",
                    window.durable(), ", written ", links_[shard]->written,
                    window.asks() ? ", asks" : "",
                    links_[shard]->connection == nullptr ? ", not connected" : "", "\n");
  }
  return text;
}

// ---- connections ----------------------------------------------------------------

void SimulatedSender::Break(uint32_t shard) {
  Link& link = *links_[shard];
  if (link.connection != nullptr) {
    link.connection->broken = true;
    link.connection.reset();
  }
  link.asked = false;
  link.window.Reconnect();
}

void SimulatedSender::GoAway(uint32_t shard, absl::Duration pause) {
  Break(shard);
  links_[shard]->connect_after = world_->time.now() + pause;
}

void SimulatedSender::Connect(uint32_t shard) {
  Link& link = *links_[shard];
  const absl::Duration now = world_->time.now();
  const SimulatedProcess& ps = world_->ps[shard]->process;
  if (link.connection != nullptr) {
    const bool died = !ps.alive || ps.life != link.connection->life;
    const bool silent = link.connection->unanswered > 0 && now - link.connection->heard > kSilence;
    if (died || silent) {
      GoAway(shard, kRetry);
    }
  } else if (now >= link.connect_after && ps.alive && !world_->network.IsCut(process_, &ps)) {
    link.connection = std::make_shared<Connection>();
    link.connection->life = ps.life;
    link.connection->heard = now;
  }
}

bool SimulatedSender::IsSilent(const SimulatedProcess& ps, Connection* connection) {
  connection->silent |=
      world_->network.IsCut(process_, &ps) || !ps.alive || ps.life != connection->life;
  return connection->silent;
}

template <typename Reply>
void SimulatedSender::SendFrame(uint32_t shard,
                                std::function<absl::StatusOr<Reply>(SimulatedPs*)> serve,
                                std::function<void(const absl::StatusOr<Reply>&)> take) {
  SimulatedPs* const ps = world_->ps[shard];
  const std::shared_ptr<Connection> connection = links_[shard]->connection;
  const absl::Duration now = world_->time.now();
  if (connection->unanswered++ == 0) {
    connection->heard = now;
  }
  if (IsSilent(ps->process, connection.get())) {
    return;
  }
  // The weak one, since the connection has these functions; who carries them holds it.
  connection->frames.push_back([this, ps, weak = std::weak_ptr(connection), serve, take] {
    absl::StatusOr<Reply> reply = serve(ps);
    const std::shared_ptr<Connection> here = weak.lock();
    if (here->broken || IsSilent(ps->process, here.get())) {
      return;
    }
    here->answers.push_back([this, there = here.get(), take, reply = std::move(reply)] {
      if (!there->broken) {
        --there->unanswered;
        there->heard = world_->time.now();
        take(reply);
      }
    });
    Carry(process_, here, &Connection::answers, &Connection::last_in);
  });
  Carry(&ps->process, connection, &Connection::frames, &Connection::last_out);
}

void SimulatedSender::Carry(SimulatedProcess* to, const std::shared_ptr<Connection>& connection,
                            std::deque<std::function<void()>> Connection::*queue,
                            absl::Duration Connection::*last) {
  const absl::Duration now = world_->time.now();
  absl::Duration& at = (*connection).*last;
  at = std::max(at, now + world_->network.Delay());
  world_->network.In(to, at - now, [self = shared_from_this(), connection, queue] {
    const std::function<void()> what = std::move(((*connection).*queue).front());
    ((*connection).*queue).pop_front();
    what();
  });
}

// ---- frames -----------------------------------------------------------------------

void SimulatedSender::PumpOn(uint32_t shard) {
  if (!stopped_) {
    Pump(shard);
    world_->network.In(process_,
                       world_->dice.Between(absl::Milliseconds(10), absl::Milliseconds(20)),
                       [self = shared_from_this(), shard] { self->PumpOn(shard); });
  }
}

void SimulatedSender::Pump(uint32_t shard) {
  Connect(shard);
  Link& link = *links_[shard];
  if (link.connection == nullptr) {
    return;
  }
  const absl::Duration now = world_->time.now();
  const bool due = (link.window.bytes() > 0 || awaits_) && now - link.asked_at > kAskMarks;
  if ((link.window.asks() || due) && !link.asked) {
    link.asked = true;
    link.asked_at = now;
    SendFrame<MarksReply>(
        shard, [key = session_](SimulatedPs* ps) { return ps->Marks(key); },
        [this, shard](const auto& reply) { OnMarks(shard, reply); });
  }
  while (!link.window.asks() && link.connection->unanswered < kPushesAhead) {
    const ReplayWindow::Push* const push = link.window.Next();
    if (push == nullptr) {
      break;
    }
    const uint64_t sequence = push->sequence;
    SendFrame<PushReply>(
        shard,
        [key = session_, sequence, epoch = link.window.epoch(),
         bytes = link.kept[sequence - link.window.durable() - 1]](SimulatedPs* ps) {
          return ps->Push(key, sequence, epoch, bytes);
        },
        [this, shard, sequence](const auto& reply) { OnPushed(shard, sequence, reply); });
    link.window.OnSent();
  }
  if (link.window.caught_up() && link.window.Next() == nullptr && world_->dice.Once(4)) {
    SendFrame<FetchReply>(
        shard, [key = session_](SimulatedPs* ps) { return ps->Fetch(key, ""); },
        [this, shard, acknowledged = link.window.acknowledged()](const auto& reply) {
          OnFetched(shard, acknowledged, reply);
        });
  }
}

void SimulatedSender::OnPushed(uint32_t shard, uint64_t sequence,
                               const absl::StatusOr<PushReply>& reply) {
  Link& link = *links_[shard];
  ASSERT_OK(reply);
  Verdict worst = APPLIED;
  uint64_t durable = UINT64_MAX;
  for (const PushVerdict& verdict : reply->verdict()) {
    if (verdict.verdict() != APPLIED && verdict.verdict() != DUPLICATE) {
      worst = verdict.verdict();
    }
    durable = std::min<uint64_t>(durable, verdict.durable_sequence());
  }
  switch (worst) {
    case APPLIED:
      link.window.OnAcknowledged(link.window.epoch(), sequence, durable);
      return Note(shard);
    case REFUSED_EPOCH:
      link.window.OnRefusedEpoch();
      return GoAway(shard, kRetry);
    case REFUSED_SESSION:
      // It may not have the job back yet; that the session is over the coordinator tells.
      return GoAway(shard, kRetry);
    default:
      FAIL() << Verdict_Name(worst) << " for push " << sequence << " of worker/"
             << session_.worker() << " to ps/" << shard << ": " << reply->ShortDebugString();
  }
}

void SimulatedSender::OnMarks(uint32_t shard, const absl::StatusOr<MarksReply>& reply) {
  Link& link = *links_[shard];
  link.asked = false;
  if (!reply.ok() || reply->shard_epoch() != link.window.epoch()) {
    return GoAway(shard, kRetry);
  }
  uint64_t applied = UINT64_MAX, durable = UINT64_MAX, written = UINT64_MAX;
  for (const StripeMarks& stripe : reply->stripe()) {
    applied = std::min<uint64_t>(applied, stripe.applied());
    durable = std::min<uint64_t>(durable, stripe.durable());
    written = std::min<uint64_t>(written, stripe.written());
  }
  ASSERT_OK(link.window.OnMarks(reply->shard_epoch(), applied, durable))
      << "worker/" << session_.worker() << ", ps/" << shard;
  link.written = written;
  Note(shard);
}

void SimulatedSender::OnFetched(uint32_t shard, uint64_t acknowledged,
                                const absl::StatusOr<FetchReply>& reply) {
  Link& link = *links_[shard];
  if (!reply.ok() || reply->shard_epoch() != link.window.epoch() || !link.window.caught_up()) {
    return;  // not to be installed
  }
  if (link.fetched_epoch != reply->shard_epoch()) {
    link.fetched_epoch = reply->shard_epoch();
    link.fetched_version.assign(static_cast<size_t>(reply->record_size()), 0);
  }
  for (const FetchRecord& record : reply->record()) {
    uint64_t& version = link.fetched_version[record.stripe()];
    ASSERT_GE(record.version(), version) << "a version went back";
    ASSERT_GE(record.applied_sequence(), acknowledged) << "a fetch without one's own pushes";
    version = record.version();
  }
}

void SimulatedSender::Note(uint32_t shard) {
  Link& link = *links_[shard];
  while (link.kept.size() > link.window.last() - link.window.durable()) {
    link.kept.pop_front();
  }
  uint64_t& noted = book().acknowledged[shard];
  noted = std::max(noted, link.window.once_acknowledged());
}

std::shared_ptr<const PushBytes> SimulatedSender::Gradient(uint32_t shard) {
  const uint32_t stripes = world_->ps[shard]->log().stripes();
  auto push = std::make_shared<PushBytes>(world_->format, stripes);
  const size_t floats = kStripeFloats * stripes;
  const auto workers = static_cast<size_t>(world_->cluster.worker_size());
  for (size_t i = 0; i < floats; ++i) {
    // BFLOAT16 has all bits of both.
    const float value = world_->counting
                            ? (i % workers == session_.worker() ? -1.0f : 0.0f)
                            : (static_cast<float>(world_->dice.Below(255)) - 127.0f) / 32.0f;
    const size_t size = push->format == FLOAT32 ? 4 : 2;
    std::memcpy(push->bytes.bytes().data() + i * size,
                reinterpret_cast<const char*>(&value) + (sizeof(value) - size), size);
  }
  return push;
}

}  // namespace monsoon::simulation
