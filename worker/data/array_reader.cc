#include "worker/data/array_reader.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/data/array_source.h"

namespace monsoon {
namespace {

// The elements of the first `rows` rows, as `take` (value, row) turns them into T or refuses them.
// The rest is read too: a file that is damaged behind them is.
template <typename T, typename Take>
absl::StatusOr<std::vector<T>> ReadRows(const JoinedArray& array, uint64_t rows, Take take) {
  const uint64_t row = array.row_elements();
  const uint64_t width = NpyTypeBytes(array.type);
  std::vector<T> values;
  values.reserve(rows * row);
  RETURN_IF_ERROR(StreamArray(array, [&](std::span<const uint8_t> bytes) {
    const uint64_t left = rows * row - values.size();
    for (size_t i = 0; i < std::min(left, bytes.size() / width); ++i) {
      const double value = ElementAt(array.type, bytes, i);
      RETURN_IF_ERROR(take(array, value, values.size() / row));
      values.push_back(static_cast<T>(value));
    }
    return absl::OkStatus();
  }));
  return values;
}

absl::StatusOr<Answers> ReadAnswers(const SampleArrays& arrays, uint64_t examples) {
  Answers answers;
  answers.labels_per_example = arrays.labels_per_sample();
  answers.targets_per_example = arrays.targets_per_sample();
  if (arrays.labels) {
    ASSIGN_OR_RETURN(answers.labels, ReadRows<uint32_t>(*arrays.labels, examples, &CheckLabel));
  } else if (answers.labels_per_example > 0) {
    answers.labels.resize(examples);
  }
  if (arrays.targets) {
    ASSIGN_OR_RETURN(answers.targets, ReadRows<float>(*arrays.targets, examples, &CheckTarget));
  }
  if (arrays.weights) {
    ASSIGN_OR_RETURN(answers.weights, ReadRows<float>(*arrays.weights, examples, &CheckWeight));
  }
  return answers;
}

// As they are stored, in one go.
template <typename T>
absl::StatusOr<std::vector<T>> ReadStored(const JoinedArray& array, uint64_t rows) {
  std::vector<T> values(rows * array.row_elements());
  const std::span<uint8_t> all(reinterpret_cast<uint8_t*>(values.data()),
                               values.size() * sizeof(T));
  size_t done = 0;
  RETURN_IF_ERROR(StreamArray(array, [&](std::span<const uint8_t> bytes) {
    const size_t size = std::min(bytes.size(), all.size() - done);
    std::copy_n(bytes.data(), size, all.data() + done);
    done += size;
    return absl::OkStatus();
  }));
  return values;
}

absl::Status CheckFinite(const JoinedArray& array, std::span<const float> values) {
  const auto wrong =
      std::ranges::find_if(values, [](float value) { return !std::isfinite(value); });
  if (wrong == values.end()) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat(array.name, ": value ", *wrong, " in sample ",
                   static_cast<uint64_t>(wrong - values.begin()) / array.row_elements(),
                   " is not finite"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<DataSource>> ReadArrays(const Dataset& dataset,
                                                       const ReadOptions& options) {
  ASSIGN_OR_RETURN(const SampleArrays arrays, OpenSampleArrays(dataset, options.context));
  const JoinedArray& images = arrays.images;
  const std::vector<uint64_t> shape = images.row_shape();
  RETURN_IF_ERROR(CheckOrder(images.name, shape, options));
  const uint64_t examples = options.Kept(images.rows());
  ASSIGN_OR_RETURN(Answers answers, ReadAnswers(arrays, examples));
  std::vector<uint8_t> bytes;
  std::vector<float> floats;
  if (images.type == NpyType::kUint8) {
    ASSIGN_OR_RETURN(bytes, ReadStored<uint8_t>(images, examples));
  } else if (images.type == NpyType::kFloat32) {
    ASSIGN_OR_RETURN(floats, ReadStored<float>(images, examples));
    RETURN_IF_ERROR(CheckFinite(images, floats));
  } else {
    ASSIGN_OR_RETURN(floats, ReadRows<float>(images, examples, &CheckInteger));
  }
  ToModelOrder(shape, options, std::span(bytes));
  ToModelOrder(shape, options, std::span(floats));
  return std::unique_ptr<DataSource>(new InMemoryDataset(
      std::move(bytes), std::move(floats), std::move(answers), options.normalisation));
}

}  // namespace monsoon
