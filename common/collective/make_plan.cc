// The algorithms as plans. Nothing here waits for a send before it overwrites what was sent, but in
// kExchange: what overwrites it was made of it, by the peer that had to have it first.
#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "common/collective/plan.h"

namespace monsoon {
namespace {

using After = std::vector<StepId>;

StepRange OfVector(Block block) { return {false, block.offset, block.count}; }

// Who is whose child in a binomial tree over ranks 0 to N - 1 with root 0. A subtree has the ranks
// [rank, rank + SubtreeOf(rank)).
uint32_t LowBit(uint32_t rank, uint32_t members) { return rank == 0 ? members : rank & -rank; }
uint32_t SubtreeOf(uint32_t rank, uint32_t members) {
  return std::min(LowBit(rank, members), members - rank);
}
std::vector<uint32_t> ChildrenOf(uint32_t rank, uint32_t members) {
  std::vector<uint32_t> children;
  for (uint32_t bit = 1; bit < LowBit(rank, members) && rank + bit < members; bit *= 2) {
    children.push_back(rank + bit);
  }
  return children;
}

class Maker {
 public:
  Maker(const Collective& collective, uint32_t rank, uint32_t members)
      : collective_(collective), rank_(rank), members_(members), b_(collective, rank, members) {}

  Plan Make() && {
    const size_t count = collective_.count;
    if (members_ > 1 && count > 0) {
      switch (collective_.operation) {
        case Operation::kAllReduce:
          AllReduce();
          break;
        case Operation::kBroadcast:
          TreeBroadcast(Parts({0, count}), collective_.root, {});
          break;
        case Operation::kAllGather:
          collective_.algorithm == Algorithm::kRing ? RingGather({}) : DirectGather({});
          break;
        case Operation::kReduceScatter:
          collective_.algorithm == Algorithm::kRing ? RingScatter() : DirectScatter();
          break;
      }
    }
    return std::move(b_).Finish();
  }

 private:
  bool by_rank() const { return collective_.order == SumOrder::kByRank; }
  uint32_t Around(uint32_t steps) const { return (rank_ + steps) % members_; }

  std::vector<Block> Parts(Block block) const {
    std::vector<Block> parts;
    for (size_t done = 0; done < block.count; done += collective_.part_floats) {
      parts.push_back(
          {block.offset + done, std::min<size_t>(collective_.part_floats, block.count - done)});
    }
    return parts;
  }
  std::vector<Block> PartsOf(uint32_t rank) const {
    return Parts(BlockOf(collective_.count, members_, rank));
  }

  void AllReduce() {
    switch (collective_.algorithm) {
      case Algorithm::kNaive:
        return Naive();
      case Algorithm::kTree:
        return by_rank() ? TreeByRank() : Tree();
      case Algorithm::kRing:
        // A sum of two has one order.
        return by_rank() && members_ > 2 ? Chain() : RingGather(RingScatter());
      case Algorithm::kDirect:
        return DirectGather(DirectScatter());
      case Algorithm::kExchange:
        return Exchange();
      case Algorithm::kAuto:
        break;
    }
    CHECK(false);
  }

  void Naive() {
    for (const Block& part : Parts({0, collective_.count})) {
      if (rank_ != 0) {
        b_.Send(0, OfVector(part), {});
        b_.Receive(0, OfVector(part), /*add=*/false, {});
        continue;
      }
      StepId sum = kNoStep;
      for (uint32_t peer = 1; peer < members_; ++peer) {
        sum = b_.Receive(peer, OfVector(part), /*add=*/true, After{sum});
      }
      for (uint32_t peer = 1; peer < members_; ++peer) {
        b_.Send(peer, OfVector(part), After{sum});
      }
    }
  }

  void Tree() {
    const std::vector<Block> parts = Parts({0, collective_.count});
    After sums;
    for (const Block& part : parts) {
      StepId sum = kNoStep;
      for (const uint32_t child : ChildrenOf(rank_, members_)) {
        sum = b_.Receive(child, OfVector(part), /*add=*/true, After{sum});
      }
      sums.push_back(sum);
      if (rank_ != 0) {
        b_.Send(rank_ - LowBit(rank_, members_), OfVector(part), After{sum});
      }
    }
    TreeBroadcast(parts, /*root=*/0, sums);
  }

