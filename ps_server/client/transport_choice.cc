#include "ps_server/client/transport_choice.h"

#include <algorithm>
#include <cstdlib>
#include <deque>
#include <numeric>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/base/clock.h"
#include "common/base/logging.h"
#include "common/base/status.h"
#include "ps_server/client/frame_transport_shm.h"
#include "ps_server/client/shard_control.h"

namespace monsoon {
namespace {

// A shard on this host answers at once.
constexpr absl::Duration kLongestChoice = absl::Seconds(1);
// Of a stripe, before the shard is asked for it.
constexpr int kReadAttempts = 3;
// While both kinds are in use neither is waited for longer than this.
constexpr absl::Duration kTurn = absl::Microseconds(200);

class ShardTransports final : public ChoosingTransport {
 public:
  ShardTransports(Transport allowed, const std::vector<std::string>& addresses,
                  absl::Duration deadline, TransportReport* report)
      : allowed_(allowed),
        addresses_(addresses),
        deadline_(std::min(deadline, kLongestChoice)),
        report_(report),
        routes_(addresses.size(), Route::kNone) {}

  void Send(uint32_t shard, Frame frame) override {
    if (const absl::Status status = Choose(shard); !status.ok()) {
      Event event;
      event.kind = Event::Kind::kBroken;
      event.shard = shard;
      event.status = Annotate(status, "shared memory");
      broken_.push_back(std::move(event));
    }
    switch (routes_[shard]) {
      case Route::kSharedMemory:
        shared_memory_->Send(shard, std::move(frame));
        break;
      case Route::kGrpc:
        grpc()->Send(shard, std::move(frame));
        break;
      case Route::kNone:
        break;
    }
  }

  void Read(uint32_t shard, const FetchRequest& request, const ShardMap& map,
            std::span<float> parameters, std::vector<StripeMark>* marks,
            std::vector<uint32_t>* left) override {
    const auto all_are_left = [&] {
      left->resize(map.stripes(shard));
      std::iota(left->begin(), left->end(), 0u);
    };
    all_are_left();
    if (!Choose(shard).ok() || routes_[shard] != Route::kSharedMemory) {
      return;
    }
    const SharedMemoryTransport::Mapping* mapping = shared_memory_->Map(
        shard, request, {0, map.shard(shard).size(), map.stripe_floats()}, deadline_);
    if (mapping == nullptr) {
      return;
    }
    // A stripe that is being written gets another chance when the others are
    // read.
    for (int attempt = 0; attempt < kReadAttempts && !left->empty(); ++attempt) {
      std::erase_if(*left, [&](uint32_t stripe) {
        const Slice slice = map.stripe(shard, stripe);
        const std::optional<SliceReader::Mark> mark =
            mapping->reader->Read(stripe, parameters.subspan(slice.begin, slice.size()));
        if (mark.has_value()) {
          (*marks)[stripe] = {mapping->epoch, mark->version, mark->applied_sequence};
        }
        return mark.has_value();
      });
    }
    // A shard that is gone may have left half of an update; a session that was
    // closed must not go on unnoticed. The shard itself says what is wrong.
    if (!mapping->reader->valid() || !shared_memory_->Alive(shard)) {
      all_are_left();
      return;
    }
    uint64_t floats = map.shard(shard).size();
    for (const uint32_t stripe : *left) {
      floats -= map.stripe(shard, stripe).size();
    }
    mapping->counts->stripes += map.stripes(shard) - left->size();
    mapping->counts->bytes += floats * sizeof(float);
  }

  bool readable(uint32_t shard) const override {
    return routes_[shard] == Route::kSharedMemory && shared_memory_->mapped(shard) != nullptr;
  }

  Event Wait(absl::Duration timeout) override {
    if (!broken_.empty()) {
      Event event = std::move(broken_.front());
      broken_.pop_front();
      return event;
    }
    Event event = WaitForEither(timeout);
    if (event.kind == Event::Kind::kBroken) {
      routes_[event.shard] = Route::kNone;
    }
    return event;
  }

  void Reset(uint32_t shard) override {
    if (grpc_ != nullptr) {
      grpc_->Reset(shard);
    }
    if (shared_memory_ != nullptr) {
      shared_memory_->Reset(shard);
    }
    std::erase_if(broken_, [shard](const Event& event) { return event.shard == shard; });
    routes_[shard] = Route::kNone;
  }

 private:
  enum class Route { kNone, kGrpc, kSharedMemory };

