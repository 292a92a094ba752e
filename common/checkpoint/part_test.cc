// A part that is written, and read again.
#include <algorithm>
#include <bit>
#include <cstdlib>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/checkpoint/checkpoint.h"
#include "common/checkpoint/test_parts.h"
#include "common/safetensors/safetensors_file.h"
#include "common/storage/file_path.h"
#include "common/storage/simulated_storage.h"
#include "common/testing/status_matchers.h"
#include "common/testing/unique_name.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/downpour.pb.h"

namespace monsoon {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::IsOk;
using testing::MakeTestJob;
using testing::SameFloats;
using testing::StatusIs;
using testing::TestContent;
using testing::TestJob;
using testing::TestRowStripe;
using testing::TestRowStripes;
using testing::TestStripe;
using testing::WriteTestPart;

constexpr char kFolder[] = "/state/jobs/tiny-1@7";
constexpr char kManifest[] = "/state/jobs/tiny-1@7/ps-0-of-2.g5.e1.manifest";
constexpr char kFile[] = "/state/jobs/tiny-1@7/ps-0-of-2.g5.e1.safetensors";

absl::Status Owner() { return absl::OkStatus(); }

std::vector<float> OfSlice(const std::vector<float>& floats, Slice slice) {
  return {floats.begin() + static_cast<ptrdiff_t>(slice.begin),
          floats.begin() + static_cast<ptrdiff_t>(slice.end)};
}

// Writes every shard's part and reads it back.
void RoundTrip(const TestJob& job) {
  SimulatedStorage storage;
  for (uint32_t shard = 0; shard < job.map.shards(); ++shard) {
    ASSERT_OK_AND_ASSIGN(const CheckpointManifest manifest,
                         WriteTestPart(&storage, kFolder, job, shard, 5));
    const std::string path =
        InFolder(kFolder, absl::StrCat("ps-", shard, "-of-", job.map.shards(), ".g5.e1.manifest"));
    ASSERT_OK_AND_ASSIGN(const std::unique_ptr<PartReader> part, PartReader::Open(&storage, path));
    EXPECT_EQ(part->manifest().SerializeAsString(), manifest.SerializeAsString());
    EXPECT_EQ(part->layout().Hash(), job.layout.Hash());
    const Slice slice = job.map.shard(shard);
    EXPECT_EQ(part->slice().begin, slice.begin);
    EXPECT_EQ(part->slice().end, slice.end);
    ASSERT_OK(part->Verify());
    // Padding becomes zero, whatever was there.
    std::vector<float> parameters(slice.size(), 3.0f);
    std::vector<float> state(job.state_slots * slice.size(), 3.0f);
    ASSERT_OK(part->ReadAll(parameters, state));
    EXPECT_TRUE(SameFloats(parameters, OfSlice(job.parameters, slice)));
    if (job.state_slots > 0) {
      std::vector<float> expected;
      for (uint32_t slot = 0; slot < job.state_slots; ++slot) {
        const uint64_t begin = slot * job.layout.size();
        const std::vector<float> part =
            OfSlice(job.state, {begin + slice.begin, begin + slice.end});
        expected.insert(expected.end(), part.begin(), part.end());
      }
      EXPECT_TRUE(SameFloats(state, expected));
      std::vector<float> alone(slice.size(), 3.0f);
      ASSERT_OK(part->ReadAll(alone, {}));
      EXPECT_TRUE(SameFloats(alone, parameters));
    }
    for (size_t i = 0; i < job.vectors.size(); ++i) {
      // To memory in several pieces.
      std::vector<float> vector(slice.size(), 3.0f);
      ASSERT_OK(part->ReadVector(i, [&](uint64_t at) {
        return std::span(vector).subspan(at, std::min<uint64_t>(13, vector.size() - at));
      }));
      EXPECT_TRUE(SameFloats(vector, OfSlice(job.vectors[i], slice)));
    }
    const std::vector<TestRowStripe> rows = TestRowStripes(job, shard);
    std::vector<std::vector<float>> read(rows.size());
    ASSERT_OK(part->ReadRows([&](const RowStripeRecord& stripe) {
      const auto place =
          std::ranges::find(rows, stripe.table(),
                            [](const TestRowStripe& row) { return row.record.table(); }) -
          rows.begin();
      read[place].resize(rows[place].floats.size());
      return std::span(read[place]);
    }));
    for (size_t i = 0; i < rows.size(); ++i) {
      EXPECT_TRUE(SameFloats(read[i], rows[i].floats)) << i;
    }
    ShardCheckpoint expected = TestContent(job, shard, 5);
    for (const TestRowStripe& row : rows) {
      *expected.add_row_stripe() = row.record;
    }
    for (uint32_t stripe = 0; stripe < job.map.stripes(shard); ++stripe) {
      *expected.add_stripe() = TestStripe(job, shard, stripe);
    }
    EXPECT_EQ(part->content().SerializeAsString(), expected.SerializeAsString());
  }
}

TEST(PartTest, RoundTripsOverModelsShardsAndStripes) {
  for (const char* const model :
       {testing::kTinyModel, testing::kConvModel, testing::kOneTensorModel}) {
    for (const uint32_t shards : {1u, 2u, 3u}) {
      for (const uint64_t stripe_bytes : {64u, 192u, 1024u, 1u << 20}) {
        for (const uint32_t slots : {0u, 1u}) {
          if (model == testing::kOneTensorModel && shards > 1) {
            continue;  // of one line
          }
          for (const uint32_t vectors : {0u, 1u, 3u}) {
            SCOPED_TRACE(absl::StrCat(shards, " shards, stripes of ", stripe_bytes, ", ", slots,
                                      " slots, ", vectors, " vectors, ", model));
            RoundTrip(MakeTestJob({.model = model,
                                   .shards = shards,
                                   .max_stripe_bytes = stripe_bytes,
                                   .state_slots = slots,
                                   .vectors = vectors}));
          }
        }
      }
    }
  }
}

TEST(PartTest, RoundTripsWithTables) {
  for (const uint32_t shards : {1u, 2u, 3u}) {
    for (const uint32_t vectors : {0u, 2u}) {
      const TestJob job =
          MakeTestJob({.model = testing::kTablesModel, .shards = shards, .vectors = vectors});
      EXPECT_EQ(TestRowStripes(job, shards - 1).size(), 3u);
      RoundTrip(job);
    }
  }
  SimulatedStorage storage;
  ASSERT_OK(WriteTestPart(&storage, kFolder, MakeTestJob({.model = testing::kTablesModel}), 0, 5));
  std::vector<std::string> names;
  const auto file = SafetensorsReader::Open(&storage, kFile);
  for (const auto& tensor : file->tensors()) {
    if (tensor.type == "F32") {
      names.push_back(absl::StrCat(tensor.name, " ", tensor.bytes));
    }
  }
  EXPECT_THAT(names, ElementsAre("w[0:16) 64", "optimizer:w[0:16) 64", "table:words 64",
                                 "table:never 0", "table:users 16", "table:items 36"));
}

TEST(PartTest, EachSlotOfTheStateHasTensorsOfItsOwn) {
  SimulatedStorage storage;
  const TestJob job = MakeTestJob({.state_slots = 2});
  RoundTrip(job);
  ASSERT_OK(WriteTestPart(&storage, kFolder, job, 0, 5));
  std::vector<std::string> names;
  const auto file = SafetensorsReader::Open(&storage, kFile);
  for (const auto& tensor : file->tensors()) {
    names.push_back(tensor.name);
  }
  EXPECT_THAT(
      names, ElementsAre("a/weight[0:15)", "optimizer:a/weight[0:15)", "optimizer.1:a/weight[0:15)",
                         "monsoon/shard", "monsoon/checksums"));
}

// 32 bits each that are no floats: also those of a signaling NaN, which arithmetic would alter.
TEST(PartTest, TheSumOfARoundFollowsTheOptimizersStateToTheBit) {
  for (const uint32_t slots : {0u, 1u, 3u}) {
    for (const uint32_t vectors : {0u, 2u}) {
      TestJob job = MakeTestJob({.state_slots = slots, .rounds = true, .vectors = vectors});
      ASSERT_EQ(job.state.size(), (slots + 2) * job.layout.size());
      const std::span<float> low = std::span(job.state).subspan(slots * job.layout.size());
      low[0] = std::bit_cast<float>(0x7f800001u);
      low[1] = std::bit_cast<float>(0xffffffffu);
      low[2] = std::bit_cast<float>(0x00000001u);
      low[job.layout.size()] = std::bit_cast<float>(0xffbfffffu);
      low[job.layout.size() + 1] = std::bit_cast<float>(0x80000000u);
      RoundTrip(job);
    }
  }
  SimulatedStorage storage;
  ASSERT_OK(
      WriteTestPart(&storage, kFolder, MakeTestJob({.state_slots = 2, .rounds = true}), 0, 5));
  std::vector<std::string> names;
  const auto file = SafetensorsReader::Open(&storage, kFile);
  for (const auto& tensor : file->tensors()) {
    names.push_back(tensor.name);
  }
  EXPECT_THAT(
      names, ElementsAre("a/weight[0:15)", "optimizer:a/weight[0:15)", "optimizer.1:a/weight[0:15)",
                         "round.low:a/weight[0:15)", "round.high:a/weight[0:15)", "monsoon/shard",
                         "monsoon/checksums"));
}

TEST(PartTest, ThePublicCopyIsTheLastOfTheState) {
  for (const bool rounds : {false, true}) {
    for (const uint32_t slots : {0u, 3u}) {
      RoundTrip(
          MakeTestJob({.state_slots = slots, .rounds = rounds, .changes = true, .vectors = slots}));
    }
  }
  SimulatedStorage storage;
  ASSERT_OK(WriteTestPart(&storage, kFolder, MakeTestJob({.rounds = true, .changes = true}), 0, 5));
  std::vector<std::string> names;
  const auto file = SafetensorsReader::Open(&storage, kFile);
  for (const auto& tensor : file->tensors()) {
    names.push_back(tensor.name);
  }
  EXPECT_THAT(names, ElementsAre("a/weight[0:15)", "optimizer:a/weight[0:15)",
                                 "round.low:a/weight[0:15)", "round.high:a/weight[0:15)",
                                 "public:a/weight[0:15)", "monsoon/shard", "monsoon/checksums"));
}

TEST(PartTest, PiecesCarryTheNamesOfTheirTensors) {
  SimulatedStorage storage;
  const TestJob job = MakeTestJob({});
  // Three lines: a/weight of 15 floats, a/bias of 3, b/weight of 15.
  ASSERT_EQ(job.layout.size(), 48u);
  ASSERT_OK(WriteTestPart(&storage, kFolder, job, 0, 5));
  ASSERT_OK(WriteTestPart(&storage, kFolder, job, 1, 5));
  const auto names = [&](const std::string& path) {
    std::vector<std::string> names;
    const auto file = SafetensorsReader::Open(&storage, path);
    for (const auto& tensor : file->tensors()) {
      names.push_back(tensor.name);
    }
    return names;
  };
  EXPECT_THAT(names(kFile), ElementsAre("a/weight[0:15)", "optimizer:a/weight[0:15)",
                                        "monsoon/shard", "monsoon/checksums"));
  EXPECT_THAT(names("/state/jobs/tiny-1@7/ps-1-of-2.g5.e1.safetensors"),
              ElementsAre("a/bias[0:3)", "b/weight[0:15)", "optimizer:a/bias[0:3)",
                          "optimizer:b/weight[0:15)", "monsoon/shard", "monsoon/checksums"));
  EXPECT_THAT(
      SafetensorsReader::Open(&storage, kFile)->metadata(),
      ElementsAre(::testing::Pair("format", "monsoon-checkpoint"),
                  ::testing::Pair("format_version", "1"), ::testing::Pair("generation", "5"),
                  ::testing::Pair("job", "tiny-1"), ::testing::Pair("shard", "0"),
                  ::testing::Pair("shard_epoch", "1"), ::testing::Pair("shards", "2")));
}

TEST(PartTest, VectorsFollowTheOptimizersState) {
  SimulatedStorage storage;
  ASSERT_OK(WriteTestPart(&storage, kFolder, MakeTestJob({.vectors = 2}), 1, 5));
  std::vector<std::string> names;
  const auto file =
      SafetensorsReader::Open(&storage, "/state/jobs/tiny-1@7/ps-1-of-2.g5.e1.safetensors");
  for (const auto& tensor : file->tensors()) {
    names.push_back(tensor.name);
  }
  EXPECT_THAT(names,
              ElementsAre("a/bias[0:3)", "b/weight[0:15)", "optimizer:a/bias[0:3)",
                          "optimizer:b/weight[0:15)", "vector:v:0:a/bias[0:3)",
                          "vector:v:0:b/weight[0:15)", "vector:v:1:a/bias[0:3)",
                          "vector:v:1:b/weight[0:15)", "monsoon/shard", "monsoon/checksums"));
}

TEST(PartTest, ATensorIsCutBetweenShards) {
  SimulatedStorage storage;
  const TestJob job =
      MakeTestJob({.model = testing::kConvModel, .shards = 3, .max_stripe_bytes = 64});
  for (uint32_t shard = 0; shard < 3; ++shard) {
    ASSERT_OK(WriteTestPart(&storage, kFolder, job, shard, 5));
  }
  // Each float of each tensor is in one piece.
  std::vector<std::string> names;
  uint64_t floats = 0;
  for (uint32_t shard = 0; shard < 3; ++shard) {
    const auto file = SafetensorsReader::Open(
        &storage, absl::StrCat(kFolder, "/ps-", shard, "-of-3.g5.e1.safetensors"));
    for (const auto& tensor : file->tensors()) {
      if (tensor.type == "F32" && tensor.name.rfind("optimizer:", 0) != 0) {
        names.push_back(tensor.name);
        floats += tensor.bytes / 4;
      }
    }
  }
  EXPECT_EQ(floats, job.layout.parameters());
  EXPECT_GT(names.size(), job.layout.tensors().size());
  EXPECT_THAT(names, ::testing::Contains(HasSubstr("dense1/weight[0:")));
}

TEST(PartTest, EqualPartsHaveEqualBytes) {
  const TestJob job = MakeTestJob({});
  SimulatedStorage first, second;
  ASSERT_OK(WriteTestPart(&first, kFolder, job, 0, 5));
  ASSERT_OK(WriteTestPart(&second, kFolder, job, 0, 5));
  EXPECT_EQ(*first.ReadAll(kFile, 1 << 20), *second.ReadAll(kFile, 1 << 20));
}

TEST(PartTest, WhatBecomesKnownLateIsStored) {
  SimulatedStorage storage;
  const TestJob job = MakeTestJob({});
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<PartWriter> writer,
                       PartWriter::Create(&storage, kFolder, job.layout, TestContent(job, 0, 5)));
  ASSERT_OK(testing::AddAllStripes(job, 0, writer.get()));
  writer->content()->set_applied(77777);
  for (uint32_t worker = 4; worker < 1000; ++worker) {
    writer->content()->add_closed()->set_worker(worker);
  }
  ASSERT_OK(writer->Finish(Owner));
  ASSERT_OK_AND_ASSIGN(const auto part, PartReader::Open(&storage, kManifest));
  EXPECT_EQ(part->content().applied(), 77777u);
  EXPECT_EQ(part->content().closed_size(), 997);
}

