// JobClient: what the CLI says to the coordinator.
//
// Thread safety: all calls may run concurrently. Each call returns within the
// client's deadline; UNAVAILABLE names the address that was not reached.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "proto/coordinator.pb.h"

namespace monsoon {

class Tls;

class JobClient {
 public:
  virtual ~JobClient() = default;

  virtual absl::StatusOr<SubmitReply> Submit(const SubmitRequest& request) = 0;
  virtual absl::StatusOr<JobSummary> Start(const std::string& job) = 0;
  virtual absl::StatusOr<ListReply> List() = 0;
  virtual absl::StatusOr<JobDescription> Describe(const std::string& job) = 0;
  virtual absl::StatusOr<JobSummary> Cancel(const std::string& job) = 0;
  virtual absl::StatusOr<JobSummary> Delete(const std::string& job) = 0;
  virtual absl::StatusOr<CheckpointOrder> Checkpoint(const std::string& job) = 0;
  virtual absl::StatusOr<JobLocation> Locate(const std::string& job) = 0;
  virtual absl::StatusOr<InfoReply> Info() = 0;
  virtual absl::StatusOr<TaskStatus> Drain(uint32_t worker) = 0;
  // `by`: who says that the task's state folder will not come back.
  virtual absl::StatusOr<GiveUpReply> GiveUp(const std::string& task, const std::string& by) = 0;
  // `settings`: assignments as of submit --set.
  virtual absl::StatusOr<SetReply> Set(const std::string& job,
                                       const std::vector<std::string>& settings) = 0;

  // Over gRPC; does not connect yet. All requests but Info are for the coordinator of `cluster`,
  // and another one refuses them (FAILED_PRECONDITION); "": for whichever is there. `tls`: as of
  // MakeChannel.
  static std::unique_ptr<JobClient> Create(const std::string& address, absl::Duration deadline,
                                           const std::string& cluster = "",
                                           const std::shared_ptr<Tls>& tls = nullptr);
};

}  // namespace monsoon
