#include "worker/data/idx_reader.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/data/idx_header.h"
#include "worker/data/data_file.h"
#include "worker/data/in_memory_dataset.h"

namespace monsoon {
namespace {

// Of `examples` samples; zeros where `source` has none.
absl::StatusOr<std::vector<uint32_t>> ReadLabels(const IdxSource& source, uint64_t examples) {
  std::vector<uint32_t> labels(examples);
  if (source.labels().empty()) {
    return labels;
  }
  ASSIGN_OR_RETURN(const IdxHeader header, ReadIdxHeader(source.labels()));
  if (header.shape.size() != 1 || header.shape[0] != examples) {
    return absl::InvalidArgumentError(absl::StrCat(source.labels(),
                                                   " does not hold one label for each of the ",
                                                   examples, " images of ", source.images()));
  }
  ASSIGN_OR_RETURN(const std::vector<uint8_t> classes,
                   ReadDataFile(source.labels(), header.data_offset, header.data_bytes));
  std::copy(classes.begin(), classes.end(), labels.begin());
  return labels;
}

}  // namespace

absl::StatusOr<std::unique_ptr<DataSource>> ReadIdx(const Dataset& dataset,
                                                    const ReadOptions& options) {
  const IdxSource& source = dataset.idx();
  ASSIGN_OR_RETURN(const IdxHeader images, ReadIdxHeader(source.images()));
  if (images.shape.size() < 2) {
    return absl::InvalidArgumentError(
        absl::StrCat(source.images(), " has 1 dimension: labels, not images"));
  }
  const uint64_t all = images.shape[0];
  ASSIGN_OR_RETURN(std::vector<uint32_t> labels, ReadLabels(source, all));
  const std::vector<uint64_t> shape(images.shape.begin() + 1, images.shape.end());
  RETURN_IF_ERROR(CheckOrder(source.images(), shape, options));
  ASSIGN_OR_RETURN(std::vector<uint8_t> pixels,
                   ReadDataFile(source.images(), images.data_offset, images.data_bytes));
  const uint64_t examples = options.Kept(all);
  pixels.resize(pixels.size() / all * examples);
  labels.resize(examples);
  ToModelOrder(shape, options, std::span(pixels));
  return std::unique_ptr<DataSource>(
      new InMemoryDataset(std::move(pixels), {}, std::move(labels), options.normalisation));
}

}  // namespace monsoon
