// Optimizers of job files that are wrong, and every line that is said about each.
#include "common/config/config_test_util.h"
#include "common/config/job.h"
#include "gtest/gtest.h"

namespace monsoon::testing {
namespace {

const std::vector<BrokenFile>& Cases() {
  static const auto* const cases = new std::vector<BrokenFile>{
      {"GroupOfATensorThatIsNotThere",
       "schedule {",
       "group { tensors: \"conv2*\" weight_decay: 0 } schedule {",
       {"FILE:12:13: error: downpour.optimizer.group[0].tensors: \"conv2*\" names no tensor of the "
        "model; tensors are conv1/weight, conv1/bias, dense1/weight, dense1/bias"}},
      {"GroupOfTensorsThatAnEarlierOneHas",
       "schedule {",
       "group { tensors: \"*bias\" rate: 1 } group { tensors: \"conv1/bias\" rate: 2 } schedule {",
       {"FILE:12:48: error: downpour.optimizer.group[1].tensors: \"conv1/bias\" names tensors of "
        "earlier groups alone; a tensor is of the first group that names it"}},
      {"GroupWithoutTensors",
       "schedule {",
       "group { weight_decay: 0.1 } schedule {",
       {"FILE:12:5: error: downpour.optimizer.group[0].tensors: the group names no tensors; as in "
        "tensors: \"*bias\""}},
      {"GroupOfNothing",
       "schedule {",
       "group { tensors: \"*bias\" } schedule {",
       {"FILE:12:13: error: downpour.optimizer.group[0].tensors: the group has nothing of its own; "
        "as in weight_decay: 0, rate_factor: 0.1 or frozen: true"}},
      {"GroupWithANumberOfAnotherKind",
       "schedule {",
       "group { tensors: \"*bias\" beta1: 0.5 } schedule {",
       {"FILE:12:37: error: downpour.optimizer.group[0].beta1: momentum has no beta1; leave it "
        "out"}},
      {"GroupBelowZero",
       "schedule {",
       "group { tensors: \"*bias\" rate: -1 } schedule {",
       {"FILE:12:36: error: downpour.optimizer.group[0].rate: -1 is not positive and finite"}},
      {"GroupAsTorchSaysIt",
       "schedule {",
       "group { params: \"*bias\" lr: 1 } schedule {",
       {"FILE:12:13: error: downpour.optimizer.group[0].params: OptimizerGroup has no field "
        "\"params\"; write tensors",
        "FILE:12:29: error: downpour.optimizer.group[0].lr: OptimizerGroup has no field \"lr\"; "
        "write rate"}},
      {"GroupsOfTheOptimizer",
       "schedule {",
       "param_groups { } schedule {",
       {"FILE:12:5: error: downpour.optimizer.param_groups: Optimizer has no field "
        "\"param_groups\"; write group { tensors: \"*bias\" weight_decay: 0 }, once for each "
        "group"}},
      {"ResidualDecayOfAllThatIsSent",
       "n_fetch: 2",
       "residual_decay: 0.9",
       {"FILE:8:19: error: downpour.residual_decay: means nothing without push_format: TOP_K or "
        "TOP_K_2BIT"}},
      {"ResidualThatGrows",
       "n_fetch: 2",
       "push_format: TOP_K residual_decay: 1.5",
       {"FILE:8:38: error: downpour.residual_decay: 1.5 is outside [0, 1]"}},
  };
  return *cases;
}

const std::vector<BrokenFile>& MuonCases() {
  static const auto* const cases = new std::vector<BrokenFile>{
      {"MuonOfTheShards",
       "schedule {",
       "muon { rate: 0.02 } schedule {",
       {"FILE:12:5: error: downpour.optimizer.muon: moves whole matrices, and the shards have "
        "slices of equal size, which cut them; put it where replicas take steps by themselves: "
        "local { steps: 50 inner { adam_w { rate: 0.001 } muon { rate: 0.02 } } }; a program in "
        "Python gives torch.optim.Muon to Local"}},
      {"MuonOutOfItsRanges",
       "n_fetch: 2",
       "local { steps: 8 inner { sgd { rate: 1 } muon { rate: 0 momentum: 1 weight_decay: -1 "
       "steps: 21 } } }",
       {"FILE:8:57: error: downpour.local.inner.muon.rate: 0 is not positive and finite",
        "FILE:8:69: error: downpour.local.inner.muon.momentum: 1 is outside [0, 1)",
        "FILE:8:85: error: downpour.local.inner.muon.weight_decay: -1 is not a finite number of at "
        "least 0",
        "FILE:8:95: error: downpour.local.inner.muon.steps: 21 is more than 20"}},
      {"MuonWithoutAKind",
       "n_fetch: 2",
       "local { steps: 8 inner { muon { rate: 0.02 } } }",
       {"FILE:8:20: error: downpour.local.inner: local steps of a network are by an optimizer of "
        "the replica's; muon moves matrices alone; as in inner { adam_w { rate: 0.001 } muon { "
        "rate: 0.02 } }"}},
      {"MuonBesideAnAccumulator",
       "n_fetch: 2",
       "local { steps: 8 inner { adagrad { rate: 1 initial_accumulator: 0.1 } muon { rate: 1 } } }",
       {"FILE:8:73: error: downpour.local.inner.muon: is not for adagrad with an "
        "initial_accumulator; leave one of them out"}},
      {"MuonOfAModelWhoseMatricesAreAGroups",
       "n_fetch: 2",
       "local { steps: 8 inner { sgd { rate: 1 } muon { rate: 1 } group { tensors: \"*weight\" "
       "rate: 1 } } }",
       {"FILE:8:44: error: downpour.local.inner.muon: the model has no matrix for it: no weight of "
        "two dimensions or more that is no embedding's and that no group names; leave it out; "
        "tensors are conv1/weight, conv1/bias, dense1/weight, dense1/bias"}},
      {"MuonAsTorchSaysIt",
       "n_fetch: 2",
       "local { steps: 8 inner { sgd { rate: 1 } muon { lr: 1 ns_steps: 3 adjust_lr_fn: 1 } } }",
       {"FILE:8:51: error: downpour.local.inner.muon.lr: Muon has no field \"lr\"; write rate",
        "FILE:8:57: error: downpour.local.inner.muon.ns_steps: Muon has no field \"ns_steps\"; "
        "write steps",
        "FILE:8:69: error: downpour.local.inner.muon.adjust_lr_fn: Muon has no field "
        "\"adjust_lr_fn\"; write scale"}},
  };
  return *cases;
}

class BrokenOptimizer : public ::testing::TestWithParam<BrokenFile> {};

TEST_P(BrokenOptimizer, EveryErrorIsTold) {
  ExpectDiagnostics(GetParam(), ValidJob(),
                    [](const std::string& path, std::vector<Diagnostic>* diagnostics) {
                      return LoadJob(path, {}, diagnostics).status();
                    });
}

INSTANTIATE_TEST_SUITE_P(Files, BrokenOptimizer, ::testing::ValuesIn(Cases()),
                         [](const auto& info) { return info.param.name; });
INSTANTIATE_TEST_SUITE_P(Muons, BrokenOptimizer, ::testing::ValuesIn(MuonCases()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace monsoon::testing
