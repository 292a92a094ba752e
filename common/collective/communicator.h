// Communicator: one member of one generation of a group, for the thread that computes. Its calls
// are made by all members alike and in the same order; each returns when this member has its
// result and its vector is its own again.
//
//   PeerMailbox mailbox;                                   // of the process
//   FrameListener listener(&mailbox, {});                  // serves it
//   ... all members learn each other's address and offer ...
//   ASSIGN_OR_RETURN(auto communicator, Communicator::Open(&mailbox, group, addresses, options));
//   RETURN_IF_ERROR(communicator->Calibrate());            // if kAuto is to be used
//   RETURN_IF_ERROR(communicator->AllReduce(gradient));
//
// Frames go by a ChoosingTransport: through shared memory to members on this host, else over gRPC.
// The threads that serve the process's frames copy and add what comes; the calling thread sends,
// sums where a plan says so, and waits for both by one event.
//
// Errors. The first one ends the generation: this member tells the others, and each later call
// gives it again; what the vector then holds is not defined. DeadlineExceeded names who was waited
// for and sent nothing for CallOptions.patience, found along the chain of those who wait;
// Unavailable a member that is gone; Aborted what another one has told; InvalidArgument calls that
// differ. Whoever comes late, for as long as the patience, is waited for.
//
// Thread safety: one thread calls; Abort may be called by any while the communicator lives.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/collective/collective.h"
#include "common/collective/cost_table.h"
#include "common/collective/member_core.h"
#include "common/collective/peer_mailbox.h"
#include "common/collective/plan.h"
#include "common/collective/seat.h"
#include "common/transport/choosing_transport.h"
#include "common/transport/transport.h"

namespace monsoon {

struct CommunicatorOptions {
  Transport transport = Transport::AUTO;
  std::shared_ptr<Tls> tls;  // as of MakeChannel
  AskForOffer offer;         // of a member's shared memory, by rank
  // The longest payload, the same on all members. Through shared memory 256 KiB are enough that a
  // frame's cost is small beside its bytes', and both ends work at once; over gRPC 1 MiB was 2.8
  // times as fast. 0: 256 KiB, until Calibrate has chosen.
  uint32_t part_floats = 0;
};

struct CallOptions {
  // AlgorithmFor says what the operations other than all-reduce make of it.
  Algorithm algorithm = Algorithm::kAuto;
  SumOrder order = SumOrder::kFixed;
  absl::Duration patience = absl::Seconds(30);
};

class Communicator {
 public:
  // `addresses`: one a member, HOST:PORT; its own is not used. FailedPrecondition where the
  // generation is over in `mailbox`, which outlives this. Waits for nobody.
  static absl::StatusOr<std::unique_ptr<Communicator>> Open(PeerMailbox* mailbox, Group group,
                                                            std::vector<std::string> addresses,
                                                            CommunicatorOptions options);
  // No call is in progress. Members that still wait for this one are told that it has left, as
  // after a failure: it may take a fifth of a second, and a second for each that does not answer.
  // The process goes on serving until what it has taken is answered, as FrameListener::Drain waits.
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  // Vectors have the same length on all members; an empty one waits for nobody.

  // values = the sum over all members.
  absl::Status AllReduce(std::span<float> values, const CallOptions& options = {});
  // values = those of rank `root`.
  absl::Status Broadcast(std::span<float> values, uint32_t root, const CallOptions& options = {});
  // Each member brings its block (BlockOf) of `values`; afterwards all are there.
  absl::Status AllGather(std::span<float> values, const CallOptions& options = {});
  // The own block of `values` is the sum over all members; the rest is not defined.
  absl::Status ReduceScatter(std::span<float> values, const CallOptions& options = {});

  // Times all-reduces of some sizes by each algorithm, some 150 calls; rank 0's times become the
  // table of all, and say how long parts are where the options do not.
  absl::Status Calibrate(const CallOptions& options = {});
  const CostTable& costs() const { return costs_; }

  // Ends the generation: a call in progress returns `status` at once, or as soon as it has tried
  // to reach a member that does not answer, a second at most.
  void Abort(const absl::Status& status);
  // All members have done with the generation, as they know: none is told that this one leaves.
  void EndsForAll() { told_ = true; }

 private:
  Communicator(PeerMailbox* mailbox, Group group, std::vector<std::string> addresses,
               CommunicatorOptions options);

  absl::Status Call(Operation operation, std::span<float> values, uint32_t root,
                    const CallOptions& options);
  const Plan* FindPlan(const Collective& collective);
  absl::Status Drive();
  // The sums and kept frames that have their turn.
  void Work();
  // Sends what may go. Gives how long nothing can happen without an event.
  struct Turn {
    bool finished = false;
    bool sent = false;
    absl::Status failed;
    absl::Duration wait;
  };
  Turn SendFrames();
  void Send(uint32_t peer, const MemberCore::Outgoing& out);
  void Handle(const FrameTransport::Event& event);
  // After a failure, or for good: tells the others, and waits until nobody writes the vector.
  void Leave();
  absl::Status ChooseParts(std::span<float> values, const CallOptions& options);
  absl::StatusOr<double> Time(Algorithm algorithm, std::span<float> values, int calls,
                              const CallOptions& options);

  PeerMailbox* const mailbox_;
  const uint64_t generation_;
  const uint32_t rank_;
  const uint32_t members_;
  const CommunicatorOptions options_;
  TransportReport report_;
  const std::unique_ptr<ChoosingTransport> transport_;
  const std::shared_ptr<Seat> seat_;
  std::vector<std::unique_ptr<Plan>> plans_;  // the newest last
  CostTable costs_;
  uint32_t part_floats_;
  // Of frames that name the vector of the present call.
  std::shared_ptr<const int> lease_;
  bool in_place_ = true;  // Frame::Keep::copied of all of them
  bool told_ = false;     // the others, that the generation is over here
};

}  // namespace monsoon
