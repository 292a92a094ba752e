// kOptimizers: the kinds of Optimizer (proto/optimizer.proto), a row each: all that the rest of
// the tree must know of one. Checks, defaults, kernels, sentences and tests read it, so that a
// new kind is a message, a rule (optimizer_rules.h) and a row; CONTRIBUTING.md, "To add X, touch
// Y", has the list.
//
// Thread safety: pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "common/optimizer/optimizer_step.h"
#include "proto/optimizer.pb.h"

namespace monsoon {

// A field of a kind that another field makes wrong.
struct FieldProblem {
  absl::string_view field;  // of the kind's message
  std::string message;
  std::string suggestion;
};

// In a job file a kind has the name of its field in Optimizer. Its message has a `rate`; the
// options of its fields say ranges, defaults and other names (proto/setting.proto).
struct OptimizerKind {
  Optimizer::KindCase kind = Optimizer::KIND_NOT_SET;
  const char* title = "";  // in docs/downpour.md
  // What no single number tells; null: nothing.
  std::optional<FieldProblem> (*check)(const Optimizer&) = nullptr;
  // Floats that it keeps for each parameter.
  int (*slots)(const Optimizer&) = nullptr;
  // The field of its message that these begin as; null: as 0.
  const char* initial_state = nullptr;
  // Of push k, the rule and what that reads; step->rate is rate(k). All defaults are filled in.
  void (*step)(const Optimizer&, uint64_t k, OptimizerStep* step) = nullptr;
  // It decays the parameters itself, by `weight_decay` of its message, of which this is an
  // example. Then it takes gradients alone: no differences of local steps, and no
  // Optimizer.weight_decay.
  const char* own_decay = nullptr;

  // "adam_w", and "AdamW": its message.
  absl::string_view name() const;
  absl::string_view message() const;
};

// In the order in which sentences name them.
std::span<const OptimizerKind> Optimizers();

// Null where none is set.
const OptimizerKind* FindKind(const Optimizer& optimizer);

// "sgd, momentum and adagrad", with `last` in place of "and".
std::string OptimizerNames(absl::string_view last);

// "adam_w", "adam_w with average", "adam_w with muon", "none".
std::string OptimizerName(const Optimizer& optimizer);

// Sets what is unset and has a default.
void FillOptimizerDefaults(Optimizer* optimizer);

// Of an optimizer with all defaults filled in. InvalidArgument names the field: no kind set, a
// rate that is not positive and finite, a momentum outside [0, 1), ... Of its muon, too.
absl::Status CheckOptimizer(const Optimizer& optimizer);

// Floats of state kept for each parameter, those of an average included. With a muon as many as
// the kind or the matrices need, whichever is more.
int OptimizerStateSlots(const Optimizer& optimizer);

// What each of them begins as, but for an average's.
float InitialState(const Optimizer& optimizer);

// Whether there is any weight decay, and the optimizer without it.
bool Decays(const Optimizer& optimizer);
Optimizer WithoutDecay(const Optimizer& optimizer);

// Which field of the kind makes its state begin as something else than 0, as an average and a muon
// need it; null: none.
const char* StateBegunElsewhere(const Optimizer& optimizer);

// Of a kind that is set.
double RateOf(const Optimizer& optimizer);
void SetRate(double rate, Optimizer* optimizer);

}  // namespace monsoon