  // `after`: what the root waits for, a part each; or nothing.
  void TreeBroadcast(const std::vector<Block>& parts, uint32_t root, const After& after) {
    const uint32_t place = (rank_ + members_ - root) % members_;
    std::vector<uint32_t> children = ChildrenOf(place, members_);
    std::ranges::reverse(children);  // the one with the most below it first
    for (size_t i = 0; i < parts.size(); ++i) {
      StepId got = i < after.size() ? after[i] : kNoStep;
      if (place != 0) {
        const uint32_t parent = (place - LowBit(place, members_) + root) % members_;
        got = b_.Receive(parent, OfVector(parts[i]), /*add=*/false, {});
      }
      for (const uint32_t child : children) {
        b_.Send((child + root) % members_, OfVector(parts[i]), After{got});
      }
    }
  }

  // Contributions go up unsummed, those of a subtree side by side, so that short ones share a
  // frame.
  void TreeByRank() {
    const size_t count = collective_.count;
    const uint32_t subtree = SubtreeOf(rank_, members_);
    // The member's own vector stands first where others follow it to the parent.
    const bool own = rank_ != 0 && subtree > 1;
    const size_t scratch = subtree > 1 ? b_.Scratch(subtree * count) : 0;
    std::vector<std::pair<StepRange, StepId>> filled;
    if (own) {
      const StepRange vector = {false, 0, count};
      const StepRange place = {true, scratch, count};
      filled.emplace_back(place, b_.Sum(place, std::array{vector}, {}));
    }
    for (const uint32_t child : ChildrenOf(rank_, members_)) {
      const size_t begin = scratch + (child - rank_) * count;
      for (const Block& part : Parts({begin, SubtreeOf(child, members_) * count})) {
        const StepRange range = {true, part.offset, part.count};
        filled.emplace_back(range, b_.Receive(child, range, /*add=*/false, {}));
      }
    }
    const auto filling = [&](size_t begin, size_t end, After* after) {
      for (const auto& [range, step] : filled) {
        if (range.offset < end && begin < range.offset + range.count) {
          after->push_back(step);
        }
      }
    };
    if (rank_ != 0) {
      for (const Block& part : Parts({scratch, subtree * count})) {
        After after;
        filling(part.offset, part.offset + part.count, &after);
        b_.Send(rank_ - LowBit(rank_, members_), {own, part.offset, part.count}, after);
      }
    }
    const std::vector<Block> parts = Parts({0, count});
    After sums;
    for (const Block& part : rank_ == 0 ? parts : std::vector<Block>()) {
      std::vector<StepRange> operands = {OfVector(part)};
      After after;
      for (uint32_t rank = 1; rank < members_; ++rank) {
        const size_t begin = scratch + rank * count + part.offset;
        operands.push_back({true, begin, part.count});
        filling(begin, begin + part.count, &after);
      }
      sums.push_back(b_.Sum(OfVector(part), operands, after));
    }
    TreeBroadcast(parts, /*root=*/0, sums);
  }

  // The sum of block r begins at rank r + 1 and ends at rank r. Gives the last steps of the own
  // block's parts.
  After RingScatter() {
    After last;
    for (uint32_t step = 0; step + 1 < members_; ++step) {
      // What came in the step before goes on.
      const std::vector<Block> out = PartsOf(Around(2 * members_ - 1 - step));
      for (size_t i = 0; i < out.size(); ++i) {
        b_.Send(Around(1), OfVector(out[i]), After{step == 0 ? kNoStep : last[i]});
      }
      last.clear();
      for (const Block& part : PartsOf(Around(2 * members_ - 2 - step))) {
        last.push_back(b_.Receive(Around(members_ - 1), OfVector(part), /*add=*/true, {}));
      }
    }
    return last;
  }

  // `own`: after which the parts of the own block are what others get; or nothing.
  void RingGather(After own) {
    for (uint32_t step = 0; step + 1 < members_; ++step) {
      const std::vector<Block> out = PartsOf(Around(members_ - step));
      for (size_t i = 0; i < out.size(); ++i) {
        b_.Send(Around(1), OfVector(out[i]), After{i < own.size() ? own[i] : kNoStep});
      }
      own.clear();
      for (const Block& part : PartsOf(Around(2 * members_ - 1 - step))) {
        own.push_back(b_.Receive(Around(members_ - 1), OfVector(part), /*add=*/false, {}));
      }
    }
  }

  // Sums go from rank 0 to the last one, and what comes of them goes on around the ring.
  void Chain() {
    const std::vector<Block> parts = Parts({0, collective_.count});
    const uint32_t last = members_ - 1;
    After sums;
    for (const Block& part : parts) {
      StepId sum = kNoStep;
      if (rank_ > 0) {
        sum = b_.Receive(rank_ - 1, OfVector(part), /*add=*/true, {});
      }
      if (rank_ < last) {
        b_.Send(rank_ + 1, OfVector(part), After{sum});
      }
      sums.push_back(sum);
    }
    for (size_t i = 0; i < parts.size(); ++i) {
      StepId result = sums[i];
      if (rank_ != last) {
        result = b_.Receive(Around(members_ - 1), OfVector(parts[i]), /*add=*/false, {});
      }
      if (rank_ + 1 != last) {
        b_.Send(Around(1), OfVector(parts[i]), After{result});
      }
    }
  }

