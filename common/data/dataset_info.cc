#include "common/data/dataset_info.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/status.h"
#include "common/data/idx_header.h"
#include "common/data/npy_header.h"

namespace monsoon {
namespace {

static_assert(std::endian::native == std::endian::little);

struct GzCloser {
  void operator()(gzFile_s* file) const { gzclose_r(file); }
};

// Collects the errors of one data set, the first one apart.
class Problems {
 public:
  explicit Problems(std::vector<DatasetError>* errors) : errors_(errors) {}

  void Add(const std::string& field, const absl::Status& status) {
    if (first_.ok()) {
      first_ = status;
    }
    if (errors_ != nullptr) {
      errors_->push_back({field, status});
    }
  }
  const absl::Status& first() const { return first_; }

 private:
  std::vector<DatasetError>* errors_;
  absl::Status first_;
};

std::string ShapeText(const auto& shape) {
  return absl::StrCat("[", absl::StrJoin(shape, ", "), "]");
}

// Header of one of the two files, or an error under `field`.
template <typename Header>
absl::StatusOr<Header> ReadPart(const std::string& field, const std::string& path,
                                absl::StatusOr<Header> (*read)(const std::string&),
                                Problems* problems) {
  if (path.empty()) {
    problems->Add(field, absl::InvalidArgumentError("no file is named"));
    return problems->first();
  }
  absl::StatusOr<Header> header = read(path);
  if (!header.ok()) {
    problems->Add(field, header.status());
  }
  return header;
}

void CheckCounts(const std::string& field, const std::string& images_path, uint64_t images,
                 const std::string& labels_path, uint64_t labels, Problems* problems) {
  if (images != labels) {
    problems->Add(field, absl::InvalidArgumentError(absl::StrCat(images_path, " has ", images,
                                                                 " samples, but ", labels_path,
                                                                 " has ", labels, " labels")));
  }
}

DatasetInfo DescribeIdx(const IdxSource& source, Problems* problems) {
  DatasetInfo info;
  const absl::StatusOr<IdxHeader> images =
      ReadPart("idx.images", source.images(), &ReadIdxHeader, problems);
  const absl::StatusOr<IdxHeader> labels =
      ReadPart("idx.labels", source.labels(), &ReadIdxHeader, problems);
  if (labels.ok() && labels->shape.size() != 1) {
    problems->Add("idx.labels",
                  absl::InvalidArgumentError(absl::StrCat(
                      source.labels(), " holds ", labels->shape.size(), "-dimensional data ",
                      ShapeText(labels->shape), " (magic 0000080", labels->shape.size(),
                      "), not labels (magic 00000801)")));
  }
  if (images.ok() && images->shape.size() < 2) {
    problems->Add("idx.images", absl::InvalidArgumentError(
                                    absl::StrCat(source.images(),
                                                 " holds labels (magic 00000801), not images "
                                                 "(magic 00000803)")));
  }
  if (!problems->first().ok()) {
    return info;
  }
  CheckCounts("idx.labels", source.images(), images->shape[0], source.labels(), labels->shape[0],
              problems);
  info.examples = images->shape[0];
  info.sample_shape.assign(images->shape.begin() + 1, images->shape.end());
  info.bytes = images->data_bytes;
  return info;
}

DatasetInfo DescribeNpy(const NpySource& source, Problems* problems) {
  DatasetInfo info;
  const absl::StatusOr<NpyHeader> images =
      ReadPart("npy.images", source.images(), &ReadNpyHeader, problems);
  const absl::StatusOr<NpyHeader> labels =
      ReadPart("npy.labels", source.labels(), &ReadNpyHeader, problems);
  if (labels.ok() && (labels->shape.size() != 1 || !IsIntegerNpyType(labels->type))) {
    problems->Add("npy.labels", absl::InvalidArgumentError(absl::StrCat(
                                    source.labels(), " holds ", NpyTypeName(labels->type), " ",
                                    ShapeText(labels->shape), ", not integer labels [n]")));
  }
  if (images.ok() && (images->shape.size() < 2 || images->data_bytes == 0 ||
                      (images->type != NpyType::kUint8 && images->type != NpyType::kFloat32))) {
    problems->Add("npy.images",
                  absl::InvalidArgumentError(absl::StrCat(
                      source.images(), " holds ", NpyTypeName(images->type), " ",
                      ShapeText(images->shape), ", not uint8 or float32 samples [n, ...]")));
  }
  if (!problems->first().ok()) {
    return info;
  }
  CheckCounts("npy.labels", source.images(), images->shape[0], source.labels(), labels->shape[0],
              problems);
  info.examples = images->shape[0];
  info.sample_shape.assign(images->shape.begin() + 1, images->shape.end());
  info.bytes = images->data_bytes;
  info.type = images->type == NpyType::kUint8 ? ElementType::kUint8 : ElementType::kFloat32;
  return info;
}

DatasetInfo DescribeSynthetic(const SyntheticSource& source, Problems* problems) {
  if (source.examples() == 0) {
    problems->Add("synthetic.examples", absl::InvalidArgumentError("must be at least 1"));
  }
  if (source.classes() == 0) {
    problems->Add("synthetic.classes", absl::InvalidArgumentError("must be at least 1"));
  }
  DatasetInfo info;
  info.examples = source.examples();
  info.classes = source.classes();
  info.type = ElementType::kFloat32;
  return info;
}

// Largest label of `count` elements of `type` from `data`, or an error.
absl::Status FoldLabels(const char* data, uint64_t count, NpyType type, const std::string& path,
                        uint64_t* largest) {
  const uint64_t width = NpyTypeBytes(type);
  const bool is_signed = type == NpyType::kInt8 || type == NpyType::kInt16 ||
                         type == NpyType::kInt32 || type == NpyType::kInt64;
  for (uint64_t i = 0; i < count; ++i) {
    uint64_t value = 0;
    for (uint64_t byte = 0; byte < width; ++byte) {
      value |= static_cast<uint64_t>(static_cast<uint8_t>(data[i * width + byte])) << (8 * byte);
    }
    if (is_signed && (value >> (8 * width - 1)) != 0) {
      return absl::InvalidArgumentError(absl::StrCat(path, ": a label is negative"));
    }
    *largest = std::max(*largest, value);
  }
  return absl::OkStatus();
}

absl::StatusOr<uint64_t> CountLabelClasses(const std::string& path, uint64_t offset, uint64_t bytes,
                                           NpyType type) {
  std::unique_ptr<gzFile_s, GzCloser> file(gzopen(path.c_str(), "rb"));
  if (file == nullptr || gzseek(file.get(), static_cast<z_off_t>(offset), SEEK_SET) < 0) {
    return absl::InvalidArgumentError(absl::StrCat("cannot read ", path));
  }
  std::array<char, 1 << 14> buffer;  // whole elements: a power of two
  uint64_t largest = 0;
  while (bytes > 0) {
    const unsigned want = static_cast<unsigned>(std::min<uint64_t>(bytes, buffer.size()));
    if (gzread(file.get(), buffer.data(), want) != static_cast<int>(want)) {
      return absl::DataLossError(absl::StrCat(path, ": the labels are cut short or damaged"));
    }
    RETURN_IF_ERROR(FoldLabels(buffer.data(), want / NpyTypeBytes(type), type, path, &largest));
    bytes -= want;
  }
  if (largest == std::numeric_limits<uint64_t>::max()) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": a label is out of range"));
  }
  return largest + 1;
}

}  // namespace

