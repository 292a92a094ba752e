// A file as the samples and labels of each source of arrays and bytes: it is refused, or described
// and scanned to an end.
#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "common/base/check.h"
#include "common/data/dataset_info.h"
#include "common/data/scan_values.h"
#include "common/testing/fuzz/fuzz_file.h"

namespace {

void TryOne(const monsoon::Dataset& dataset, size_t size) {
  const monsoon::DataContext context = {.input_shape = {3}};
  const auto info = monsoon::DescribeDataset(dataset, context);
  if (!info.ok()) {
    return;
  }
  CHECK_GE(info->examples, 1u);
  CHECK_GE(info->sample_elements(), 1u);
  // An archive may be deflated, and bytes of gzip files too: by a factor of 1032 at most.
  CHECK_LE(info->bytes, size * 1100);
  const auto classes = monsoon::CountClasses(dataset, context);
  const absl::Status scanned = monsoon::ScanValues(dataset, context, *info);
  if (classes.ok() && info->targets == 0) {
    CHECK_GE(*classes, 1u);
  }
  if (dataset.has_cifar10()) {
    CHECK_EQ(classes.ok(), scanned.ok());
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static auto* const file = new monsoon::FuzzFile;
  const std::string path = file->Write(data, size);
  monsoon::Dataset dataset;
  dataset.mutable_npy()->set_images(path);
  dataset.mutable_npy()->set_labels(path);
  TryOne(dataset, size);
  dataset.mutable_npz()->set_file(path);
  TryOne(dataset, size);
  dataset.mutable_cifar10()->set_file(path);
  TryOne(dataset, size);
  dataset.mutable_text()->set_file(path);
  dataset.mutable_text()->set_stride(2);
  dataset.mutable_text()->set_begin(0.1);
  TryOne(dataset, size);
  return 0;
}
