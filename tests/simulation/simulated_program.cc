#include "tests/simulation/simulated_program.h"

#include <sys/mman.h>
#include <sys/socket.h>

#include <algorithm>
#include <deque>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/version.h"
#include "common/process/unique_fd.h"
#include "common/testing/status_matchers.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "tests/simulation/simulated_replica_client.h"
#include "tests/simulation/simulated_transport.h"
#include "worker/client/exchange.h"
#include "worker/client/monsoon.h"
#include "worker/sidecar/program.h"
#include "worker/sidecar/sidecar.h"

namespace monsoon::simulation {
namespace {

constexpr absl::Duration kLook = absl::Milliseconds(1);
constexpr uint32_t kConnectMs = 60000;
constexpr uint64_t kWindowBytes = 12 * 1024;

// What libmonsoon tells its sidecar first, of a job that is there already or not.
std::string JoinFields(const World& world) {
  Job settings = world.plan.job;
  settings.clear_model();
  if (!world.entered.empty()) {
    settings.set_name(world.entered);
  }
  std::string text;
  EXPECT_TRUE(google::protobuf::TextFormat::PrintToString(settings, &text));
  FieldWriter fields;
  fields.Number(uint32_t{MONSOON_ABI});
  fields.String(kVersion);
  fields.Number(kConnectMs);
  fields.String("unix:c");
  fields.String(text);
  fields.Number(static_cast<uint8_t>(!world.entered.empty()));  // makes no other job
  fields.Number(static_cast<uint32_t>(world.plan.job.model().tensor_size()));
  for (const ModelTensor& tensor : world.plan.job.model().tensor()) {
    fields.String(tensor.name());
    fields.Number(static_cast<uint8_t>(MONSOON_TRAINED));
    fields.Number(static_cast<uint32_t>(tensor.shape_size()));
    for (const uint32_t extent : tensor.shape()) {
      fields.Number(extent);
    }
    fields.Number(uint32_t{0});  // aliases
  }
  fields.String("");  // tables
  fields.Number(static_cast<uint8_t>(MONSOON_FLOAT32));
  fields.Number(uint64_t{0});  // as the simulation says
  fields.String("");
  fields.String("");
  return fields.bytes();
}

// The three vectors that a sidecar shares with its program.
class Vectors {
 public:
  Vectors(UniqueFd fd, size_t floats, size_t stride)
      : floats_(floats),
        bytes_(SharedBytes(stride)),
        stride_(stride),
        fd_(std::move(fd)),
        all_(static_cast<float*>(
            mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, fd_.get(), 0))) {
    EXPECT_NE(all_, MAP_FAILED);
  }
  ~Vectors() { munmap(all_, bytes_); }
  Vectors(const Vectors&) = delete;
  Vectors& operator=(const Vectors&) = delete;

  std::span<float> parameters() const { return {all_, floats_}; }
  std::span<float> gradient() const { return {all_ + stride_, floats_}; }

 private:
  const size_t floats_;
  const size_t bytes_;
  const size_t stride_;
  const UniqueFd fd_;
  float* const all_;
};

}  // namespace

