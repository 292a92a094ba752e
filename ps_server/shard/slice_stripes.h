// SliceStripes: what one shard holds of a job's parameters: the stripes, in memory that clients
// on this host may read, and the kernels that apply pushes to them.
//
// The list of stripes is made by Fill and stays as it is. What writes to them without a session
// (Initialize, Clear, the floats of a restored part) comes before anybody else has the job. The
// rest is thread safe: each stripe has a lock of its own; changes of settings have one, under which
// one stripe's is taken at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/memory/float_arena.h"
#include "common/model/parameter_layout.h"
#include "common/model/shard_map.h"
#include "common/optimizer/optimizer.h"
#include "common/optimizer/tensor_ranges.h"
#include "common/transport/shm/shared_slice.h"
#include "proto/parameter_server.pb.h"
#include "ps_server/shard/stripe.h"
#include "ps_server/shard/stripe_rules.h"
#include "ps_server/shard/validation.h"
#include "ps_server/vector/vector_store.h"

namespace monsoon {

class SliceStripes final : public SliceParameters {
 public:
  // `request` and `facts` outlive this. `reductions` are those of the kernel; null: there is no
  // PlateauSchedule. `slice` has the shape of the facts' stripes, and is zero. Fill follows.
  SliceStripes(const CreateShardJobRequest* request, const JobFacts* facts,
               std::shared_ptr<RateReductions> reductions, std::unique_ptr<OptimizerKernel> kernel,
               SharedSlice slice);

  // Makes the stripes, of zeros. `layout` is the job's; `state` has room for the plan's
  // state_bytes, null if these are 0; `clock`, of rounds, outlives this. Initialize or
  // SliceCheckpoint::Restore follows, before anything else.
  void Fill(const ParameterLayout& layout, const std::shared_ptr<FloatArena>& state,
            const Clock* clock);
  // Gives them their initial parameters, from (seed, global index); zeros stay if the client
  // writes them. Asks before each stripe whether to go on; Cancelled: it did not, and the
  // job is of no use.
  absl::Status Initialize(absl::FunctionRef<bool()> go_on);
  // The same with what `source` holds, another job's slice: parameters, versions and, of an
  // optimizer of the same kind, its state and what it has counted, stripe by stripe, each as of one
  // moment. FailedPrecondition where its layout or its stripes are others.
  absl::Status TakeOver(const SliceStripes& source, absl::FunctionRef<bool()> go_on);
  // As after Fill, whatever was written to their floats since.
  void Clear();

  uint32_t count() const { return static_cast<uint32_t>(stripes_.size()); }
  Stripe& at(size_t stripe) const { return *stripes_[stripe]; }
  std::span<const std::unique_ptr<Stripe>> all() const { return stripes_; }
  // Floats of state for each parameter: the optimizer's, and behind them a round's sum and a
  // public copy.
  int state_slots() const;
  // The optimizer's alone.
  int optimizer_slots() const { return kernel_->state_slots(); }

  // Where their parameters lie. Its slots belong to SliceSessions.
  SharedSlice* slice() { return &slice_; }
  const SharedSlice& slice() const { return slice_; }

  // From now on pushes are applied with that many; a smaller number than before does nothing.
  // FailedPrecondition without a PlateauSchedule.
  absl::Status ReduceRate(uint32_t reductions);

  // From now on, or with rounds from the version on that the request says, pushes are applied by
  // these settings; a revision that is not above the known one does nothing. With rounds and
  // without a version the stripes end no round until it is told again. Returns what
  // ChangeSettingsReply.version says. InvalidArgument for settings that its stripes are not laid
  // out for; they go on as before.
  absl::StatusOr<uint64_t> ChangeSettings(const ChangeSettingsRequest& request);

  // Versions, reductions, and which settings they have.
  void AddTo(ShardJobStatus* status) const;

  // Of the parameters, for VectorStore.
  void TakeStripe(uint32_t stripe, std::span<float> out) override;
  void WriteStripe(uint32_t stripe, std::span<const float> parameters) override;

  // Every byte of parameters and optimizer state, for tests.
  std::string Snapshot() const;

 private:
  // The job's kernel, or one of its own for a stripe with biases that do not decay, with tensors
  // of a group, or with statistics; `tensors` are the slice's.
  const OptimizerKernel* KernelOf(const TensorRanges& tensors, const Slice& stripe);
  absl::Status CheckChange(const ChangeSettingsRequest& request) const;
  // What each stripe is to take.
  absl::StatusOr<std::vector<StripeRules::Change>> ChangesFor(
      const ChangeSettingsRequest& request) const;

  const CreateShardJobRequest& request_;
  const JobFacts& facts_;
  const std::shared_ptr<RateReductions> reductions_;
  const std::unique_ptr<OptimizerKernel> kernel_;
  std::vector<std::unique_ptr<OptimizerKernel>> stripe_kernels_;  // see KernelOf
  SharedSlice slice_;
  std::vector<std::unique_ptr<Stripe>> stripes_;

  // Held while all stripes are told, so that none has an earlier change than another one.
  mutable Mutex settings_mutex_;
  uint64_t settings_revision_ ABSL_GUARDED_BY(settings_mutex_);
  uint64_t settings_from_ ABSL_GUARDED_BY(settings_mutex_) = 0;
};

}  // namespace monsoon
