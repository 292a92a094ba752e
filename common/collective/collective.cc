#include "common/collective/collective.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace monsoon {
namespace {

// Two members never write to one cache line, and loops over a block begin aligned.
constexpr size_t kLineFloats = 16;

}  // namespace

const char* Name(Operation operation) {
  switch (operation) {
    case Operation::kAllReduce:
      return "all-reduce";
    case Operation::kBroadcast:
      return "broadcast";
    case Operation::kAllGather:
      return "all-gather";
    case Operation::kReduceScatter:
      return "reduce-scatter";
  }
  return "unknown operation";
}

const char* Name(Algorithm algorithm) {
  switch (algorithm) {
    case Algorithm::kAuto:
      return "AUTO";
    case Algorithm::kNaive:
      return "NAIVE";
    case Algorithm::kTree:
      return "TREE";
    case Algorithm::kRing:
      return "RING";
    case Algorithm::kDirect:
      return "DIRECT";
    case Algorithm::kExchange:
      return "EXCHANGE";
  }
  return "unknown algorithm";
}

std::string Describe(const Collective& collective) {
  std::string root;
  if (collective.operation == Operation::kBroadcast) {
    root = absl::StrCat(" from rank ", collective.root);
  }
  return absl::StrCat(Name(collective.operation), root, " of ", collective.count, " floats (",
                      Name(collective.algorithm),
                      collective.order == SumOrder::kByRank ? ", by rank)" : ")");
}

Block BlockOf(size_t count, uint32_t members, uint32_t rank) {
  const size_t lines = (count + kLineFloats - 1) / kLineFloats;
  const size_t begin = std::min(count, lines * rank / members * kLineFloats);
  const size_t end = std::min(count, lines * (rank + 1) / members * kLineFloats);
  return {begin, end - begin};
}

}  // namespace monsoon
