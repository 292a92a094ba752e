#include "worker/data/array_reader.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <type_traits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "worker/data/file_bytes.h"
#include "worker/data/record_dataset.h"
#include "worker/data/residence.h"

namespace monsoon {
namespace {

// Bytes that are judged and hashed at once.
constexpr uint64_t kPiece = 1 << 20;

template <typename T>
std::span<uint8_t> Bytes(std::span<T> values) {
  return {reinterpret_cast<uint8_t*>(values.data()), values.size_bytes()};
}

// The elements of the first `rows` rows, as `check` (array, value, row) allows them. The rest is
// read too: a file that is damaged behind them is.
template <typename T, typename Check>
absl::StatusOr<std::vector<T>> ReadRows(const JoinedArray& array, uint64_t rows,
                                        const DataAccess& access, Check check) {
  const uint64_t row = array.row_elements();
  const uint64_t width = NpyTypeBytes(array.type);
  std::vector<T> values;
  values.reserve(rows * row);
  RETURN_IF_ERROR(StreamArray(array, access.roots, [&](std::span<const uint8_t> bytes) {
    const uint64_t left = rows * row - values.size();
    for (size_t i = 0; i < std::min(left, bytes.size() / width); ++i) {
      const double value = ElementAt(array.type, bytes, i);
      RETURN_IF_ERROR(check(array, value, values.size() / row, access.quoting));
      values.push_back(static_cast<T>(value));
    }
    return absl::OkStatus();
  }));
  return values;
}

absl::StatusOr<Answers> ReadAnswers(const SampleArrays& arrays, uint64_t examples,
                                    const DataAccess& access) {
  Answers answers;
  answers.labels_per_example = arrays.labels_per_sample();
  answers.targets_per_example = arrays.targets_per_sample();
  if (arrays.labels) {
    ASSIGN_OR_RETURN(answers.labels,
                     ReadRows<uint32_t>(*arrays.labels, examples, access, &CheckLabel));
  } else if (answers.labels_per_example > 0) {
    answers.labels.resize(examples);
  }
  if (arrays.targets) {
    ASSIGN_OR_RETURN(answers.targets,
                     ReadRows<float>(*arrays.targets, examples, access, &CheckTarget));
  }
  if (arrays.weights) {
    ASSIGN_OR_RETURN(answers.weights,
                     ReadRows<float>(*arrays.weights, examples, access, &CheckWeight));
  }
  return answers;
}

// As they are stored, in one go.
template <typename T>
absl::StatusOr<std::vector<T>> ReadStored(const JoinedArray& array, uint64_t rows,
                                          const DataRoots& roots) {
  std::vector<T> values(rows * array.row_elements());
  const std::span<uint8_t> all = Bytes(std::span(values));
  size_t done = 0;
  RETURN_IF_ERROR(StreamArray(array, roots, [&](std::span<const uint8_t> bytes) {
    const size_t size = std::min(bytes.size(), all.size() - done);
    std::copy_n(bytes.data(), size, all.data() + done);
    done += size;
    return absl::OkStatus();
  }));
  return values;
}

// `first` is the sample of values[0].
absl::Status CheckFinite(const JoinedArray& array, std::span<const float> values, uint64_t first) {
  const auto wrong =
      std::ranges::find_if(values, [](float value) { return !std::isfinite(value); });
  if (wrong == values.end()) {
    return absl::OkStatus();
  }
  const uint64_t sample =
      first + static_cast<uint64_t>(wrong - values.begin()) / array.row_elements();
  return absl::InvalidArgumentError(absl::StrCat(array.name, ": value ", *wrong, " in ",
                                                 array.SampleText(sample), " is not finite"));
}

absl::StatusOr<std::unique_ptr<DataSource>> Keep(const SampleArrays& arrays,
                                                 const ReadOptions& options) {
  const JoinedArray& images = arrays.images;
  const std::vector<uint64_t> shape = images.row_shape();
  const uint64_t examples = options.Kept(images.rows());
  const DataAccess& access = options.context.access;
  ASSIGN_OR_RETURN(Answers answers, ReadAnswers(arrays, examples, access));
  std::vector<uint8_t> bytes;
  std::vector<float> floats;
  if (images.type == NpyType::kUint8) {
    ASSIGN_OR_RETURN(bytes, ReadStored<uint8_t>(images, examples, access.roots));
  } else if (images.type == NpyType::kFloat32) {
    ASSIGN_OR_RETURN(floats, ReadStored<float>(images, examples, access.roots));
    RETURN_IF_ERROR(CheckFinite(images, floats, 0));
  } else {
    ASSIGN_OR_RETURN(floats, ReadRows<float>(images, examples, access, &CheckInteger));
  }
  ToModelOrder(shape, options, std::span(bytes));
  ToModelOrder(shape, options, std::span(floats));
  return std::unique_ptr<DataSource>(new InMemoryDataset(
      std::move(bytes), std::move(floats), std::move(answers), options.normalisation));
}

absl::StatusOr<std::unique_ptr<ByteStore>> OpenRows(const JoinedArray& array,
                                                    const DataRoots& roots) {
  std::vector<FileBytes::Part> parts;
  for (const JoinedArray::Part& part : array.parts) {
    parts.push_back(
        {.path = part.path, .offset = part.data_offset, .bytes = part.rows * array.row_bytes()});
  }
  ASSIGN_OR_RETURN(FileBytes bytes, FileBytes::Open(std::move(parts), roots));
  return std::unique_ptr<ByteStore>(new FileBytes(std::move(bytes)));
}

// Calls `look` (elements, their first row) with the first `rows` rows, some at a time.
template <typename Look>
absl::Status ForEachPiece(const JoinedArray& array, const ByteStore& store, uint64_t rows,
                          Look look) {
  const uint64_t row_bytes = array.row_bytes();
  const uint64_t at_once = std::max<uint64_t>(1, kPiece / row_bytes);
  std::vector<uint8_t> scratch;
  for (uint64_t first = 0; first < rows; first += at_once) {
    const uint64_t size = std::min(at_once, rows - first) * row_bytes;
    ASSIGN_OR_RETURN(const uint8_t* const bytes, store.Get(first * row_bytes, size, &scratch));
    RETURN_IF_ERROR(look(std::span(bytes, size), first));
  }
  return absl::OkStatus();
}

// Elements as T, each judged; the hash of what they are in memory.
template <typename T, typename Check>
absl::StatusOr<ContentHash> HashRows(const JoinedArray& array, const ByteStore& store,
                                     uint64_t rows, const ReadOptions& options, Quoting quoting,
                                     Check check) {
  ContentHash hash;
  std::vector<T> values;
  const uint64_t row = array.row_elements();
  RETURN_IF_ERROR(ForEachPiece(array, store, rows,
                               [&](std::span<const uint8_t> bytes, uint64_t first) -> absl::Status {
                                 values.resize(bytes.size() / NpyTypeBytes(array.type));
                                 for (size_t i = 0; i < values.size(); ++i) {
                                   const double value = ElementAt(array.type, bytes, i);
                                   RETURN_IF_ERROR(check(array, value, first + i / row, quoting));
                                   values[i] = static_cast<T>(value);
                                 }
                                 if constexpr (std::is_same_v<T, float>) {
                                   ToModelOrder(array.row_shape(), options, std::span(values));
                                 }
                                 hash.Append(Bytes(std::span(values)));
                                 return absl::OkStatus();
                               }));
  return hash;
}

// The same of elements that are in memory as they are stored.
template <typename T>
absl::StatusOr<ContentHash> HashStored(const JoinedArray& array, const ByteStore& store,
                                       uint64_t rows, const ReadOptions& options) {
  ContentHash hash;
  std::vector<T> values;
  RETURN_IF_ERROR(ForEachPiece(array, store, rows,
                               [&](std::span<const uint8_t> bytes, uint64_t first) -> absl::Status {
                                 values.resize(bytes.size() / sizeof(T));
                                 std::memcpy(values.data(), bytes.data(), bytes.size());
                                 if constexpr (std::is_same_v<T, float>) {
                                   RETURN_IF_ERROR(CheckFinite(array, values, first));
                                 }
                                 ToModelOrder(array.row_shape(), options, std::span(values));
                                 hash.Append(Bytes(std::span(values)));
                                 return absl::OkStatus();
                               }));
  return hash;
}

absl::StatusOr<ContentHash> HashImages(const JoinedArray& images, const ByteStore& store,
                                       uint64_t rows, const ReadOptions& options) {
  switch (images.type) {
    case NpyType::kUint8:
      return HashStored<uint8_t>(images, store, rows, options);
    case NpyType::kFloat32:
      return HashStored<float>(images, store, rows, options);
    default:
      return HashRows<float>(images, store, rows, options, options.context.access.quoting,
                             &CheckInteger);
  }
}

// One number a sample is kept: it takes less than the order of the samples does.
bool IsSmall(const std::optional<JoinedArray>& array) {
  return !array || array->row_elements() == 1;
}

absl::StatusOr<AnswerRows> OpenAnswerRows(const JoinedArray& array, const DataRoots& roots) {
  AnswerRows rows{.bytes = nullptr, .type = array.type, .count = array.row_elements()};
  ASSIGN_OR_RETURN(rows.bytes, OpenRows(array, roots));
  return rows;
}

absl::StatusOr<std::unique_ptr<DataSource>> LeaveOnDisk(const SampleArrays& arrays,
                                                        const ReadOptions& options) {
  const JoinedArray& images = arrays.images;
  const DataAccess& access = options.context.access;
  RecordDataset::Parts parts;
  parts.examples = options.Kept(images.rows());
  parts.normalisation = options.normalisation;
  parts.format = {.stride = images.row_bytes(),
                  .type = images.type,
                  .values = images.row_elements(),
                  .channels_last = options.layout == Dataset::NHWC ? images.shape.back() : 0};
  ASSIGN_OR_RETURN(parts.records, OpenRows(images, access.roots));
  ContentHashes content{.bytes = images.type == NpyType::kUint8};
  ASSIGN_OR_RETURN(content.values, HashImages(images, *parts.records, parts.examples, options));
  SampleArrays small = {.images = images};
  small.weights = arrays.weights;
  if (IsSmall(arrays.labels)) {
    small.labels = arrays.labels;
  } else {
    ASSIGN_OR_RETURN(parts.labels, OpenAnswerRows(*arrays.labels, access.roots));
    ASSIGN_OR_RETURN(content.labels,
                     HashRows<uint32_t>(*arrays.labels, *parts.labels.bytes, parts.examples,
                                        ReadOptions(), access.quoting, &CheckLabel));
  }
  if (IsSmall(arrays.targets)) {
    small.targets = arrays.targets;
  } else {
    ASSIGN_OR_RETURN(parts.targets, OpenAnswerRows(*arrays.targets, access.roots));
    ASSIGN_OR_RETURN(content.targets,
                     HashRows<float>(*arrays.targets, *parts.targets.bytes, parts.examples,
                                     ReadOptions(), access.quoting, &CheckTarget));
  }
  ASSIGN_OR_RETURN(parts.answers, ReadAnswers(small, parts.examples, access));
  if (parts.labels.bytes != nullptr || parts.targets.bytes != nullptr) {
    // Not that nobody knows labels: they are elsewhere.
    parts.answers.labels.clear();
    parts.answers.labels_per_example = 0;
  }
  content.labels.Append(Bytes(std::span(parts.answers.labels)));
  content.targets.Append(Bytes(std::span(parts.answers.targets)));
  content.weights.Append(Bytes(std::span(parts.answers.weights)));
  const uint64_t examples = parts.examples;
  SampleFormat format = parts.answers.FormatOf(parts.format.values);
  format.labels = std::max(format.labels, parts.labels.count);
  format.targets = std::max(format.targets, parts.targets.count);
  parts.fingerprint = FingerprintOf(examples, format, options.normalisation, content);
  return std::unique_ptr<DataSource>(new RecordDataset(std::move(parts)));
}

// Why an array cannot be read where it lies, or "".
std::string WhyNotOnDisk(const JoinedArray& array) {
  return !array.member.empty() ? "it is in an archive; write .npy files (numpy.save)"
         : array.compressed    ? "it is compressed; gunzip it"
                               : "";
}

// Of the arrays as they would be in memory.
uint64_t KeptBytes(const SampleArrays& arrays, const ReadOptions& options) {
  const uint64_t examples = options.Kept(arrays.images.rows());
  const uint64_t width = arrays.images.type == NpyType::kUint8 ? 1 : sizeof(float);
  return examples * (arrays.images.row_elements() * width +
                     sizeof(float) * (arrays.labels_per_sample() + arrays.targets_per_sample()));
}

}  // namespace

absl::StatusOr<std::unique_ptr<DataSource>> ReadSampleArrays(const SampleArrays& arrays,
                                                             const ReadOptions& options) {
  RETURN_IF_ERROR(CheckOrder(arrays.images.name, arrays.images.row_shape(), options));
  std::string why_not = WhyNotOnDisk(arrays.images);
  if (arrays.labels && why_not.empty()) {
    why_not = WhyNotOnDisk(*arrays.labels);
  }
  ASSIGN_OR_RETURN(const bool kept, IsKept(options.residence, KeptBytes(arrays, options),
                                           options.free_bytes.value_or(FreeMemoryBytes()),
                                           arrays.images.name, why_not));
  return kept ? Keep(arrays, options) : LeaveOnDisk(arrays, options);
}

absl::StatusOr<std::unique_ptr<DataSource>> ReadArrays(const Dataset& dataset,
                                                       const ReadOptions& options) {
  ASSIGN_OR_RETURN(const SampleArrays arrays, OpenSampleArrays(dataset, options.context));
  return ReadSampleArrays(arrays, options);
}

}  // namespace monsoon