TEST(PartTest, TheTermOfACallIsNotStored) {
  SimulatedStorage storage;
  const TestJob job = MakeTestJob({});
  ShardCheckpoint content = TestContent(job, 0, 5);
  content.mutable_create()->set_term(99);
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<PartWriter> writer,
                       PartWriter::Create(&storage, kFolder, job.layout, content));
  ASSERT_OK(testing::AddAllStripes(job, 0, writer.get()));
  ASSERT_OK(writer->Finish(Owner));
  EXPECT_EQ((*PartReader::Open(&storage, kManifest))->content().create().term(), 0u);
}

TEST(PartTest, OnlyThePartIsLeft) {
  SimulatedStorage storage;
  const TestJob job = MakeTestJob({});
  ASSERT_OK(WriteTestPart(&storage, kFolder, job, 0, 5));
  EXPECT_THAT(*storage.List(kFolder),
              ElementsAre("ps-0-of-2.g5.e1.manifest", "ps-0-of-2.g5.e1.safetensors"));
}

TEST(PartTest, APartThatIsGivenUpLeavesNothing) {
  SimulatedStorage storage;
  const TestJob job = MakeTestJob({});
  {
    auto writer = PartWriter::Create(&storage, kFolder, job.layout, TestContent(job, 0, 5));
    ASSERT_OK(writer);
    ASSERT_OK(testing::AddAllStripes(job, 0, writer->get()));
    EXPECT_THAT(*storage.List(kFolder), ElementsAre(".tmp-ps-0-of-2.g5.e1.safetensors"));
  }
  EXPECT_THAT(*storage.List(kFolder), IsEmpty());
}

