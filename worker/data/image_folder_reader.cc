#include "worker/data/image_folder_reader.h"

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/base/logging.h"
#include "common/base/status.h"
#include "common/data/image_folder_source.h"
#include "worker/data/in_memory_dataset.h"

namespace monsoon {
namespace {

constexpr absl::Duration kProgress = absl::Seconds(10);

}  // namespace

absl::StatusOr<std::unique_ptr<DataSource>> ReadImageFolder(const Dataset& dataset,
                                                            const ReadOptions& options) {
  const std::string& path = dataset.image_folder().path();
  ASSIGN_OR_RETURN(const std::vector<uint32_t> shape, ImageShape(options.context.input_shape));
  ASSIGN_OR_RETURN(ImageFolder folder, ListImages(dataset, options.context));
  const size_t values = options.context.input_values();
  std::vector<uint8_t> pixels(folder.files.size() * values);
  absl::Time told = absl::Now();
  for (size_t i = 0; i < folder.files.size(); ++i) {
    RETURN_IF_ERROR(ReadImage(folder.files[i], options.context.access.roots, shape,
                              std::span(pixels).subspan(i * values, values)));
    if (absl::Now() - told >= kProgress) {
      told = absl::Now();
      LOG(INFO) << path << ": " << i + 1 << " of " << folder.files.size() << " images are decoded";
    }
  }
  return std::unique_ptr<DataSource>(
      new InMemoryDataset(std::move(pixels), {}, std::move(folder.labels), options.normalisation));
}

}  // namespace monsoon
