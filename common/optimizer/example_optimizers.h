// Optimizers as job files have them, for tests of what holds for any: every kind, in every rule
// (optimizer_kinds_test.cc sees to that). A clip, a decay or a schedule can follow each.
#pragma once

#include <string>
#include <vector>

namespace monsoon::testing {

inline std::vector<std::string> ExampleOptimizers() {
  return {
      "sgd { rate: 0.05 }",
      "momentum { rate: 0.05 momentum: 0.9 }",
      "nesterov { rate: 0.05 momentum: 0.9 }",
      "nesterov { rate: 0.05 momentum: 0.9 period: 3 share: 0.1 }",
      "adagrad { rate: 0.05 initial_accumulator: 0.1 }",
      "adam { rate: 0.05 beta1: 0.8 beta2: 0.95 }",
      "adam_w { rate: 0.05 weight_decay: 0.1 }",
      "lion { rate: 0.05 beta1: 0.8 beta2: 0.95 weight_decay: 0.1 }",
      "rms_prop { rate: 0.05 }",
      "rms_prop { rate: 0.05 momentum: 0.9 }",
  };
}

}  // namespace monsoon::testing
