// What a program says to enter a job, and what the answer tells it of that job.
//
// Pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "worker/client/exchange.h"
#include "worker/client/monsoon.h"
#include "worker/client/result.h"

namespace monsoon {

// Of a table of a model.
struct TableShape {
  uint64_t rows = 0;
  uint32_t columns = 0;
};

// A job that was entered: nothing of it changes while it is there.
struct EnteredJob {
  std::string name;
  uint32_t local_steps = 0;  // 0: gradients are pushed
  size_t values = 0;
  size_t value_bytes = sizeof(float);
  size_t stride = 0;  // of the vectors, in floats
  std::vector<size_t> offsets;
  std::vector<TableShape> tables;
  std::string warnings;  // lines

  // Where tensor i begins; behind the last one the vector's end.
  size_t offset(size_t i) const { return i < offsets.size() ? offsets[i] : values; }
};

// A part of the vectors.
struct FloatRange {
  size_t begin = 0;
  size_t size = 0;
};

// For how long the coordinator is to be looked for.
uint32_t ConnectTimeoutMs(const monsoon_join_options& options);

// kJoin, but for the fields that tell of a sidecar that died.
Result WriteJoin(const monsoon_join_options& options, std::string* fields);

// The answer: kJoined, or kError with the sidecar's reason. `with_memory`: that of the vectors came
// with it, whose values have that format.
Result ReadJoined(const Message& answer, bool with_memory, monsoon_format format, EnteredJob* job);

// What is sent as differences: all tensors with local steps, else the statistics.
std::vector<FloatRange> DifferencesOf(const monsoon_join_options& options, const EnteredJob& job);

}  // namespace monsoon
