// FragmentMap: which stripes of a model leave together (downpour.proto, Fragments), and what
// the sequences of a session's pushes mean then. Computed the same way by every process.
//
// Push g of a session, from 1, is of fragment (g - 1) mod count, and is push
// (g - 1) / count + 1 of that fragment's stripes. Without fragments all is one.
//
// Thread safety: immutable.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "common/model/parameter_layout.h"
#include "common/model/shard_map.h"

namespace monsoon {

class Fragments;

// Stripes [first, end) of one shard.
struct StripeRun {
  uint32_t first = 0;
  uint32_t end = 0;
};

class FragmentMap {
 public:
  // Of nothing; one without stripes.
  FragmentMap() = default;
  // All stripes are one fragment.
  static FragmentMap Whole(const ShardMap& map);
  // InvalidArgument where a fragment has no stripe, and how to get it one.
  static absl::StatusOr<FragmentMap> Create(const Fragments& fragments,
                                            const ParameterLayout& layout, const ShardMap& map);

  uint32_t count() const { return count_; }
  bool whole() const { return count_ == 1; }
  bool empty() const { return of_.empty(); }

  bool Has(uint32_t shard, uint32_t stripe) const { return stripe < of_[shard].size(); }
  uint32_t Of(uint32_t shard, uint32_t stripe) const { return of_[shard][stripe]; }
  // Its stripes, in order; neighbours are one run.
  const std::vector<StripeRun>& Runs(uint32_t fragment, uint32_t shard) const {
    return runs_[fragment][shard];
  }
  std::vector<uint32_t> StripesOf(uint32_t fragment, uint32_t shard) const;
  // Its floats, of the whole vector.
  const std::vector<Slice>& Slices(uint32_t fragment) const { return slices_[fragment]; }

  // A push, and the sequence that it has on its stripes.
  uint32_t OfPush(uint64_t push) const { return static_cast<uint32_t>((push - 1) % count_); }
  uint64_t SequenceOf(uint64_t push) const { return (push - 1) / count_ + 1; }
  uint64_t PushOf(uint32_t fragment, uint64_t sequence) const {
    return (sequence - 1) * count_ + fragment + 1;
  }
  // A stripe of the fragment that has its pushes up to `sequence` lacks none up to this one.
  uint64_t PushesBefore(uint32_t fragment, uint64_t sequence) const {
    return sequence * count_ + fragment;
  }
  // The last sequence that the fragment's stripes have of so many pushes; 0: none.
  uint64_t LastSequence(uint32_t fragment, uint64_t pushes) const {
    return pushes <= fragment ? 0 : (pushes - fragment - 1) / count_ + 1;
  }

 private:
  FragmentMap(uint32_t count, std::vector<std::vector<uint32_t>> of, const ShardMap& map);

  uint32_t count_ = 1;
  std::vector<std::vector<uint32_t>> of_;                  // [shard][stripe]
  std::vector<std::vector<std::vector<StripeRun>>> runs_;  // [fragment][shard]
  std::vector<std::vector<Slice>> slices_;                 // [fragment]
};

}  // namespace monsoon
