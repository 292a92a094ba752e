#include "coordinator/sandblaster/shard_vector_space.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace monsoon {

absl::Status ShardVectorSpace::MarkWeights(const std::string& out) {
  VectorRequest request;
  request.mutable_fill()->set_out(out);
  request.mutable_fill()->set_value(1.0);
  request.mutable_fill()->set_weights_only(true);
  return Keep(std::move(request));
}

absl::Status ShardVectorSpace::Open(const OpenEvaluation& open) {
  VectorRequest request;
  *request.mutable_open_evaluation() = open;
  return Run(std::move(request)).status();
}

absl::StatusOr<ShardVectorSpace::Closed> ShardVectorSpace::Close(const CloseEvaluation& close) {
  VectorRequest request;
  *request.mutable_close_evaluation() = close;
  Closed closed;
  ASSIGN_OR_RETURN(closed.scalars, Run(std::move(request)));
  closed.evaluate_again = evaluate_again_;
  if (closed.evaluate_again) {
    // Shards whose own part fitted have made theirs.
    Free(close.out());
  }
  return closed;
}

absl::StatusOr<std::vector<double>> ShardVectorSpace::Execute(VectorRequest request) {
  ASSIGN_OR_RETURN(const std::vector<VectorReply> replies, shards_->Run(std::move(request)));
  evaluate_again_ =
      std::ranges::any_of(replies, [](const VectorReply& reply) { return reply.evaluate_again(); });
  if (evaluate_again_) {
    return std::vector<double>();
  }
  std::vector<double> sum(replies[0].scalar().begin(), replies[0].scalar().end());
  for (size_t shard = 1; shard < replies.size(); ++shard) {
    if (static_cast<size_t>(replies[shard].scalar_size()) != sum.size()) {
      return absl::InternalError(absl::StrCat(
          "ps/", shard, " answers ", replies[shard].scalar_size(), " scalars, ps/0 ", sum.size()));
    }
    for (size_t i = 0; i < sum.size(); ++i) {
      sum[i] += replies[shard].scalar(static_cast<int>(i));
    }
  }
  return sum;
}

}  // namespace monsoon