// One life of the process.
class SimulatedProgram::Life {
 public:
  Life(World* world, SimulatedProcess* process)
      : world_(world), process_(process), life_(process), guest_(1 + world->dice.Below(1u << 30)) {
    int calls[2];
    int leave[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, calls), 0);
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, leave), 0);
    socket_ = std::make_unique<MessageSocket>(calls[0]);
    leave_ = UniqueFd(leave[0]);
    absl::StatusOr<std::unique_ptr<Program>> seen = Program::Open(calls[1], leave[1]);
    EXPECT_OK(seen);
    seen_ = *std::move(seen);
  }

  // The sidecar's main thread.
  void RunSidecar() {
    Sidecar::Surroundings around;
    around.guest = guest_;
    around.make_client = [this](absl::Duration deadline) {
      return std::make_unique<SimulatedReplicaClient>(world_, process_, deadline);
    };
    around.make_transport = [this](const SessionKey& session) {
      return std::make_unique<SimulatedTransport>(world_, process_, session);
    };
    around.replay_window_bytes = kWindowBytes;
    {
      Sidecar sidecar(std::move(seen_), std::move(around));
      how_ = sidecar.Run().ToString();
    }
    world_->Trace(absl::StrCat("sidecar ", guest_, " ends: ", how_));
    if (!life_.over()) {
      process_->alive = false;
    }
  }

  // The program's.
  void Run() {
    if (Join()) {
      Train();
    }
    shutdown(leave_.get(), SHUT_RDWR);
    socket_.reset();
  }

  std::string Describe() const {
    return absl::StrCat("program ", guest_, ", step ", steps_, ", told last: ", kind_, ", ", how_);
  }

 private:
  bool Join() {
    UniqueFd memory;
    if (!Ask(MessageKind::kJoin, JoinFields(*world_), &memory) ||
        answer_.kind != MessageKind::kJoined) {
      return false;
    }
    FieldReader fields(answer_.fields);
    fields.String();  // the job
    local_steps_ = fields.Number<uint32_t>();
    const auto floats = fields.Number<uint64_t>();
    vectors_ = std::make_unique<Vectors>(std::move(memory), floats, fields.Number<uint64_t>());
    std::span<float> initial = vectors_->parameters();
    for (size_t i = 0; i < initial.size(); ++i) {
      initial[i] = InitialOfPrograms(i);
    }
    return true;
  }

  void Train() {
    bool goes_on = Ask(MessageKind::kBegin, "");
    while (goes_on && TakeEvent()) {
      if (kind_ == MONSOON_EVALUATE) {
        world_->threads.Park(nullptr, kLook);
        FieldWriter fields;
        fields.String("");  // no failure
        fields.Number(uint32_t{1});
        fields.String("loss");
        fields.Number(0.5);
        goes_on = Ask(MessageKind::kEvaluated, fields.bytes());
      } else if (finishes_) {
        goes_on = Finish();
      } else if (batches_.empty()) {
        world_->threads.Park(nullptr, kind_ == MONSOON_NOTHING_NOW ? 20 * kLook : kLook);
        goes_on = Ask(MessageKind::kDraw, "");
      } else {
        goes_on = Step();
      }
    }
  }

  bool Step() {
    const bool goes_on =
        Exchange(MessageKind::kStep, std::min<size_t>(batches_.size(), std::max(1u, local_steps_)));
    ++steps_;
    finishes_ = world_->finish_step > 0 && steps_ >= world_->finish_step;
    return goes_on;
  }

  // With the local steps that were not told.
  bool Finish() {
    const size_t most = std::min<size_t>(batches_.size(), std::max(1u, local_steps_) - 1);
    const size_t untold = most == 0 ? 0 : world_->dice.Below(static_cast<uint32_t>(most) + 1);
    const bool goes_on = Exchange(MessageKind::kFinish, untold);
    batches_.clear();
    return goes_on;
  }

  bool Exchange(MessageKind kind, size_t count) {
    uint64_t examples = 0;
    for (size_t i = 0; i < count; ++i) {
      examples += batches_.front();
      batches_.pop_front();
      world_->threads.Park(nullptr,
                           world_->dice.Between(absl::Milliseconds(2), absl::Milliseconds(20)));
    }
    for (float& g : vectors_->gradient()) {
      g = (static_cast<float>(world_->dice.Below(255)) - 127.0f) / 32.0f;
    }
    FieldWriter fields;
    fields.Number(static_cast<uint32_t>(count));
    fields.Number(uint64_t{count});
    fields.Number(examples);
    fields.Number(examples);  // judged
    fields.Number(examples);  // correct
    fields.Number(static_cast<uint8_t>(count > 0));
    fields.Number(1.0);
    fields.Number(uint32_t{0});  // gradients of rows
    fields.Number(uint32_t{0});  // tensors without a gradient
    // A stream of its own, of which each step has read one item.
    session_steps_ += count;
    fields.Number(uint32_t{count > 0 ? 1u : 0u});
    if (count > 0) {
      fields.String(absl::StrCat("of ", guest_));
      fields.String(absl::StrCat(session_steps_));
    }
    return Ask(kind, fields.bytes());
  }

  // Of the answer: what is to be done now. False: nothing any more.
  bool TakeEvent() {
    if (answer_.kind != MessageKind::kEvent) {
      how_ = answer_.fields.substr(std::min(answer_.fields.size(), 2 * sizeof(uint32_t)));
      return false;
    }
    FieldReader fields(answer_.fields);
    const EventFigures figures = EventFigures::Read(&fields);
    kind_ = figures.kind;
    if (figures.discarded != 0) {
      batches_.clear();
      session_steps_ = 0;
    }
    const auto leased = fields.Number<uint32_t>();
    for (uint32_t i = 0; i < leased; ++i) {
      fields.Number<uint32_t>();  // epoch
      const auto samples = fields.Number<uint32_t>();
      fields.Take(samples * sizeof(uint32_t));
      batches_.push_back(samples);
    }
    EXPECT_TRUE(fields.ok()) << "an event is malformed";
    return kind_ != MONSOON_ENDED;
  }

  // False: there will be no answer.
  bool Ask(MessageKind kind, const std::string& fields, UniqueFd* passed = nullptr) {
    if (life_.over() || !socket_->Send(kind, fields)) {
      return false;
    }
    while (!life_.over()) {
      int fd = -1;
      switch (socket_->Receive(0, &answer_, passed == nullptr ? nullptr : &fd)) {
        case MessageSocket::Outcome::kDone:
          if (passed != nullptr) {
            *passed = UniqueFd(fd);
          }
          return true;
        case MessageSocket::Outcome::kTimeout:
        case MessageSocket::Outcome::kInterrupted:
          world_->threads.Park(nullptr, kLook);
          break;
        default:
          return false;
      }
    }
    return false;
  }

  World* const world_;
  SimulatedProcess* const process_;
  const ProcessLife life_;
  const uint64_t guest_;
  std::unique_ptr<MessageSocket> socket_;
  UniqueFd leave_;
  std::unique_ptr<Program> seen_;
  Message answer_;
  std::unique_ptr<Vectors> vectors_;
  uint32_t local_steps_ = 0;
  uint32_t kind_ = MONSOON_GO;
  std::deque<uint32_t> batches_;  // their samples
  uint64_t steps_ = 0;
  uint64_t session_steps_ = 0;  // of the session that is there
  bool finishes_ = false;
  std::string how_;  // it ended
};

void SimulatedProgram::Start() {
  process.alive = true;
  process.wakes_at = absl::ZeroDuration();
  ++process.life;
  life_ = std::make_shared<Life>(world_, &process);
  world_->threads.StartIn(&process, [life = life_] { life->RunSidecar(); });
  world_->threads.StartIn(&process, [life = life_] { life->Run(); });
}

void SimulatedProgram::Kill() { process.alive = false; }

std::string SimulatedProgram::Describe() const {
  return absl::StrCat("program ", number_,
                      process.alive ? ": " : " dead: ", life_ == nullptr ? "" : life_->Describe());
}

}  // namespace monsoon::simulation
