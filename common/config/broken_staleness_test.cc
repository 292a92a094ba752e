// Bounds on staleness of job files that are wrong, and every line that is said about each.
#include "common/config/config_test_util.h"
#include "common/config/job.h"
#include "gtest/gtest.h"

namespace monsoon::testing {
namespace {

const std::vector<BrokenFile>& Cases() {
  static const auto* const cases = new std::vector<BrokenFile>{
      {"PolicyWithoutABound",
       "n_fetch: 2",
       "staleness_policy: DROP_OLDER",
       {"FILE:8:21: error: downpour.staleness_policy: means nothing without staleness_bound; as in "
        "staleness_bound: 8 staleness_policy: DROP_OLDER"}},
      {"BoundOfRounds",
       "n_fetch: 2",
       "staleness_bound: 2 local { steps: 8 inner { sgd { rate: 1 } } } rounds { }",
       {"FILE:8:20: error: downpour.staleness_bound: not with rounds: which differences a round "
        "has, "
        "its quorum and grace say; leave one of them out"}},
      {"BoundOfFragments",
       "n_fetch: 2\n  overlap: NONE",
       "staleness_bound: 2 local { steps: 8 inner { sgd { rate: 1 } } fragments { count: 2 } }",
       {"FILE:8:20: error: downpour.staleness_bound: not with fragments: each push is of another "
        "part of the model; leave one of them out"}},
      {"BoundByAnotherName",
       "n_fetch: 2",
       "ssp: 2",
       {"FILE:8:3: error: downpour.ssp: Downpour has no field \"ssp\"; write staleness_bound"}}};
  return *cases;
}

class BrokenStaleness : public ::testing::TestWithParam<BrokenFile> {};

TEST_P(BrokenStaleness, EveryErrorIsTold) {
  ExpectDiagnostics(GetParam(), ValidJob(),
                    [](const std::string& path, std::vector<Diagnostic>* diagnostics) {
                      return LoadJob(path, {}, diagnostics).status();
                    });
}

INSTANTIATE_TEST_SUITE_P(Files, BrokenStaleness, ::testing::ValuesIn(Cases()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace monsoon::testing
