// What a collective is: the words that all members of a group must use alike.
//
// A group has members in rank order, 0 to N - 1, and a generation, a number that grows with each
// change of the membership. A collective is one call that all members of a generation make, in the
// same order: the k-th call of each belongs to the k-th call of the others.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace monsoon {

enum class Operation : uint8_t {
  kAllReduce,      // everybody gets the sum over all members
  kBroadcast,      // everybody gets the root's vector
  kAllGather,      // everybody gets each member's block of the vector
  kReduceScatter,  // each member gets the sum of its own block
};

// How floats travel. All-reduce knows each; the others take what is said there. Costs: N members,
// n bytes a member; alpha is the latency of a frame, beta the seconds of a byte.
enum class Algorithm : uint8_t {
  kAuto,  // by size, from a CostTable
  // All to rank 0, which sums, and back. 2 alpha + 2 (N - 1) n beta at rank 0.
  kNaive,
  // Up a binomial tree and down again. 2 log2(N) (alpha + n beta).
  kTree,
  // Reduce-scatter and all-gather around a ring (Patarasuk and Yuan, "Bandwidth optimal all-reduce
  // algorithms for clusters of workstations", 2009). 2 (N - 1) alpha + 2 (N - 1) / N n beta.
  kRing,
  // Each block straight to the member that sums it, and from there to all: Rabenseifner's two
  // phases without the halving, since each member reaches each other one. 2 alpha and the bytes of
  // kRing, but N - 1 frames at a time come to each member.
  kDirect,
  // All vectors to all; each member sums for itself. alpha + (N - 1) n beta.
  kExchange,
};

// In which order an element's N values are added; the result's bits depend on it. Each order
// depends on algorithm, membership and length alone, never on who came first, and the bits are the
// same on all members.
enum class SumOrder : uint8_t {
  kFixed,  // the algorithm's own
  // ((g0 + g1) + g2) + ..., whichever algorithm: a run with another one, or in one process that
  // sums its replicas in turn, gives the same bits. What it costs: kNaive and kExchange nothing.
  // kDirect nothing in bytes, and one block of scratch. kTree sends up what it has unsummed:
  // (N - 1) n beta at the root and as much scratch. kRing is a chain from rank 0 to N - 1, part by
  // part, and the result goes on around: 2 n beta in place of 2 (N - 1) / N n beta.
  kByRank,
};

struct Collective {
  Operation operation = Operation::kAllReduce;
  Algorithm algorithm = Algorithm::kRing;
  SumOrder order = SumOrder::kFixed;
  uint32_t root = 0;         // of a broadcast
  uint64_t count = 0;        // floats of the whole vector
  uint32_t part_floats = 0;  // the longest payload

  bool operator==(const Collective&) const = default;
};

// "all-reduce", "RING".
const char* Name(Operation operation);
const char* Name(Algorithm algorithm);
// "all-reduce of 1000 floats (RING, by rank)".
std::string Describe(const Collective& collective);

// The block of `rank` of a vector of `count` floats: blocks differ by one cache line at most, are
// in rank order and together the whole. Some are empty where there is less than a line for each.
struct Block {
  size_t offset = 0;
  size_t count = 0;
};
Block BlockOf(size_t count, uint32_t members, uint32_t rank);

}  // namespace monsoon
