#include "coordinator/sandblaster/batch_objective.h"

#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"

namespace monsoon {
namespace {

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
    RETURN_IF_ERROR(ReadPointProducts(pass.closed.scalars, &value));
    value.f = pass.batch.loss_sum / static_cast<double>(pass.batch.examples);
    if (options_.l2 > 0) {
      value.f += 0.5 * options_.l2 * value.w_dot_w;
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

absl::StatusOr<BatchObjective::Pass> BatchObjective::RunOnce(const std::string& w,
                                                             const std::string& gradient_out,
                                                             const std::string& along) {
  const bool probe = gradient_out.empty();
  OpenEvaluation open;
  open.set_evaluation(++evaluation_);
  open.set_contributions(probe ? 1 : options_.contributions);
  open.set_probe(probe);
  RETURN_IF_ERROR(space_->Open(open));

  Pass pass;
  ASSIGN_OR_RETURN(pass.batch, evaluator_->Evaluate(open.evaluation(), w, probe));

  CloseEvaluation close;
  close.set_evaluation(open.evaluation());
  close.set_abandon(!pass.batch.finite);
  if (pass.batch.finite && !probe) {
    close.set_out(gradient_out);
    close.set_factor(1.0 / static_cast<double>(pass.batch.examples));
    close.set_shift(options_.l2);
    close.set_shift_vector(options_.l2 > 0 ? w : "");
    *close.mutable_gram() = PointProducts(w, gradient_out, along);
  }
  ASSIGN_OR_RETURN(pass.closed, space_->Close(close));
  return pass;
}

}  // namespace monsoon
