// What the readers of data files share: how the samples of a file become those
// of a data set.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/data/data_context.h"
#include "proto/dataset.pb.h"
#include "worker/data/channels_first.h"
#include "worker/data/in_memory_dataset.h"

namespace monsoon {

struct ReadOptions {
  uint64_t limit = 0;  // only the first ones; 0: all
  Normalisation normalisation;
  Dataset::Layout layout = Dataset::MODEL_ORDER;
  Dataset::Residence residence = Dataset::AUTOMATIC;
  DataContext context;
  // In place of what is measured (FreeMemoryBytes).
  std::optional<uint64_t> free_bytes = std::nullopt;

  static ReadOptions Of(const Dataset& dataset, const DataContext& context);
  // Of `all` samples, those that `limit` keeps.
  uint64_t Kept(uint64_t all) const;
};

// InvalidArgument, naming `path`, where samples of `shape` (without the batch dimension)
// are not in the order of the model's input.
absl::Status CheckOrder(const std::string& path, std::span<const uint64_t> shape,
                        const ReadOptions& options);

// Brings samples that passed CheckOrder into the model's order.
template <typename T>
void ToModelOrder(std::span<const uint64_t> shape, const ReadOptions& options,
                  std::span<T> samples) {
  if (options.layout == Dataset::NHWC && !samples.empty()) {
    ToChannelsFirst(shape[0] * shape[1], shape[2], samples);
  }
}

}  // namespace monsoon
