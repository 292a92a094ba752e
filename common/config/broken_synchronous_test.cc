// Synchronous jobs that are wrong, and every line that is said about each.
#include "common/config/config_test_util.h"
#include "common/config/job.h"
#include "gtest/gtest.h"

namespace monsoon::testing {
namespace {

// Line 8 of the valid job is n_fetch, which has no meaning beside it.
const std::vector<BrokenFile>& Cases() {
  static const auto* const cases = new std::vector<BrokenFile>{
      {"FetchesAndPushes",
       "stop {",
       "synchronous { reduce: RING } stop {",
       {"FILE:8:12: error: downpour.n_fetch: means nothing in a synchronous job: each step is all "
        "replicas' step; leave it out, or leave out synchronous"}},
      {"LocalSteps",
       "downpour {\n  n_fetch: 2\n",
       "synchronous { reduce: RING } downpour { local { steps: 8 inner { sgd { rate: 1 } } }\n",
       {"FILE:7:41: error: downpour.local: means nothing in a synchronous job: replicas fetch and "
        "push nothing; leave it out, or leave out synchronous"}},
      {"BackupsOfAnAllReduce",
       "downpour {\n  n_fetch: 2\n",
       "synchronous { reduce: TREE backup_workers: 1 } downpour {\n",
       {"FILE:7:44: error: synchronous.backup_workers: means nothing where each replica has to "
        "have "
        "the whole sum; leave it out, or write reduce: SHARDS"}},
      {"BackupsOfNobodyKnowsHowMany",
       "downpour {\n  n_fetch: 2\n",
       "synchronous { reduce: SHARDS backup_workers: 1 } downpour {\n",
       {"FILE:7:46: error: synchronous.backup_workers: a step takes the gradients of all workers "
        "but so many: of how many?; as in downpour { workers: 5 } synchronous { backup_workers: 1 "
        "}"}},
      {"AnOrderOfShards",
       "downpour {\n  n_fetch: 2\n",
       "synchronous { reduce: SHARDS sum_order: BY_RANK } downpour {\n",
       {"FILE:7:41: error: synchronous.sum_order: the shards add in whole numbers, which have no "
        "order: the sum is the same in any; leave it out"}},
      {"PartsForTheShards",
       "downpour {\n  n_fetch: 2\n",
       "synchronous { reduce: SHARDS fuse_mib: 4 } downpour {\n",
       {"FILE:7:40: error: synchronous.fuse_mib: means nothing where gradients go to the shards, "
        "in "
        "stripes (stripe_kib); leave it out"}},
      {"PartsOfNothing",
       "downpour {\n  n_fetch: 2\n",
       "synchronous { reduce: RING fuse_mib: 0 } downpour {\n",
       {"FILE:7:38: error: synchronous.fuse_mib: must be at least 1"}},
      {"PartsByAnotherName",
       "downpour {\n  n_fetch: 2\n",
       "synchronous { reduce: RING bucket_cap_mb: 25 } downpour {\n",
       {"FILE:7:28: error: synchronous.bucket_cap_mb: Synchronous has no field \"bucket_cap_mb\"; "
        "write fuse_mib: 4"}},
      {"ByAnotherName",
       "stop {",
       "allreduce { } stop {",
       {"FILE:15:1: error: allreduce: Job has no field \"allreduce\"; write synchronous { reduce: "
        "RING }"}}};
  return *cases;
}

class BrokenSynchronous : public ::testing::TestWithParam<BrokenFile> {};

TEST_P(BrokenSynchronous, EveryErrorIsTold) {
  ExpectDiagnostics(GetParam(), ValidJob(),
                    [](const std::string& path, std::vector<Diagnostic>* diagnostics) {
                      return LoadJob(path, {}, diagnostics).status();
                    });
}

INSTANTIATE_TEST_SUITE_P(Files, BrokenSynchronous, ::testing::ValuesIn(Cases()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace monsoon::testing
