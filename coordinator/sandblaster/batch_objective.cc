#include "coordinator/sandblaster/batch_objective.h"

#include <cmath>
#include <limits>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/fail_point.h"

namespace monsoon {
namespace {

// Takes the row of the weights off the products, if there is one: a weight's product
// with w is that with itself.
double TakeRegularisedNorm(const BatchObjective::Options& options, std::vector<double>* scalars) {
  if (options.l2 <= 0 || !options.l2_weights_only || scalars->size() % 3 != 0) {
    return 0;
  }
  const size_t columns = scalars->size() / 3;
  const double norm2 = (*scalars)[2 * columns + 1];
  scalars->resize(2 * columns);
  return norm2;
}

ObjectiveValue NotFinite() { return {std::numeric_limits<double>::infinity(), false}; }

}  // namespace

absl::StatusOr<ObjectiveValue> BatchObjective::Evaluate(const std::string& w,
                                                        const std::string& gradient_out,
                                                        const std::string& along) {
  if (!probed_) {
    ASSIGN_OR_RETURN(const Pass probe, RunOnce(w, "", ""));
    if (!probe.batch.finite) {
      return NotFinite();
    }
    probed_ = true;
  }
  for (int repetitions = 0; repetitions <= kMaxRepetitions; ++repetitions) {
    ASSIGN_OR_RETURN(const Pass pass, RunOnce(w, gradient_out, along));
    if (!pass.batch.finite) {
      return NotFinite();
    }
    if (pass.closed.evaluate_again) {
      ++overflows_;
      continue;
    }
    ObjectiveValue value{.finite = true};
    std::vector<double> scalars = pass.closed.scalars;
    const double norm2 = TakeRegularisedNorm(options_, &scalars);
    RETURN_IF_ERROR(ReadPointProducts(scalars, &value));
    value.f = pass.batch.loss_sum / static_cast<double>(pass.batch.examples);
    if (options_.l2 > 0) {
      value.f += 0.5 * options_.l2 * (options_.l2_weights_only ? norm2 : value.w_dot_w);
    }
    if (!std::isfinite(value.f)) {
      space_->Free(gradient_out);
      return NotFinite();
    }
    return value;
  }
  return absl::InternalError(absl::StrCat("evaluation ", evaluation_,
                                          " did not fit the range that the one before showed, ",
                                          kMaxRepetitions + 1, " times"));
}

absl::StatusOr<std::string> BatchObjective::Regularised(const std::string& w, OwnedVector* owner) {
  if (options_.l2 <= 0 || !options_.l2_weights_only) {
    return options_.l2 > 0 ? w : std::string();
  }
  if (is_weight_.name().empty()) {
    is_weight_ = OwnedVector::New(space_, "m");
    RETURN_IF_ERROR(space_->MarkWeights(is_weight_.name()));
  }
  *owner = OwnedVector::New(space_, "r");
  RETURN_IF_ERROR(space_->Multiply(owner->name(), is_weight_.name(), w));
  return owner->name();
}

absl::StatusOr<BatchObjective::Pass> BatchObjective::RunOnce(const std::string& w,
                                                             const std::string& gradient_out,
                                                             const std::string& along) {
  const bool probe = gradient_out.empty();
  OwnedVector owner;
  std::string regularised;
  if (!probe) {
    ASSIGN_OR_RETURN(regularised, Regularised(w, &owner));
  }
  OpenEvaluation open;
  open.set_evaluation(++evaluation_);
  open.set_contributions(probe ? 1 : options_.contributions);
  open.set_probe(probe);
  RETURN_IF_ERROR(space_->Open(open));

  Pass pass;
  ASSIGN_OR_RETURN(pass.batch, evaluator_->Evaluate(open.evaluation(), w, probe));
  MONSOON_FAIL_POINT("batch.evaluated");

  CloseEvaluation close;
  close.set_evaluation(open.evaluation());
  close.set_abandon(!pass.batch.finite);
  if (pass.batch.finite && !probe) {
    close.set_out(gradient_out);
    close.set_factor(1.0 / static_cast<double>(pass.batch.examples));
    close.set_shift(options_.l2);
    close.set_shift_vector(regularised);
    *close.mutable_gram() = PointProducts(w, gradient_out, along);
    if (!owner.name().empty()) {
      close.mutable_gram()->add_row(regularised);
    }
  }
  ASSIGN_OR_RETURN(pass.closed, space_->Close(close));
  return pass;
}

}  // namespace monsoon
