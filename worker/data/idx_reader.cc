#include "worker/data/idx_reader.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/data/idx_header.h"
#include "worker/data/data_file.h"
#include "worker/data/in_memory_dataset.h"

namespace monsoon {

absl::StatusOr<std::unique_ptr<DataSource>> ReadIdx(const IdxSource& source,
                                                    const ReadOptions& options) {
  ASSIGN_OR_RETURN(const IdxHeader images, ReadIdxHeader(source.images()));
  ASSIGN_OR_RETURN(const IdxHeader labels, ReadIdxHeader(source.labels()));
  if (images.shape.size() < 2) {
    return absl::InvalidArgumentError(
        absl::StrCat(source.images(), " has 1 dimension: labels, not images"));
  }
  if (labels.shape.size() != 1 || labels.shape[0] != images.shape[0]) {
    return absl::InvalidArgumentError(
        absl::StrCat(source.labels(), " does not hold one label for each of the ", images.shape[0],
                     " images of ", source.images()));
  }
  const std::vector<uint64_t> shape(images.shape.begin(), images.shape.end());
  RETURN_IF_ERROR(CheckOrder(source.images(), shape, options));
  ASSIGN_OR_RETURN(std::vector<uint8_t> pixels,
                   ReadDataFile(source.images(), images.data_offset, images.data_bytes));
  ASSIGN_OR_RETURN(const std::vector<uint8_t> classes,
                   ReadDataFile(source.labels(), labels.data_offset, labels.data_bytes));
  const uint64_t examples =
      options.limit == 0 ? classes.size() : std::min<uint64_t>(options.limit, classes.size());
  pixels.resize(pixels.size() / classes.size() * examples);
  ToModelOrder(shape, options, &pixels);
  return std::unique_ptr<DataSource>(new InMemoryDataset(
      std::move(pixels), {},
      std::vector<uint32_t>(classes.begin(), classes.begin() + static_cast<int64_t>(examples)),
      options.normalisation));
}

}  // namespace monsoon
