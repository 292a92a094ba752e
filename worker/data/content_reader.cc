#include "worker/data/content_reader.h"

#include <algorithm>
#include <utility>

#include "absl/functional/function_ref.h"
#include "common/base/status.h"
#include "common/data/cifar10_records.h"
#include "common/data/content_files.h"
#include "common/data/text_plan.h"
#include "worker/data/file_bytes.h"
#include "worker/data/record_dataset.h"
#include "worker/data/residence.h"

namespace monsoon {
namespace {

using Look = absl::FunctionRef<absl::Status(std::span<const uint8_t>)>;

std::string WhyNotOnDisk(std::span<const ContentFile> files) {
  for (const ContentFile& file : files) {
    if (file.compressed) {
      return file.path + " is compressed; gunzip it";
    }
  }
  return "";
}

// The bytes [begin, end) of files, where they lie.
absl::StatusOr<std::unique_ptr<ByteStore>> OpenFiles(std::span<const ContentFile> files,
                                                     const DataRoots& roots, uint64_t begin,
                                                     uint64_t end) {
  std::vector<FileBytes::Part> parts;
  uint64_t at = 0;
  for (const ContentFile& file : files) {
    const uint64_t from = std::clamp(begin, at, at + file.bytes);
    const uint64_t to = std::clamp(end, at, at + file.bytes);
    if (from < to) {
      parts.push_back({.path = file.path, .offset = from - at, .bytes = to - from});
    }
    at += file.bytes;
  }
  ASSIGN_OR_RETURN(FileBytes bytes, FileBytes::Open(std::move(parts), roots));
  return std::unique_ptr<ByteStore>(new FileBytes(std::move(bytes)));
}

// A data set of the content [begin, end), of which `parts` says what its records are; `look` sees
// all of it.
absl::StatusOr<std::unique_ptr<DataSource>> Open(const std::string& name,
                                                 std::span<const ContentFile> files, uint64_t begin,
                                                 uint64_t end, const ReadOptions& options,
                                                 RecordDataset::Parts parts, Look look) {
  ASSIGN_OR_RETURN(const bool kept, IsKept(options.residence, end - begin,
                                           options.free_bytes.value_or(FreeMemoryBytes()), name,
                                           WhyNotOnDisk(files)));
  const DataRoots& roots = options.context.access.roots;
  std::vector<uint8_t> content;
  if (kept) {
    content.reserve(end - begin);
  }
  ContentHash hash;
  RETURN_IF_ERROR(StreamContent(files, roots, begin, end, [&](std::span<const uint8_t> bytes) {
    RETURN_IF_ERROR(look(bytes));
    hash.Append(bytes);
    if (kept) {
      content.insert(content.end(), bytes.begin(), bytes.end());
    }
    return absl::OkStatus();
  }));
  if (kept) {
    parts.records = std::make_unique<MemoryBytes>(std::move(content));
  } else {
    ASSIGN_OR_RETURN(parts.records, OpenFiles(files, roots, begin, end));
  }
  // Labels lie within the records.
  parts.answers.labels_per_example = 0;
  const RecordFormat& format = parts.format;
  Fingerprinter fingerprint;
  fingerprint.Add("records");
  for (const uint64_t number :
       {parts.examples, format.stride, format.values_at, uint64_t{format.values}, format.labels_at,
        uint64_t{format.labels}, uint64_t{parts.normalisation.raw}}) {
    fingerprint.Add(number);
  }
  fingerprint.Add(parts.normalisation.mean);
  fingerprint.Add(parts.normalisation.scale);
  fingerprint.Add(hash);
  parts.fingerprint = fingerprint.value();
  return std::unique_ptr<DataSource>(new RecordDataset(std::move(parts)));
}

}  // namespace

absl::StatusOr<std::unique_ptr<DataSource>> ReadCifar10(const Dataset& dataset,
                                                        const ReadOptions& options) {
  const std::string& name = dataset.cifar10().file();
  ASSIGN_OR_RETURN(const std::vector<ContentFile> files,
                   OpenCifar10(dataset.cifar10(), options.context.access.roots));
  constexpr uint64_t kShape[] = {3, 32, 32};
  RETURN_IF_ERROR(CheckOrder(name, kShape, options));
  RecordDataset::Parts parts;
  parts.examples = options.Kept(ContentBytes(files) / kCifar10RecordBytes);
  parts.normalisation = options.normalisation;
  parts.format = {.stride = kCifar10RecordBytes,
                  .values_at = 1,
                  .values = kCifar10Values,
                  .labels_at = 0,
                  .labels = 1};
  Cifar10Labels labels(files, options.context.access.quoting);
  const uint64_t bytes = parts.examples * kCifar10RecordBytes;
  return Open(name, files, 0, bytes, options, std::move(parts),
              [&](std::span<const uint8_t> piece) { return labels.Look(piece); });
}

absl::StatusOr<std::unique_ptr<DataSource>> ReadText(const Dataset& dataset,
                                                     const ReadOptions& options) {
  const std::string& name = dataset.text().file();
  ASSIGN_OR_RETURN(const TextPlan plan, PlanText(dataset.text(), options.context));
  const uint64_t shape[] = {plan.window};
  RETURN_IF_ERROR(CheckOrder(name, shape, options));
  RecordDataset::Parts parts;
  parts.examples = options.Kept(plan.samples);
  parts.normalisation = options.normalisation;
  parts.normalisation.raw = true;  // ids
  // Without labels a sample's own bytes stand for them.
  parts.format = {.stride = plan.stride,
                  .values_at = 0,
                  .values = plan.window,
                  .labels_at = plan.sample_bytes - plan.window,
                  .labels = plan.window};
  const uint64_t end = plan.begin + (parts.examples - 1) * plan.stride + plan.sample_bytes;
  return Open(name, plan.files, plan.begin, end, options, std::move(parts),
              [](std::span<const uint8_t>) { return absl::OkStatus(); });
}

}  // namespace monsoon