TEST(PartTest, WhoIsNoOwnerAnyMorePublishesNothing) {
  const TestJob job = MakeTestJob({});
  for (const int refused : {1, 2}) {
    SimulatedStorage storage;
    int asked = 0;
    const auto still_owner = [&]() -> absl::Status {
      return ++asked < refused ? absl::OkStatus() : absl::AbortedError("epoch 2 owns it");
    };
    EXPECT_THAT(WriteTestPart(&storage, kFolder, job, 0, 5, 1, still_owner).status(),
                StatusIs(absl::StatusCode::kAborted, HasSubstr("epoch 2")));
    EXPECT_EQ(asked, refused);
    EXPECT_THAT(*storage.List(kFolder), IsEmpty());
  }
}

TEST(PartTest, AGoodPartIsNotWrittenAgain) {
  SimulatedStorage storage;
  const TestJob job = MakeTestJob({});
  ASSERT_OK(WriteTestPart(&storage, kFolder, job, 0, 5));
  const std::string before = *storage.ReadAll(kFile, 1 << 20);
  EXPECT_THAT(WriteTestPart(&storage, kFolder, MakeTestJob({.seed = 2}), 0, 5).status(),
              StatusIs(absl::StatusCode::kAlreadyExists, HasSubstr(kManifest)));
  EXPECT_EQ(*storage.ReadAll(kFile, 1 << 20), before);
  // What is left of a failed one gives way.
  storage.CorruptByte(kManifest, 30, 0);
  EXPECT_OK(WriteTestPart(&storage, kFolder, MakeTestJob({.seed = 2}), 0, 5));
  EXPECT_NE(*storage.ReadAll(kFile, 1 << 20), before);
}

