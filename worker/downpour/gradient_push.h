// GradientPush: the sum of n_push rounds' gradients is pushed, and the parameters are fetched
// every n_fetch rounds, whatever has become of the pushes (Dean et al. 2012, section 4.1). A
// local update may move the replica's own copy in between.
//
// Thread safety: none.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/downpour/exchange.h"

namespace monsoon {

class GradientPush : public Exchange {
 public:
  // `accumulator` is of n_push gradients. `statistics` must outlive this.
  GradientPush(uint32_t n_fetch, std::unique_ptr<ReplicaParameters> parameters,
               Accumulator accumulator, const StatisticsKeeper* statistics)
      : Exchange(std::move(parameters), std::move(accumulator), statistics), n_fetch_(n_fetch) {}

  bool IsBoundary(uint64_t round) const override { return round % n_fetch_ == 0; }
  bool awaits_push() const override { return false; }
  bool LandsBefore(uint64_t /*sequence*/, bool /*fetching*/) const override { return false; }
  absl::Status Land(Landing landing) override { return LandWhole(std::move(landing)); }

  void BeginRound(uint64_t /*sequence*/, uint32_t /*told*/) override {}
  bool takes_steps() const override { return false; }
  absl::Status EndUnusableRound(const std::string& /*where*/) override { return absl::OkStatus(); }

  absl::StatusOr<Accumulation> Seal(uint64_t sequence) override;
  void Refuse(uint64_t sequence) override { parameters().Drop(sequence); }

 private:
  const uint32_t n_fetch_;
};

}  // namespace monsoon
