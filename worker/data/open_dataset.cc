#include "worker/data/open_dataset.h"

#include <functional>
#include <numeric>

#include "worker/data/idx_reader.h"
#include "worker/data/in_memory_dataset.h"
#include "worker/data/npy_reader.h"
#include "worker/data/read_options.h"
#include "worker/data/synthetic.h"

namespace monsoon {
namespace {

size_t Values(const std::vector<uint32_t>& shape) {
  return std::accumulate(shape.begin(), shape.end(), size_t{1}, std::multiplies<>());
}

}  // namespace

absl::StatusOr<std::unique_ptr<DataSource>> OpenDataset(const Dataset& dataset,
                                                        const std::vector<uint32_t>& input_shape) {
  const Normalisation normalisation{dataset.mean(), dataset.scale() == 0 ? 1.0 : dataset.scale()};
  const ReadOptions options{dataset.limit(), normalisation, dataset.layout(), input_shape};
  switch (dataset.source_case()) {
    case Dataset::kIdx:
      return ReadIdx(dataset.idx(), options);
    case Dataset::kNpy:
      return ReadNpy(dataset.npy(), options);
    case Dataset::kSynthetic:
      return MakeSynthetic(dataset.synthetic(), Values(input_shape), dataset.limit(),
                           normalisation);
    case Dataset::kJoiners:
      return absl::FailedPreconditionError(
          "the data set is in the programs that join the job: no worker can read it");
    default:
      return absl::UnimplementedError("this source is not built in yet");
    case Dataset::SOURCE_NOT_SET:
      break;
  }
  return absl::InvalidArgumentError("the data set has no source: set idx, npy or synthetic");
}

}  // namespace monsoon