TEST(PartTest, ADiskErrorEndsItAtEveryStepAndItCanBeTriedAgain) {
  const TestJob job = MakeTestJob({});
  SimulatedStorage probe;
  ASSERT_OK(WriteTestPart(&probe, kFolder, job, 0, 5));
  for (uint64_t step = 1; step <= probe.operations(); ++step) {
    SimulatedStorage storage;
    storage.FailAfter(step, absl::ResourceExhaustedError("No space left on device"));
    EXPECT_THAT(WriteTestPart(&storage, kFolder, job, 0, 5).status(),
                StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("No space left")))
        << step;
    storage.ClearFailure();
    const absl::Status again = WriteTestPart(&storage, kFolder, job, 0, 5).status();
    // All of it may be there, if it was the last sync that failed and the disk did
    // not take the removal either.
    EXPECT_TRUE(again.ok() || (step == probe.operations() && absl::IsAlreadyExists(again)))
        << step << " " << again;
    ASSERT_OK_AND_ASSIGN(const auto part, PartReader::Open(&storage, kManifest));
    EXPECT_OK(part->Verify());
  }
}

TEST(PartTest, AFullDiskIsToldAndNothingStays) {
  const TestJob job = MakeTestJob({});
  SimulatedStorage storage;
  storage.SetCapacity(500);
  EXPECT_THAT(WriteTestPart(&storage, kFolder, job, 0, 5).status(),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr(".tmp-ps-0-of-2.g5.e1")));
  EXPECT_THAT(*storage.List(kFolder), IsEmpty());
}

