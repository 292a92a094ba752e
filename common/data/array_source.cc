#include "common/data/array_source.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/status.h"
#include "common/data/non_finite.h"
#include "common/data/source_files.h"
#include "common/data/source_kind.h"

namespace monsoon {
namespace {

// Where the four arrays are, of either source.
struct ArrayNames {
  const char* source = "";
  std::string images, labels, weights;                    // paths, or members of `archive`
  std::string archive;                                    // empty: .npy files
  std::string images_field, labels_field, weights_field;  // for messages
};

ArrayNames NamesOf(const Dataset& dataset) {
  if (dataset.has_npy()) {
    const NpySource& source = dataset.npy();
    return {.source = "npy",
            .images = source.images(),
            .labels = source.labels(),
            .weights = source.weights(),
            .archive = "",
            .images_field = "npy.images",
            .labels_field = "npy.labels",
            .weights_field = "npy.weights"};
  }
  const NpzSource& source = dataset.npz();
  return {.source = "npz",
          .images = source.images().empty() ? "images" : source.images(),
          .labels = source.labels().empty() ? "labels" : source.labels(),
          .weights = source.weights(),
          .archive = source.file(),
          .images_field = source.images().empty() ? "npz.file" : "npz.images",
          .labels_field = source.labels().empty() ? "npz.file" : "npz.labels",
          .weights_field = source.weights().empty() ? "npz.file" : "npz.weights"};
}

absl::StatusOr<JoinedArray> Open(const ArrayNames& names, const std::string& name,
                                 const DataAccess& access) {
  return names.source == std::string("npy") ? OpenNpyArray(name, access)
                                            : OpenNpzArray(names.archive, name, access);
}

// One of the arrays, or an error under `field`.
std::optional<JoinedArray> OpenNamed(const ArrayNames& names, const std::string& field,
                                     const std::string& name, const DataAccess& access,
                                     Problems* problems) {
  if (name.empty()) {
    problems->Add(field, absl::InvalidArgumentError("no file is named"));
    return std::nullopt;
  }
  absl::StatusOr<JoinedArray> array = Open(names, name, access);
  if (!array.ok()) {
    problems->Add(field, array.status());
    return std::nullopt;
  }
  return *std::move(array);
}

absl::Status NotExpected(const JoinedArray& array, absl::string_view expected,
                         absl::string_view hint = "") {
  return absl::InvalidArgumentError(
      absl::StrCat(array.name, " holds ", array.Text(), ", not ", expected, hint));
}

bool IsFloat(const JoinedArray& array) { return !IsIntegerNpyType(array.type); }

void CheckImages(const std::string& field, const JoinedArray& images, Problems* problems) {
  if (images.type == NpyType::kFloat64) {
    problems->Add(field, NotExpected(images, "float32", "; write samples.astype(numpy.float32)"));
  } else if (images.shape.size() < 2) {
    problems->Add(field, NotExpected(images, "samples [n, ...] of bytes, float32 or integers"));
  } else if (images.rows() == 0 || images.row_elements() == 0) {
    problems->Add(field, NotExpected(images, "samples: it is empty"));
  } else if (images.rows() > std::numeric_limits<uint32_t>::max()) {
    problems->Add(field, NotExpected(images, "fewer than 2^32 samples"));
  }
}

// Of the numbers that there are for each sample.
void CheckRows(const std::string& field, const JoinedArray& images, const JoinedArray& array,
               absl::string_view what, Problems* problems) {
  CheckCounts(field, images.name, images.rows(), array.name, array.rows(), what, problems);
}

SampleArrays OpenArrays(const Dataset& dataset, const DataContext& context, Problems* problems) {
  const ArrayNames names = NamesOf(dataset);
  SampleArrays arrays;
  if (dataset.has_npz() && names.archive.empty()) {
    problems->Add("npz.file", absl::InvalidArgumentError("no file is named"));
    return arrays;
  }
  const std::optional<JoinedArray> images =
      OpenNamed(names, names.images_field, names.images, context.access, problems);
  std::optional<JoinedArray> labels, weights;
  if (!context.unlabelled) {
    labels = OpenNamed(names, names.labels_field, names.labels, context.access, problems);
  }
  if (labels && (labels->shape.size() > 2 || labels->row_elements() == 0)) {
    problems->Add(names.labels_field,
                  NotExpected(*labels,
                              "integer labels [n] or [n, steps], or targets [n] or "
                              "[n, targets] of floats"));
  }
  if (images) {
    CheckImages(names.images_field, *images, problems);
  }
  if (!names.weights.empty()) {
    weights = OpenNamed(names, names.weights_field, names.weights, context.access, problems);
  } else if (dataset.has_npz() && images && !context.unlabelled) {
    // Only where there is one.
    absl::StatusOr<JoinedArray> found = Open(names, "weights", context.access);
    if (found.ok()) {
      weights = *std::move(found);
    } else if (!absl::IsNotFound(found.status()) ||
               std::any_of(images->parts.begin(), images->parts.end(), [&](const auto& part) {
                 return OpenNpzArray(part.path, "weights", context.access).ok();
               })) {  // some files of a pattern have them
      problems->Add(names.weights_field, found.status());
    }
  }
  if (weights && (weights->shape.size() != 1 || !IsFloat(*weights))) {
    problems->Add(names.weights_field, NotExpected(*weights, "weights [n] of floats"));
  }
  if (!problems->first().ok()) {
    return arrays;
  }
  arrays.images = *images;
  if (labels) {
    CheckRows(names.labels_field, *images, *labels, IsFloat(*labels) ? "targets" : "labels",
              problems);
    (IsFloat(*labels) ? arrays.targets : arrays.labels) = std::move(labels);
  }
  if (weights) {
    CheckRows(names.weights_field, *images, *weights, "weights", problems);
    arrays.weights = std::move(weights);
  }
  return arrays;
}

DatasetInfo Describe(const Dataset& dataset, const DataContext& context, Problems* problems) {
  const SampleArrays arrays = OpenArrays(dataset, context, problems);
  DatasetInfo info;
  if (!problems->first().ok()) {
    return info;
  }
  CheckResidence(dataset, dataset.npz().file(), dataset.has_npz(), problems);
  const JoinedArray& images = arrays.images;
  info.examples = images.rows();
  info.sample_shape = images.row_shape();
  info.bytes = images.rows() * images.row_bytes();
  info.type = images.type == NpyType::kFloat32                   ? ElementType::kFloat32
              : images.type == NpyType::kUint8 && !dataset.raw() ? ElementType::kUint8
                                                                 : ElementType::kInteger;
  info.labels = arrays.labels_per_sample();
  info.targets = arrays.targets_per_sample();
  info.weighted = arrays.weights.has_value();
  return info;
}

absl::Status WrongValue(const JoinedArray& array, absl::string_view what, double value,
                        uint64_t sample, absl::string_view why, Quoting quoting) {
  return absl::InvalidArgumentError(absl::StrFormat(
      "%s: %s%s of %s %s", array.name, what,
      quoting == Quoting::kShow ? absl::StrCat(" ", ContentNumber(value, quoting)) : "",
      array.SampleText(sample), why));
}

// Calls `look` with each element and its row.
template <typename Look>
absl::Status ForEachElement(const JoinedArray& array, const DataRoots& roots, Look look) {
  const uint64_t width = NpyTypeBytes(array.type);
  const uint64_t row = array.row_elements();
  uint64_t seen = 0;
  return StreamArray(array, roots, [&](std::span<const uint8_t> bytes) {
    for (size_t i = 0; i < bytes.size() / width; ++i, ++seen) {
      RETURN_IF_ERROR(look(ElementAt(array.type, bytes, i), seen / row));
    }
    return absl::OkStatus();
  });
}

absl::StatusOr<uint64_t> CountLabels(const Dataset& dataset, const DataContext& context) {
  ASSIGN_OR_RETURN(const SampleArrays arrays, OpenSampleArrays(dataset, context));
  if (!arrays.labels) {
    return 0;
  }
  double largest = 0;
  RETURN_IF_ERROR(
      ForEachElement(*arrays.labels, context.access.roots, [&](double label, uint64_t sample) {
        RETURN_IF_ERROR(CheckLabel(*arrays.labels, label, sample, context.access.quoting));
        largest = std::max(largest, label);
        return absl::OkStatus();
      }));
  return static_cast<uint64_t>(largest) + 1;
}

absl::Status Scan(const Dataset& dataset, const DataContext& context, const DatasetInfo& info) {
  ASSIGN_OR_RETURN(const SampleArrays arrays, OpenSampleArrays(dataset, context));
  const JoinedArray& images = arrays.images;
  const uint64_t considered = info.examples;  // beyond: only that they can be read
  if (context.id_limit > 0) {
    RETURN_IF_ERROR(
        ForEachElement(images, context.access.roots, [&](double value, uint64_t sample) {
          const bool is_id = value >= 0 && value < static_cast<double>(context.id_limit) &&
                             value == std::trunc(value);
          return is_id || sample >= considered
                     ? absl::OkStatus()
                     : WrongValue(
                           images, "id", value, sample,
                           absl::StrCat("is not a whole number from 0 and below the embedding's ",
                                        context.id_limit, " rows"),
                           context.access.quoting);
        }));
  } else if (images.type == NpyType::kFloat32) {
    NonFinite found;
    RETURN_IF_ERROR(
        ForEachElement(images, context.access.roots, [&](double value, uint64_t sample) {
          if (sample < considered) {
            found.Look(value);
          }
          return absl::OkStatus();
        }));
    RETURN_IF_ERROR(found.ToStatus(images, info.sample_shape));
  } else if (images.type == NpyType::kUint8) {
    RETURN_IF_ERROR(StreamArray(images, context.access.roots,
                                [](std::span<const uint8_t>) { return absl::OkStatus(); }));
  } else {
    RETURN_IF_ERROR(
        ForEachElement(images, context.access.roots, [&](double value, uint64_t sample) {
          return sample < considered ? CheckInteger(images, value, sample, context.access.quoting)
                                     : absl::OkStatus();
        }));
  }
  const auto check_target = context.targets_are_shares ? &CheckShare : &CheckTarget;
  for (const auto& [array, check] :
       {std::pair(&arrays.targets, check_target), std::pair(&arrays.weights, &CheckWeight)}) {
    if (array->has_value()) {
      RETURN_IF_ERROR(
          ForEachElement(**array, context.access.roots, [&](double value, uint64_t sample) {
            return sample < considered ? check(**array, value, sample, context.access.quoting)
                                       : absl::OkStatus();
          }));
    }
  }
  return absl::OkStatus();
}

absl::Status FirstValues(const Dataset& dataset, const DataContext& context, uint64_t samples,
                         absl::FunctionRef<void(double)> look) {
  ASSIGN_OR_RETURN(const SampleArrays arrays, OpenSampleArrays(dataset, context));
  const absl::Status status = ForEachElement(arrays.images, context.access.roots,
                                             [&](double value, uint64_t sample) -> absl::Status {
                                               if (sample >= samples) {
                                                 return absl::OutOfRangeError("these are enough");
                                               }
                                               look(value);
                                               return absl::OkStatus();
                                             });
  return absl::IsOutOfRange(status) ? absl::OkStatus() : status;
}

void VisitNpy(Dataset* dataset, absl::FunctionRef<void(std::string*)> visit) {
  visit(dataset->mutable_npy()->mutable_images());
  visit(dataset->mutable_npy()->mutable_labels());
  visit(dataset->mutable_npy()->mutable_weights());
}

void VisitNpz(Dataset* dataset, absl::FunctionRef<void(std::string*)> visit) {
  visit(dataset->mutable_npz()->mutable_file());
}

}  // namespace

absl::StatusOr<SampleArrays> OpenSampleArrays(const Dataset& dataset, const DataContext& context) {
  Problems problems(nullptr);
  SampleArrays arrays = OpenArrays(dataset, context, &problems);
  RETURN_IF_ERROR(problems.first());
  return arrays;
}

absl::Status CheckLabel(const JoinedArray& array, double value, uint64_t sample, Quoting quoting) {
  return value >= 0 && value < std::numeric_limits<uint32_t>::max()
             ? absl::OkStatus()
             : WrongValue(array, "label", value, sample, "is not a class number", quoting);
}

absl::Status CheckTarget(const JoinedArray& array, double value, uint64_t sample, Quoting quoting) {
  return std::isfinite(static_cast<float>(value))
             ? absl::OkStatus()
             : WrongValue(array, "target", value, sample, "is not finite", quoting);
}

absl::Status CheckShare(const JoinedArray& array, double value, uint64_t sample, Quoting quoting) {
  return value >= 0 && value <= 1
             ? absl::OkStatus()
             : WrongValue(array, "target", value, sample,
                          "is outside [0, 1], which BINARY_CROSS_ENTROPY needs", quoting);
}

absl::Status CheckWeight(const JoinedArray& array, double value, uint64_t sample, Quoting quoting) {
  return std::isfinite(static_cast<float>(value)) && value >= 0
             ? absl::OkStatus()
             : WrongValue(array, "weight", value, sample, "is not a finite number from 0", quoting);
}

absl::Status CheckInteger(const JoinedArray& array, double value, uint64_t sample,
                          Quoting quoting) {
  return std::abs(value) <= kMaxInteger
             ? absl::OkStatus()
             : WrongValue(array, "integer", value, sample,
                          "is beyond 2^24, which float32 cannot hold exactly", quoting);
}

const SourceKind kNpySourceKind = {.source = Dataset::kNpy,
                                   .name = "npy",
                                   .samples = "images",
                                   .labels = "labels",
                                   .takes_layout = true,
                                   .describe = &Describe,
                                   .count_classes = &CountLabels,
                                   .scan = &Scan,
                                   .first_values = &FirstValues,
                                   .visit_paths = &VisitNpy};

const SourceKind kNpzSourceKind = {.source = Dataset::kNpz,
                                   .name = "npz",
                                   .samples = "file",
                                   .labels = "file",
                                   .takes_layout = true,
                                   .describe = &Describe,
                                   .count_classes = &CountLabels,
                                   .scan = &Scan,
                                   .first_values = &FirstValues,
                                   .visit_paths = &VisitNpz};

}  // namespace monsoon
