// A job with random floats and its parts, for tests of checkpoints.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/checkpoint/checkpoint.h"
#include "common/model/parameter_layout.h"
#include "common/model/shard_map.h"
#include "common/storage/storage.h"
#include "proto/shard_checkpoint.pb.h"

namespace monsoon::testing {

// Protobuf text: 3 tensors with 33 floats; 6 with 1,263; one of 5; one of 40 beside four tables,
// of which each shard of up to three has a stripe.
extern const char kTinyModel[];
extern const char kConvModel[];
extern const char kOneTensorModel[];
extern const char kTablesModel[];

struct TestJobOptions {
  const char* model = kTinyModel;
  uint32_t shards = 2;
  uint64_t max_stripe_bytes = 64;
  uint32_t state_slots = 1;
  bool rounds = false;   // then two slots more, and members of the open round in each stripe
  bool changes = false;  // then one slot more, and the version of the public copy
  uint32_t vectors = 0;
  // Of the floats; the job is the same.
  uint64_t seed = 1;
};

struct TestJob {
  CreateShardJobRequest create;  // of shard 0
  ParameterLayout layout;
  ShardMap map;
  uint32_t state_slots = 0;
  // Any bits, NaN among them; padding zero.
  std::vector<float> parameters;
  std::vector<float> state;
  // With them stripes have maxima.
  std::vector<std::string> vector_names;
  std::vector<std::vector<float>> vectors;
  uint64_t seed = 1;  // of these
};

TestJob MakeTestJob(const TestJobOptions& options);

// Everything but stripes, with something in every field.
ShardCheckpoint TestContent(const TestJob& job, uint32_t shard, uint64_t generation,
                            uint64_t epoch = 1);
// What the stripe holds beside floats.
StripeRecord TestStripe(const TestJob& job, uint32_t shard, uint32_t stripe);
// Of tables: all stripes but those of the second one, which nobody has touched. Any bits.
struct TestRowStripe {
  RowStripeRecord record;
  std::vector<float> floats;
};
std::vector<TestRowStripe> TestRowStripes(const TestJob& job, uint32_t shard);
// Those of rows too.
absl::Status AddAllStripes(const TestJob& job, uint32_t shard, PartWriter* writer);

absl::StatusOr<CheckpointManifest> WriteTestPart(
    Storage* storage, const std::string& folder, const TestJob& job, uint32_t shard,
    uint64_t generation, uint64_t epoch = 1,
    const std::function<absl::Status()>& still_owner = [] { return absl::OkStatus(); });
absl::Status WriteTestGeneration(Storage* storage, const std::string& folder, const TestJob& job,
                                 uint64_t generation);

// To the bit.
bool SameFloats(const std::vector<float>& a, const std::vector<float>& b);

}  // namespace monsoon::testing
