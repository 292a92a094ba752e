// LabShard: one parameter server's real shard with a job of local steps, at a time that its user
// moves, and what a client of it decides: sequences, base marks, the fragment of a push, how it
// is encoded. For experiments at virtual time; no threads, no sockets, no retries.
//
// The job is model and Downpour as a job file has them. Sessions of all workers are open from
// the beginning.
//
// Thread safety: none.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/memory/aligned_floats.h"
#include "common/model/fragment_map.h"
#include "common/model/parameter_layout.h"
#include "common/model/shard_map.h"
#include "coordinator/session/step_pace.h"
#include "proto/downpour.pb.h"
#include "proto/model.pb.h"
#include "ps_server/client/push_encoder.h"
#include "ps_server/shard/shard.h"

namespace monsoon {

struct LabOptions {
  Model model;
  Downpour downpour;  // workers too
  uint64_t stripe_bytes = 0;
};

class LabShard {
 public:
  // `initial` has the layout's size. InvalidArgument says what is wrong with the job.
  static absl::StatusOr<std::unique_ptr<LabShard>> Create(const LabOptions& options,
                                                          std::span<const float> initial);

  struct Pushed {
    uint32_t fragment = 0;
    uint64_t stripes = 0;
    uint64_t bytes = 0;
    int64_t staleness = 0;  // of all stripes together
  };
  // The worker's next push: of its fragment of `difference`, the whole vector's. Anything but
  // that all stripes take it is an error.
  absl::StatusOr<Pushed> Push(uint32_t worker, std::span<const float> difference, float weight);

  // Puts the stripes of a fragment, of all without one, into `out` (the whole vector), and takes
  // them as the base of the worker's next pushes of them. False, and nothing is done: a round
  // is open that the worker has pushed one of them to.
  absl::StatusOr<bool> Fetch(uint32_t worker, std::optional<uint32_t> fragment,
                             std::span<float> out);
  // The worker has nothing more to push: no round waits for it.
  absl::Status Pass(uint32_t worker);
  // The parameters as an evaluation reads them.
  absl::Status Read(std::span<float> out);

  // What the coordinator tells a worker that has measured `step_ms` (dynamic_local_steps).
  uint32_t LocalSteps(uint32_t worker, double step_ms);
  void Advance(absl::Duration by) { clock_.Advance(by); }

  const FragmentMap& fragments() const { return fragments_; }
  const ShardMap& map() const { return map_; }

 private:
  struct Worker {
    SessionKey session;
    uint64_t pushes = 0;
    std::vector<std::optional<uint64_t>> base;  // [stripe], version
    std::unique_ptr<PushEncoder> encoder;
  };

  LabShard(const LabOptions& options, ParameterLayout layout, ShardMap map, FragmentMap fragments);

  absl::Status Start(std::span<const float> initial);
  absl::Status WriteInitial(std::span<const float> initial);
  absl::StatusOr<Worker*> FindWorker(uint32_t worker);
  absl::Status PushStripes(Worker* worker, std::span<const uint32_t> stripes, uint64_t sequence,
                           Pushed* pushed);
  // Stripes [first, end) to `out`, and their versions to `base` unless it is null.
  absl::Status Copy(const Worker* worker, uint32_t first, uint32_t end, std::span<float> out,
                    std::vector<std::optional<uint64_t>>* base);

  const LabOptions options_;
  const ParameterLayout layout_;
  const ShardMap map_;
  const FragmentMap fragments_;
  ManualClock clock_;
  StepPace pace_;
  std::unique_ptr<Shard> shard_;
  std::vector<Worker> workers_;
  AlignedFloats scratch_;
  AlignedFloats frame_;
};

}  // namespace monsoon
