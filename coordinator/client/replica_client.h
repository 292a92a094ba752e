// ReplicaClient: what a worker says to the coordinator. An interface, so that
// tests and a simulator can stand in for the network.
//
// Thread safety: all calls may run concurrently. Each call returns within the
// client's deadline; UNAVAILABLE and DEADLINE_EXCEEDED mean that the
// coordinator was not reached, and repeating the call is safe.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "proto/coordinator.pb.h"

namespace monsoon {

class Tls;

class ReplicaClient {
 public:
  virtual ~ReplicaClient() = default;

  virtual absl::StatusOr<EnterReply> Enter(const EnterRequest& request) = 0;
  virtual absl::StatusOr<HeartbeatReply> Heartbeat(const HeartbeatRequest& request) = 0;
  virtual absl::StatusOr<NextWorkReply> NextWork(const NextWorkRequest& request) = 0;
  virtual absl::StatusOr<ReportEvaluationReply> ReportEvaluation(
      const ReportEvaluationRequest& request) = 0;
  virtual absl::StatusOr<TakeStreamReply> TakeStream(const TakeStreamRequest& request) = 0;
  virtual absl::StatusOr<ClockReply> TellClock(const ClockRequest& request) = 0;
  virtual absl::StatusOr<ReportFailureReply> ReportFailure(const ReportFailureRequest& request) = 0;

  // Over gRPC; does not connect yet. `tls`: as of MakeChannel.
  static std::unique_ptr<ReplicaClient> Create(const std::string& address, absl::Duration deadline,
                                               const std::shared_ptr<Tls>& tls = nullptr);
};

}  // namespace monsoon