  // Gives the last steps of the own block's parts.
  After DirectScatter() {
    // Who sums first what comes from its right neighbour is sent to first by that.
    for (uint32_t step = 1; step < members_; ++step) {
      const uint32_t owner = Around(members_ - step);
      for (const Block& part : PartsOf(owner)) {
        b_.Send(owner, OfVector(part), {});
      }
    }
    After last;
    const std::vector<Block> own = PartsOf(rank_);
    const size_t scratch =
        by_rank() && rank_ > 1 ? b_.Scratch(own.empty() ? 0 : own[0].count * own.size()) : 0;
    for (const Block& part : own) {
      last.push_back(by_rank() ? SumByRank(part, scratch + part.offset - own[0].offset)
                               : SumAround(part));
    }
    return last;
  }

  StepId SumAround(const Block& part) {
    StepId sum = kNoStep;
    for (uint32_t step = 1; step < members_; ++step) {
      sum = b_.Receive(Around(step), OfVector(part), /*add=*/true, After{sum});
    }
    return sum;
  }

  // What stands before the own values in the sum is summed in `scratch`.
  StepId SumByRank(const Block& part, size_t scratch) {
    const StepRange before = {true, scratch, part.count};
    StepId sum = kNoStep;
    for (uint32_t peer = 0; rank_ > 1 && peer < rank_; ++peer) {
      sum = b_.Receive(peer, before, /*add=*/peer > 0, After{sum});
    }
    if (rank_ > 1) {
      sum = b_.Sum(OfVector(part), std::array{before, OfVector(part)}, After{sum});
    } else if (rank_ == 1) {
      sum = b_.Receive(0, OfVector(part), /*add=*/true, {});
    }
    for (uint32_t peer = rank_ + 1; peer < members_; ++peer) {
      sum = b_.Receive(peer, OfVector(part), /*add=*/true, After{sum});
    }
    return sum;
  }

  // `own`: as of RingGather.
  void DirectGather(const After& own) {
    const std::vector<Block> parts = PartsOf(rank_);
    for (size_t i = 0; i < parts.size(); ++i) {
      for (uint32_t step = 1; step < members_; ++step) {
        b_.Send(Around(step), OfVector(parts[i]), After{i < own.size() ? own[i] : kNoStep});
      }
    }
    for (uint32_t step = 1; step < members_; ++step) {
      for (const Block& part : PartsOf(Around(step))) {
        b_.Receive(Around(step), OfVector(part), /*add=*/false, {});
      }
    }
  }

  void Exchange() {
    const size_t count = collective_.count;
    const size_t scratch = b_.Scratch(members_ * count);
    for (const Block& part : Parts({0, count})) {
      After all;
      for (uint32_t step = 1; step < members_; ++step) {
        all.push_back(b_.Send(Around(step), OfVector(part), {}));
      }
      std::vector<StepRange> operands;
      for (uint32_t rank = 0; rank < members_; ++rank) {
        const StepRange place = {true, scratch + rank * count + part.offset, part.count};
        operands.push_back(rank == rank_ ? OfVector(part) : place);
        if (rank != rank_) {
          all.push_back(b_.Receive(rank, place, /*add=*/false, {}));
        }
      }
      b_.Sum(OfVector(part), operands, all);
    }
  }

  const Collective collective_;
  const uint32_t rank_;
  const uint32_t members_;
  PlanBuilder b_;
};

}  // namespace

Plan MakePlan(const Collective& collective, uint32_t rank, uint32_t members) {
  CHECK(rank < members && collective.root < members);
  CHECK(collective.part_floats > 0);
  return Maker(collective, rank, members).Make();
}

Algorithm AlgorithmFor(Operation operation, SumOrder order, Algorithm wanted) {
  switch (operation) {
    case Operation::kAllReduce:
      return wanted;
    case Operation::kBroadcast:
      return Algorithm::kTree;
    case Operation::kAllGather:
      return wanted == Algorithm::kRing ? Algorithm::kRing : Algorithm::kDirect;
    case Operation::kReduceScatter:
      return wanted == Algorithm::kRing && order == SumOrder::kFixed ? Algorithm::kRing
                                                                     : Algorithm::kDirect;
  }
  return wanted;
}

}  // namespace monsoon