  FrameTransport* grpc() {
    if (grpc_ == nullptr) {
      grpc_ = MakeGrpcTransport(addresses_);
    }
    return grpc_.get();
  }

  // Finds a route unless there is one. An error: there is none yet.
  absl::Status Choose(uint32_t shard) {
    if (routes_[shard] == Route::kSharedMemory && !shared_memory_->connected(shard)) {
      routes_[shard] = Route::kNone;
    }
    if (routes_[shard] != Route::kNone) {
      return absl::OkStatus();
    }
    if (allowed_ == Transport::GRPC) {
      routes_[shard] = Route::kGrpc;
      report_->Set(shard, "gRPC (as asked)");
      return absl::OkStatus();
    }
    const absl::Status status = ConnectSharedMemory(shard);
    if (status.ok()) {
      routes_[shard] = Route::kSharedMemory;
      report_->Set(shard, "shared memory");
    } else if (allowed_ == Transport::AUTO) {
      routes_[shard] = Route::kGrpc;
      report_->Set(shard, absl::StrCat("gRPC (", status.message(), ")"));
    } else {
      return status;
    }
    return absl::OkStatus();
  }

  absl::Status ConnectSharedMemory(uint32_t shard) {
    if (shared_memory_ == nullptr) {
      ASSIGN_OR_RETURN(shared_memory_,
                       SharedMemoryTransport::Create(static_cast<uint32_t>(addresses_.size())));
    }
    ASSIGN_OR_RETURN(const ShardStatusReply status,
                     ShardControl::Create(addresses_[shard], deadline_)->GetStatus(""));
    if (!status.has_shared_memory()) {
      return absl::FailedPreconditionError("the shard does not offer shared memory");
    }
    return shared_memory_->Connect(shard, status.shared_memory(), deadline_);
  }

  Event WaitForEither(absl::Duration timeout) {
    const bool only_shared_memory =
        std::ranges::find(routes_, Route::kGrpc) == routes_.end() && shared_memory_ != nullptr;
    if (only_shared_memory) {
      return shared_memory_->Wait(timeout);
    }
    const bool only_grpc = std::ranges::find(routes_, Route::kSharedMemory) == routes_.end();
    if (only_grpc) {
      return grpc()->Wait(timeout);
    }
    const absl::Duration end = Clock::Real()->Now() + timeout;
    while (true) {
      Event event = grpc()->Wait(absl::ZeroDuration());
      if (event.kind != Event::Kind::kTimeout) {
        return event;
      }
      const absl::Duration left = end - Clock::Real()->Now();
      event = shared_memory_->Wait(std::clamp(left, absl::ZeroDuration(), kTurn));
      if (event.kind != Event::Kind::kTimeout || left <= absl::ZeroDuration()) {
        return event;
      }
    }
  }

  const Transport allowed_;
  const std::vector<std::string> addresses_;
  const absl::Duration deadline_;
  TransportReport* const report_;
  std::vector<Route> routes_;
  std::deque<Event> broken_;                              // to be told
  std::unique_ptr<FrameTransport> grpc_;                  // made when it is needed
  std::unique_ptr<SharedMemoryTransport> shared_memory_;  // likewise
};

}  // namespace

void TransportReport::Set(uint32_t shard, const std::string& transport) {
  MutexLock lock(&mutex_);
  if (transports_[shard] != transport) {
    transports_[shard] = transport;
    LOG(INFO) << subject_ << ": ps/" << shard << ": " << transport;
  }
}

std::vector<std::string> TransportReport::Get() const {
  MutexLock lock(&mutex_);
  return transports_;
}

absl::StatusOr<Transport> TransportFromEnvironment() {
  const char* value = std::getenv("MONSOON_TRANSPORT");
  const absl::string_view text = value == nullptr ? "" : value;
  if (text.empty() || text == "auto") {
    return Transport::AUTO;
  }
  if (text == "grpc") {
    return Transport::GRPC;
  }
  if (text == "shared_memory") {
    return Transport::SHARED_MEMORY;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("MONSOON_TRANSPORT is \"", text, "\"; it may be auto, grpc or shared_memory"));
}

std::unique_ptr<ChoosingTransport> ChoosingTransport::Create(
    Transport allowed, const std::vector<std::string>& addresses, absl::Duration deadline,
    TransportReport* report) {
  return std::make_unique<ShardTransports>(allowed, addresses, deadline, report);
}

}  // namespace monsoon
