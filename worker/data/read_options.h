// What the readers of data files share: how the samples of a file become those
// of a data set.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "proto/dataset.pb.h"
#include "worker/data/channels_first.h"
#include "worker/data/in_memory_dataset.h"

namespace monsoon {

struct ReadOptions {
  uint64_t limit = 0;  // only the first ones; 0: all
  Normalisation normalisation;
  Dataset::Layout layout = Dataset::MODEL_ORDER;
  std::vector<uint32_t> input_shape;  // the model's
};

// InvalidArgument, naming `path`, where samples of a file of `shape` ([n, ...])
// are not in the order of the model's input.
absl::Status CheckOrder(const std::string& path, const std::vector<uint64_t>& shape,
                        const ReadOptions& options);

// Brings samples of a file that passed CheckOrder into the model's order.
template <typename T>
void ToModelOrder(const std::vector<uint64_t>& shape, const ReadOptions& options,
                  std::vector<T>* samples) {
  if (options.layout == Dataset::NHWC) {
    ToChannelsFirst(shape[1] * shape[2], shape[3], samples);
  }
}

}  // namespace monsoon
