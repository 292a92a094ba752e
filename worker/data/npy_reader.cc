#include "worker/data/npy_reader.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/data/npy_header.h"
#include "worker/data/data_file.h"
#include "worker/data/in_memory_dataset.h"

namespace monsoon {
namespace {

static_assert(std::endian::native == std::endian::little, ".npy elements are little-endian");

// Element `i` of an integer array, sign-extended.
int64_t IntegerAt(const NpyHeader& header, const std::vector<uint8_t>& bytes, size_t i) {
  const uint64_t width = NpyTypeBytes(header.type);
  uint64_t raw = 0;
  std::memcpy(&raw, bytes.data() + i * width, width);
  const bool is_signed = header.type == NpyType::kInt8 || header.type == NpyType::kInt16 ||
                         header.type == NpyType::kInt32 || header.type == NpyType::kInt64;
  const unsigned unused_bits = 64 - 8 * static_cast<unsigned>(width);
  return is_signed ? static_cast<int64_t>(raw << unused_bits) >> unused_bits
                   : static_cast<int64_t>(raw);
}

// The first `examples` labels of samples that `images` describes; zeros where
// `source` has none.
absl::StatusOr<std::vector<uint32_t>> ReadLabels(const NpySource& source, const NpyHeader& images,
                                                 uint64_t examples) {
  std::vector<uint32_t> labels(examples);
  const std::string& path = source.labels();
  if (path.empty()) {
    return labels;
  }
  ASSIGN_OR_RETURN(const NpyHeader header, ReadNpyHeader(path));
  if (header.shape.size() != 1 || header.shape[0] != images.shape[0] ||
      !IsIntegerNpyType(header.type)) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, " does not hold one integer label for each of the ", images.shape[0],
                     " images of ", source.images()));
  }
  ASSIGN_OR_RETURN(const std::vector<uint8_t> bytes,
                   ReadDataFile(path, header.data_offset, header.data_bytes));
  for (size_t i = 0; i < examples; ++i) {
    const int64_t label = IntegerAt(header, bytes, i);
    if (label < 0 || label > std::numeric_limits<uint32_t>::max()) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ": label ", label, " of sample ", i, " is not a class number"));
    }
    labels[i] = static_cast<uint32_t>(label);
  }
  return labels;
}

absl::Status CheckImages(const std::string& path, const NpyHeader& images) {
  if (images.shape.size() < 2 ||
      (images.type != NpyType::kUint8 && images.type != NpyType::kFloat32)) {
    return absl::InvalidArgumentError(absl::StrCat(
        path, " has ", images.shape.size(), " dimensions of ", NpyTypeName(images.type),
        "; images are float32 or uint8 with a first dimension for the sample"));
  }
  if (images.shape[0] == 0 || images.data_bytes == 0) {
    return absl::InvalidArgumentError(absl::StrCat(path, " holds no samples"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<DataSource>> ReadNpy(const NpySource& source,
                                                    const ReadOptions& options) {
  ASSIGN_OR_RETURN(const NpyHeader images, ReadNpyHeader(source.images()));
  RETURN_IF_ERROR(CheckImages(source.images(), images));
  RETURN_IF_ERROR(CheckOrder(source.images(), images.shape, options));
  const uint64_t all = images.shape[0];
  const uint64_t examples = options.limit == 0 ? all : std::min(options.limit, all);
  ASSIGN_OR_RETURN(std::vector<uint32_t> labels, ReadLabels(source, images, examples));
  ASSIGN_OR_RETURN(std::vector<uint8_t> bytes,
                   ReadDataFile(source.images(), images.data_offset, images.data_bytes));
  bytes.resize(bytes.size() / all * examples);
  if (images.type == NpyType::kUint8) {
    ToModelOrder(images.shape, options, &bytes);
    return std::unique_ptr<DataSource>(
        new InMemoryDataset(std::move(bytes), {}, std::move(labels), options.normalisation));
  }
  std::vector<float> floats(bytes.size() / sizeof(float));
  std::memcpy(floats.data(), bytes.data(), floats.size() * sizeof(float));
  for (size_t i = 0; i < floats.size(); ++i) {
    if (!std::isfinite(floats[i])) {
      return absl::InvalidArgumentError(absl::StrCat(source.images(), ": value ", floats[i],
                                                     " in sample ", i / (floats.size() / examples),
                                                     " is not finite"));
    }
  }
  ToModelOrder(images.shape, options, &floats);
  return std::unique_ptr<DataSource>(
      new InMemoryDataset({}, std::move(floats), std::move(labels), options.normalisation));
}

}  // namespace monsoon
