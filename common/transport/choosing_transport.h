// ChoosingTransport: shared memory with the peers that share this host, gRPC
// with the others, each chosen when its stream is opened and again after it
// broke: a peer that was started anew may have moved.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/mutex.h"
#include "common/security/identity.h"
#include "common/transport/frame/frame_transport.h"
#include "common/transport/shm/shared_slice.h"
#include "common/transport/shm/shm_frame_transport.h"
#include "common/transport/transport.h"
#include "proto/parameter_server.pb.h"
#include "proto/tensor.pb.h"

namespace monsoon {

class Tls;

// What carries the frames of each peer, for people; one line in the log when
// it is chosen and when it changes. Thread safe.
class TransportReport {
 public:
  // `subject` begins each line, then comes the peer's name.
  TransportReport(std::string subject, std::vector<std::string> names)
      : subject_(std::move(subject)), names_(std::move(names)), transports_(names_.size()) {}

  void Set(uint32_t peer, const std::string& transport);
  std::vector<std::string> Get() const;

 private:
  const std::string subject_;
  const std::vector<std::string> names_;
  mutable Mutex mutex_;
  std::vector<std::string> transports_ ABSL_GUARDED_BY(mutex_);
};

// MONSOON_TRANSPORT: AUTO when it is unset or empty, InvalidArgument when it is
// no transport.
absl::StatusOr<Transport> TransportFromEnvironment();

// Asks a peer where its shared memory is to be had; an error says why there is
// none. Blocks for `deadline` at most.
using AskForOffer =
    std::function<absl::StatusOr<SharedMemoryOffer>(uint32_t peer, absl::Duration deadline)>;

class ChoosingTransport : public FrameTransport {
 public:
  // `addresses`: one a peer, for gRPC. To choose, it asks the peer for its offer:
  // Send blocks for that and for the connection when a stream is opened,
  // `deadline` and a second at most. `report` outlives the transport.
  // `tls` and `server`, what the peers are: as of MakeChannel. `connections`: to each peer that is
  // reached over gRPC; in shared memory there is one.
  static std::unique_ptr<ChoosingTransport> Create(Transport allowed,
                                                   std::vector<std::string> addresses,
                                                   std::shared_ptr<Tls> tls, uint32_t connections,
                                                   absl::Duration deadline, AskForOffer ask,
                                                   TransportReport* report,
                                                   Role server = Role::kPs);

  // Ends the Wait that another thread is in, or else the next one, at once and without an event.
  // Thread safe.
  virtual void Wake() = 0;

  using Mapping = SharedMemoryTransport::Mapping;

  // SharedMemoryTransport::Map where `peer` is or can be reached through shared
  // memory, else null. Blocks like Send. Not while frames of the peer are
  // unanswered.
  virtual const Mapping* Map(uint32_t peer, const FetchRequest& request,
                             const SharedShape& shape) = 0;
  // What Map gave for the stream that there is now, without blocking.
  virtual const Mapping* mapped(uint32_t peer) const = 0;
  // Whether the peer still holds its end of the stream over which Map gave its
  // memory. What was read from that before counts only if it does.
  virtual bool Alive(uint32_t peer) = 0;
};

}  // namespace monsoon
