#include "coordinator/sandblaster/batch_objective.h"

#include <cmath>
#include <limits>
#include <vector>

#include "absl/strings/str_cat.h"

namespace monsoon {
namespace {

ObjectiveValue NotFinite() { return {std::numeric_limits<double>::infinity(), false}; }

}  // namespace

absl::StatusOr<ObjectiveValue> BatchObjective::Evaluate(const std::string& w,
                                                        const std::string& gradient_out) {
  if (!probed_) {
    ASSIGN_OR_RETURN(const Pass probe, RunOnce(w, "", true));
    if (!probe.batch.finite) {
      return NotFinite();
    }
    probed_ = true;
  }
  for (int overflows = 0; overflows <= kMaxOverflows; ++overflows) {
    ASSIGN_OR_RETURN(const Pass pass, RunOnce(w, gradient_out, false));
    if (!pass.batch.finite) {
      return NotFinite();
    }
    if (pass.overflow) {
      ++overflows_;
      continue;
    }
    double f = pass.batch.loss_sum / static_cast<double>(pass.batch.examples);
    if (options_.l2 > 0) {
      ASSIGN_OR_RETURN(const double norm2, space_->Dot(w, w));
      f += 0.5 * options_.l2 * norm2;
    }
    if (!std::isfinite(f)) {
      space_->Free(gradient_out);
      return NotFinite();
    }
    return ObjectiveValue{f, true};
  }
  return absl::InternalError(
      absl::StrCat("evaluation ", evaluation_, " overflowed ", kMaxOverflows + 1, " times"));
}

absl::StatusOr<BatchObjective::Pass> BatchObjective::RunOnce(const std::string& w,
                                                             const std::string& gradient_out,
                                                             bool probe) {
  const uint64_t evaluation = ++evaluation_;
  VectorRequest open;
  open.mutable_open_evaluation()->set_evaluation(evaluation);
  open.mutable_open_evaluation()->set_contributions(probe ? 1 : options_.contributions);
  open.mutable_open_evaluation()->set_probe(probe);
  RETURN_IF_ERROR(shards_->Run(open).status());

  Pass pass;
  ASSIGN_OR_RETURN(pass.batch, evaluator_->Evaluate(evaluation, w, probe));

  VectorRequest request;
  CloseEvaluation* const close = request.mutable_close_evaluation();
  close->set_evaluation(evaluation);
  close->set_abandon(!pass.batch.finite);
  if (pass.batch.finite && !probe) {
    close->set_out(gradient_out);
    close->set_factor(1.0 / static_cast<double>(pass.batch.examples));
    close->set_shift(options_.l2);
    close->set_shift_vector(options_.l2 > 0 ? w : "");
  }
  ASSIGN_OR_RETURN(const std::vector<VectorReply> replies, shards_->Run(request));
  for (const VectorReply& reply : replies) {
    pass.overflow |= reply.overflow();
  }
  if (pass.overflow && replies.size() > 1) {
    // Shards whose own part fitted have made theirs.
    VectorRequest drop;
    drop.mutable_only_free();
    drop.add_free(gradient_out);
    RETURN_IF_ERROR(shards_->Run(drop).status());
  }
  return pass;
}

}  // namespace monsoon
