#include "coordinator/sandblaster/shard_vector_space.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace monsoon {

absl::StatusOr<std::vector<double>> ShardVectorSpace::Execute(VectorRequest request) {
  ASSIGN_OR_RETURN(const std::vector<VectorReply> replies, shards_->Run(std::move(request)));
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
