// The power may go at any step of a part's writing: what was good before is good
// after, and what is whole is kept.
//
//   power_cut_test --seeds=0..9999     (default: the first 2000 at each step)
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/checkpoint/checkpoint.h"
#include "common/checkpoint/test_parts.h"
#include "common/storage/simulated_storage.h"
#include "common/testing/seeds.h"
#include "common/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace monsoon {
namespace {

using testing::IsOk;
using testing::MakeTestJob;
using testing::SameFloats;
using testing::TestJob;
using testing::WriteTestPart;

constexpr char kFolder[] = "/s/jobs/tiny-1@7";

testing::Seeds cuts = testing::FirstSeeds(2000);

uint64_t Cuts() { return cuts.end - cuts.first; }

// A disk that says it has synced, and has not.
class LyingStorage : public Storage {
 public:
  enum class Lie { kNone, kFiles, kFolders };

  LyingStorage(Storage* storage, Lie lie) : storage_(storage), lie_(lie) {}

  absl::StatusOr<std::unique_ptr<StorageFile>> Create(const std::string& path) override {
    auto file = storage_->Create(path);
    if (!file.ok() || lie_ != Lie::kFiles) {
      return file;
    }
    return std::make_unique<File>(*std::move(file));
  }
  absl::Status SyncFolder(const std::string& path) override {
    return lie_ == Lie::kFolders ? absl::OkStatus() : storage_->SyncFolder(path);
  }
  absl::StatusOr<std::unique_ptr<StorageReader>> Open(const std::string& path) const override {
    return storage_->Open(path);
  }
  absl::Status Rename(const std::string& from, const std::string& to) override {
    return storage_->Rename(from, to);
  }
  absl::Status Remove(const std::string& path) override { return storage_->Remove(path); }
  absl::Status RemoveFolder(const std::string& path) override {
    return storage_->RemoveFolder(path);
  }
  absl::Status MakeFolder(const std::string& path) override { return storage_->MakeFolder(path); }
  absl::StatusOr<std::vector<std::string>> List(const std::string& path) const override {
    return storage_->List(path);
  }
  absl::StatusOr<uint64_t> FreeBytes(const std::string& path) const override {
    return storage_->FreeBytes(path);
  }

 private:
  class File : public StorageFile {
   public:
    explicit File(std::unique_ptr<StorageFile> file) : file_(std::move(file)) {}
    absl::Status WriteAt(uint64_t offset, std::span<const std::byte> bytes) override {
      return file_->WriteAt(offset, bytes);
    }
    absl::Status Sync() override { return absl::OkStatus(); }

   private:
    const std::unique_ptr<StorageFile> file_;
  };

  Storage* const storage_;
  const Lie lie_;
};

struct Outcome {
  uint64_t old_ones = 0;
  uint64_t new_ones = 0;
  uint64_t lost = 0;  // nothing could be read, or something that is neither
};

class PowerCutTest : public ::testing::Test {
 protected:
  // Generation 4 is there; generation 5 is written until `fail_at`, 0: to its end.
  absl::Status Write(SimulatedStorage* storage, uint64_t fail_at,
                     LyingStorage::Lie lie = LyingStorage::Lie::kNone) {
    EXPECT_OK(WriteTestPart(storage, kFolder, old_job_, 0, 4));
    if (fail_at > 0) {
      storage->FailAfter(fail_at, absl::UnavailableError("the power is off"));
    }
    LyingStorage disk(storage, lie);
    return WriteTestPart(&disk, kFolder, new_job_, 0, 5).status();
  }

  Outcome Cut(const SimulatedStorage& storage) const {
    Outcome outcome;
    for (uint64_t seed = cuts.first; seed < cuts.end; ++seed) {
      const auto after = storage.PowerCut(seed);
      const auto loaded = LoadNewest(after.get(), kFolder, nullptr);
      const auto is = [&](const TestJob& job, uint64_t generation) {
        return loaded.ok() && loaded->content.generation() == generation &&
               SameFloats(loaded->parameters, job.parameters) &&
               SameFloats(loaded->state, job.state);
      };
      outcome.old_ones += is(old_job_, 4) ? 1 : 0;
      outcome.new_ones += is(new_job_, 5) ? 1 : 0;
    }
    outcome.lost = Cuts() - outcome.old_ones - outcome.new_ones;
    return outcome;
  }

  const TestJob old_job_ = MakeTestJob({.shards = 1, .seed = 1});
  const TestJob new_job_ = MakeTestJob({.shards = 1, .seed = 2});
};

TEST_F(PowerCutTest, AtEveryStepOneGenerationIsGood) {
  SimulatedStorage probe;
  ASSERT_OK(WriteTestPart(&probe, kFolder, old_job_, 0, 4));
  const uint64_t before = probe.operations();
  ASSERT_OK(WriteTestPart(&probe, kFolder, new_job_, 0, 5));
  const uint64_t steps = probe.operations() - before;
  uint64_t new_ones = 0;
  for (uint64_t step = 1; step <= steps; ++step) {
    SimulatedStorage storage;
    EXPECT_FALSE(Write(&storage, step).ok()) << step;
    const Outcome outcome = Cut(storage);
    EXPECT_EQ(outcome.lost, 0u) << "step " << step;
    new_ones += outcome.new_ones;
    if (step < steps) {
      EXPECT_EQ(outcome.new_ones, 0u) << "step " << step;
    }
  }
  // Between the last rename and its sync either may come back.
  EXPECT_GT(new_ones, Cuts() / 10);
  EXPECT_LT(new_ones, Cuts() - Cuts() / 10);
  std::printf("  %llu power cuts\n", static_cast<unsigned long long>(steps * Cuts()));
}

TEST_F(PowerCutTest, WhatFinishSaidIsThereIsThere) {
  SimulatedStorage storage;
  ASSERT_OK(Write(&storage, 0));
  EXPECT_EQ(Cut(storage).new_ones, Cuts());
}

TEST_F(PowerCutTest, TheFirstGenerationIsThereToo) {
  SimulatedStorage storage;
  ASSERT_OK(WriteTestPart(&storage, kFolder, old_job_, 0, 4));
  EXPECT_EQ(Cut(storage).old_ones, Cuts());
}

// That the tests above would see a missing sync.
TEST_F(PowerCutTest, ADiskThatLiesIsNoticed) {
  for (const LyingStorage::Lie lie : {LyingStorage::Lie::kFiles, LyingStorage::Lie::kFolders}) {
    SimulatedStorage storage;
    ASSERT_OK(Write(&storage, 0, lie));
    const Outcome outcome = Cut(storage);
    // The new one is missing, and still nothing wrong is taken for it.
    EXPECT_LT(outcome.new_ones, Cuts());
    EXPECT_EQ(outcome.lost, 0u);
  }
}

}  // namespace
}  // namespace monsoon

int main(int argc, char** argv) {
  return monsoon::testing::RunWithSeeds(argc, argv, &monsoon::cuts);
}
