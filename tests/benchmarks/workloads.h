// The data plane's workloads: each runs the project's own path and its limits
// in turn, checks every result, and adds what it measured to `out`.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "tests/benchmarks/bare_call.h"
#include "tests/benchmarks/product.h"
#include "tests/benchmarks/raw_tcp.h"
#include "tests/benchmarks/rounds.h"

namespace monsoon {

struct BenchmarkOptions {
  uint32_t rounds = 7;
  bool quick = false;  // short turns: to see that all works, not to quote
};

// What a contender over shared memory is called, and why it is absent where
// the client library did not choose it.
inline constexpr char kSharedMemory[] = "shared_memory";
inline constexpr char kNoSharedMemory[] =
    "left to its own choice the client library exchanges over gRPC: client and shard map no "
    "memory file in common";

// fetch_16MiB, fetch_64MiB, push_16MiB, push_64MiB: `tcp`, `grpc`,
// `shared_memory`; fetches also `memcpy`. step_speech: a fetch and a push of
// 41,777,152 parameters (the speech model of Dean et al. 2012, section 5).
absl::Status RunTransfers(const BenchmarkOptions& options, BenchmarkShard* shard, RawTcpPeer* tcp,
                          std::vector<Workload>* out);

// secured_fetch_16MiB, secured_fetch_64MiB, and likewise secured_push: `plain_N` and `tls_N` by N
// connections, N = 1, 2 and 4, over TCP.
absl::Status RunSecured(const BenchmarkOptions& options, BenchmarkShard* plain,
                        BenchmarkShard* secured, std::vector<Workload>* out);

// call_64B: a fetch of 64 bytes over `grpc` and `shared_memory`, and
// `bare_call`.
absl::Status RunCalls(const BenchmarkOptions& options, BenchmarkShard* shard, BareCallPeer* peer,
                      std::vector<Workload>* out);

// connections: pushes of 4 KiB by `8` and by `256` client connections. Facts:
// budget_bytes (message_memory), peak_bytes (of resident memory over what it
// was before).
absl::Status RunConnections(const BenchmarkOptions& options, BenchmarkShard* shard,
                            uint64_t budget_bytes, std::vector<Workload>* out);

// adagrad_10M_1T and so on: `product` and the in-place kernels.
absl::Status RunKernels(const BenchmarkOptions& options, std::vector<Workload>* out);

}  // namespace monsoon