TEST(PartTest, ADescriptionThatCannotBeIsRefused) {
  SimulatedStorage storage;
  const TestJob job = MakeTestJob({});
  ShardCheckpoint content = TestContent(job, 0, 5);
  content.set_state_slots(4);
  EXPECT_THAT(PartWriter::Create(&storage, kFolder, job.layout, content).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("tiny-1")));
  // With rounds 2 to 5: their sum, and at most three of the optimizer.
  content.mutable_create()->mutable_rounds();
  for (const uint32_t slots : {0u, 1u, 6u}) {
    content.set_state_slots(slots);
    EXPECT_THAT(PartWriter::Create(&storage, kFolder, job.layout, content).status(),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("for each parameter")))
        << slots;
  }
  // With the public copy 3 to 6.
  content.mutable_create()->set_fetch_changes(INT4);
  for (const uint32_t slots : {2u, 7u}) {
    content.set_state_slots(slots);
    EXPECT_THAT(PartWriter::Create(&storage, kFolder, job.layout, content).status(),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("for each parameter")))
        << slots;
  }
  content = TestContent(job, 2, 5);
  EXPECT_FALSE(PartWriter::Create(&storage, kFolder, job.layout, content).ok());
  content = TestContent(job, 0, 5);
  content.mutable_context()->add_vector("two words");
  EXPECT_THAT(PartWriter::Create(&storage, kFolder, job.layout, content).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("two words")));
}

TEST(PartTest, TheSystemsFiles) {
  const char* const given = std::getenv("TEST_TMPDIR");
  const std::string state = InFolder(given != nullptr ? given : "/tmp", testing::UniqueName());
  const TestJob job = MakeTestJob({.model = testing::kConvModel, .shards = 1});
  const std::string folder = JobFolder(state, "tiny-1", 7);
  ASSERT_OK(WriteTestPart(PosixStorage(), folder, job, 0, 5));
  ASSERT_OK_AND_ASSIGN(const auto part,
                       PartReader::Open(PosixStorage(), folder + "/ps-0-of-1.g5.e1.manifest"));
  std::vector<float> parameters(job.layout.size());
  std::vector<float> state_floats(job.layout.size());
  ASSERT_OK(part->ReadAll(parameters, state_floats));
  EXPECT_TRUE(SameFloats(parameters, job.parameters));
  EXPECT_TRUE(SameFloats(state_floats, job.state));
}

}  // namespace
}  // namespace monsoon