uint64_t DatasetInfo::sample_elements() const {
  uint64_t elements = sample_shape.empty() ? 0 : 1;
  for (const uint64_t length : sample_shape) {
    elements *= length;
  }
  return elements;
}

absl::StatusOr<DatasetInfo> DescribeDataset(const Dataset& dataset,
                                            std::vector<DatasetError>* errors) {
  Problems problems(errors);
  DatasetInfo info;
  switch (dataset.source_case()) {
    case Dataset::kIdx:
      info = DescribeIdx(dataset.idx(), &problems);
      break;
    case Dataset::kNpy:
      info = DescribeNpy(dataset.npy(), &problems);
      break;
    case Dataset::kSynthetic:
      info = DescribeSynthetic(dataset.synthetic(), &problems);
      break;
    case Dataset::kJoiners:
      info.examples =
          dataset.joiners().unnumbered() ? kUnnumberedExamples : dataset.joiners().examples();
      info.type = ElementType::kFloat32;
      break;
    default:
      problems.Add("", absl::UnimplementedError("this source is not built in yet"));
      break;
    case Dataset::SOURCE_NOT_SET:
      problems.Add("",
                   absl::InvalidArgumentError("names no source: set one of idx, npy, synthetic"));
      break;
  }
  RETURN_IF_ERROR(problems.first());
  if (dataset.limit() != 0) {
    info.examples = std::min<uint64_t>(info.examples, dataset.limit());
  }
  return info;
}

absl::StatusOr<uint64_t> CountClasses(const Dataset& dataset) {
  switch (dataset.source_case()) {
    case Dataset::kIdx: {
      const std::string& path = dataset.idx().labels();
      ASSIGN_OR_RETURN(const IdxHeader header, ReadIdxHeader(path));
      return CountLabelClasses(path, header.data_offset, header.data_bytes, NpyType::kUint8);
    }
    case Dataset::kNpy: {
      const std::string& path = dataset.npy().labels();
      ASSIGN_OR_RETURN(const NpyHeader header, ReadNpyHeader(path));
      return CountLabelClasses(path, header.data_offset, header.data_bytes, header.type);
    }
    case Dataset::kSynthetic:
      return dataset.synthetic().classes();
    case Dataset::kJoiners:
      return absl::InvalidArgumentError("only the programs that join the job know its classes");
    default:
      return absl::UnimplementedError("this source is not built in yet");
    case Dataset::SOURCE_NOT_SET:
      return absl::InvalidArgumentError("names no source: set one of idx, npy, synthetic");
  }
  return absl::InternalError("unknown data set source");
}

}  // namespace monsoon
