// Nothing that is damaged, cut, mixed up or forged is accepted.
#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/xxh3.h"
#include "common/checkpoint/checkpoint.h"
#include "common/checkpoint/manifest.h"
#include "common/checkpoint/test_parts.h"
#include "common/model/table_info.h"
#include "common/safetensors/safetensors_file.h"
#include "common/storage/simulated_storage.h"
#include "common/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace monsoon {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::IsOk;
using testing::MakeTestJob;
using testing::StatusIs;
using testing::TestJob;
using testing::WriteTestPart;

constexpr char kFolder[] = "/f";
constexpr char kManifest[] = "/f/ps-1-of-2.g5.e1.manifest";
constexpr char kFile[] = "/f/ps-1-of-2.g5.e1.safetensors";
constexpr uint64_t kAny = 1 << 20;

// What a reader that wants all says to the part.
absl::Status Read(const Storage& storage, const std::string& manifest = kManifest) {
  auto part = PartReader::Open(&storage, manifest);
  if (!part.ok()) {
    return part.status();
  }
  const absl::Status verified = (*part)->Verify();
  std::vector<float> parameters((*part)->slice().size());
  std::vector<float> state((*part)->slice().size() * (*part)->content().state_slots());
  absl::Status read = (*part)->ReadAll(parameters, state);
  for (int i = 0; read.ok() && i < (*part)->content().context().vector_size(); ++i) {
    read = (*part)->ReadVector(static_cast<size_t>(i),
                               [&](uint64_t at) { return std::span(parameters).subspan(at); });
  }
  if (read.ok()) {
    const CreateShardJobRequest& create = (*part)->content().create();
    const auto maps = TableMaps((*part)->layout().tables(), create.shards());
    std::vector<float> floats;
    read = (*part)->ReadRows([&](const RowStripeRecord& stripe) {
      // Each table has one stripe here.
      const TableMap& map = (*maps)[stripe.table()];
      floats.resize(map.rows_of(create.shard()) * (map.columns() + size_t{1}));
      return std::span(floats);
    });
  }
  // Floats that are read are checked too. Verify sees as much, and the record again.
  EXPECT_TRUE(verified.ok() == read.ok()) << verified << " " << read;
  return verified;
}

class DamageTest : public ::testing::Test {
 protected:
  DamageTest() { Write(0); }

  // A part with so many vectors.
  void Write(uint32_t vectors) { Write(MakeTestJob({.vectors = vectors})); }
  void Write(const TestJob& job) {
    storage_.Remove(kManifest).IgnoreError();
    EXPECT_OK(WriteTestPart(&storage_, kFolder, job, 1, 5));
  }

  void TurnEveryBit();
  void CutEverywhere();

  uint64_t Bytes(const std::string& path) const { return (*storage_.Open(path))->bytes(); }

  SimulatedStorage storage_;
};

void DamageTest::TurnEveryBit() {
  ASSERT_OK(Read(storage_));
  for (const char* const path : {kFile, kManifest}) {
    const uint64_t bytes = Bytes(path);
    for (uint64_t offset = 0; offset < bytes; ++offset) {
      for (int bit = 0; bit < 8; ++bit) {
        storage_.CorruptByte(path, offset, bit);
        EXPECT_THAT(Read(storage_), StatusIs(absl::StatusCode::kDataLoss, HasSubstr(kFolder)))
            << path << " byte " << offset << " bit " << bit;
        storage_.CorruptByte(path, offset, bit);
      }
    }
  }
  EXPECT_OK(Read(storage_));
}

TEST_F(DamageTest, EveryBitOfAPart) { TurnEveryBit(); }

TEST_F(DamageTest, EveryBitOfAPartWithVectors) {
  Write(2);
  TurnEveryBit();
}

TEST_F(DamageTest, EveryBitOfAPartWithTables) {
  Write(MakeTestJob({.model = testing::kTablesModel}));
  TurnEveryBit();
}

void DamageTest::CutEverywhere() {
  const std::string file = *storage_.ReadAll(kFile, kAny);
  const std::string manifest = *storage_.ReadAll(kManifest, kAny);
  for (size_t bytes = 0; bytes < file.size(); ++bytes) {
    ASSERT_OK(storage_.WriteAll(kFile, file.substr(0, bytes)));
    EXPECT_THAT(Read(storage_), StatusIs(absl::StatusCode::kDataLoss, HasSubstr(kFile))) << bytes;
  }
  ASSERT_OK(storage_.WriteAll(kFile, file + std::string(1, '\0')));
  EXPECT_THAT(Read(storage_), StatusIs(absl::StatusCode::kDataLoss, HasSubstr(kFile)));
  ASSERT_OK(storage_.WriteAll(kFile, file));
  for (size_t bytes = 0; bytes < manifest.size(); ++bytes) {
    ASSERT_OK(storage_.WriteAll(kManifest, manifest.substr(0, bytes)));
    EXPECT_THAT(Read(storage_), StatusIs(absl::StatusCode::kDataLoss, HasSubstr(kManifest)));
  }
  ASSERT_OK(storage_.WriteAll(kManifest, std::string(1 << 20, '#')));
  EXPECT_THAT(Read(storage_), StatusIs(absl::StatusCode::kDataLoss, HasSubstr(kManifest)));
}

TEST_F(DamageTest, EveryTruncation) { CutEverywhere(); }

TEST_F(DamageTest, EveryTruncationOfAPartWithVectors) {
  Write(2);
  CutEverywhere();
}

TEST_F(DamageTest, EveryTruncationOfAPartWithTables) {
  Write(MakeTestJob({.model = testing::kTablesModel}));
  CutEverywhere();
}

TEST_F(DamageTest, WhatIsMissingIsNotFound) {
  ASSERT_OK(storage_.Remove(kFile));
  EXPECT_THAT(Read(storage_), StatusIs(absl::StatusCode::kNotFound, HasSubstr(kFile)));
  ASSERT_OK(storage_.Remove(kManifest));
  EXPECT_THAT(Read(storage_), StatusIs(absl::StatusCode::kNotFound, HasSubstr(kManifest)));
}

TEST_F(DamageTest, PartsThatWereMixedUp) {
  ASSERT_OK(WriteTestPart(&storage_, kFolder, MakeTestJob({.seed = 2}), 1, 6));
  const std::string other_manifest = "/f/ps-1-of-2.g6.e1.manifest";
  ASSERT_OK(Read(storage_, other_manifest));
  // A file under another's name.
  const std::string file = *storage_.ReadAll("/f/ps-1-of-2.g6.e1.safetensors", kAny);
  ASSERT_EQ(file.size(), Bytes(kFile));
  ASSERT_OK(storage_.WriteAll(kFile, file));
  EXPECT_THAT(Read(storage_), StatusIs(absl::StatusCode::kDataLoss, HasSubstr("manifest")));
  // A manifest under another's name.
  ASSERT_OK(storage_.Rename(other_manifest, kManifest));
  EXPECT_THAT(Read(storage_), StatusIs(absl::StatusCode::kDataLoss,
                                       HasSubstr("the manifest of ps-1-of-2.g6.e1.safetensors")));
}

// ---- forged: every checksum is right, and still it is no part ----------------

struct Forged {
  std::vector<TensorSpec> tensors;  // without the checksums
  std::vector<std::string> data;
  std::map<std::string, std::string> metadata;
  CheckpointManifest manifest;
  ShardCheckpoint content;
  std::string record;  // instead of `content`, if not empty
  bool without_checksums = false;
};

Forged ReadGood(const SimulatedStorage& storage) {
  Forged forged;
  const auto part = PartReader::Open(&storage, kManifest);
  const auto file = SafetensorsReader::Open(&storage, kFile);
  EXPECT_OK(part);
  EXPECT_OK(file);
  forged.manifest = (*part)->manifest();
  forged.content = (*part)->content();
  forged.metadata = file->metadata();
  for (size_t i = 0; i + 1 < file->tensors().size(); ++i) {
    const SafetensorsReader::Tensor& tensor = file->tensors()[i];
    forged.tensors.push_back({.name = tensor.name,
                              .type = tensor.type == "F32" ? TensorType::kF32 : TensorType::kU8,
                              .shape = tensor.shape});
    std::string& data = forged.data.emplace_back(tensor.bytes, '\0');
    EXPECT_OK(file->Read(tensor, 0, std::as_writable_bytes(std::span(data))));
  }
  return forged;
}

absl::Status WriteForged(Forged forged, SimulatedStorage* storage) {
  std::string& record = forged.data.back();
  record = forged.record.empty() ? forged.content.SerializeAsString() : forged.record;
  if (forged.tensors.back().name == "monsoon/shard") {
    forged.tensors.back().shape = {record.size()};
  }
  const size_t count = forged.tensors.size();
  if (!forged.without_checksums) {
    forged.tensors.push_back(
        {.name = "monsoon/checksums", .type = TensorType::kU64, .shape = {count + 1}});
  }
  auto writer = SafetensorsWriter::Create(storage, kFile, forged.tensors, forged.metadata);
  EXPECT_OK(writer);
  std::vector<uint64_t> checksums;
  for (size_t i = 0; i < count; ++i) {
    EXPECT_OK(writer->Append(i, std::as_bytes(std::span(forged.data[i]))));
    checksums.push_back(writer->Checksum(i));
  }
  const std::string head = writer->Head();
  Xxh3 hash;
  hash.Add(std::as_bytes(std::span(head)));
  hash.Add(std::as_bytes(std::span(checksums)));
  checksums.push_back(hash.Digest());
  if (!forged.without_checksums) {
    EXPECT_OK(writer->Append(count, std::as_bytes(std::span(checksums))));
  }
  forged.manifest.set_bytes(*writer->Finish());
  forged.manifest.set_checksum(hash.Digest());
  EXPECT_OK(storage->WriteAll(kManifest, ManifestText(forged.manifest)));
  return PartReader::Open(storage, kManifest).status();
}

TEST_F(DamageTest, AForgeryOfNothingIsGood) {
  ASSERT_OK(WriteForged(ReadGood(storage_), &storage_));
  EXPECT_OK(Read(storage_));
}

TEST_F(DamageTest, ANewerFormatIsRefusedByName) {
  const auto newer = StatusIs(absl::StatusCode::kFailedPrecondition,
                              AllOf(HasSubstr(kFolder), HasSubstr("format 2")));
  const Forged good = ReadGood(storage_);
  Forged forged = good;
  forged.manifest.set_format_version(2);
  EXPECT_THAT(WriteForged(forged, &storage_), newer);
  forged = good;
  forged.metadata["format_version"] = "2";
  EXPECT_THAT(WriteForged(forged, &storage_), newer);
}

struct ForgeryCase {
  const char* message;
  std::function<void(Forged*)> change;
};

// Each is refused with its message.
void ExpectRefused(const Forged& good, const std::vector<ForgeryCase>& cases,
                   SimulatedStorage* storage) {
  for (const ForgeryCase& test_case : cases) {
    Forged forged = good;
    test_case.change(&forged);
    EXPECT_THAT(WriteForged(forged, storage),
                StatusIs(absl::StatusCode::kDataLoss,
                         AllOf(HasSubstr(kFolder), HasSubstr(test_case.message))));
  }
}

TEST_F(DamageTest, ForgeriesOfVectorsAreRefused) {
  Write(2);
  const Forged good = ReadGood(storage_);
  ASSERT_OK(WriteForged(good, &storage_));
  ASSERT_OK(Read(storage_));
  const auto names = [](Forged* f) { return f->content.mutable_context()->mutable_vector(); };
  const auto maxima = [](Forged* f) { return f->content.mutable_stripe(1)->mutable_maximum(); };
  using Limits = std::numeric_limits<float>;
  ExpectRefused(
      good,
      {
          {"tensors, expected", [&](Forged* f) { names(f)->RemoveLast(); }},
          {"tensors, expected", [&](Forged* f) { *names(f)->Add() = "more"; }},
          {"expected \"vector:v:1:a/bias[0:3)\"", [&](Forged* f) { names(f)->SwapElements(0, 1); }},
          {"expected \"vector:w:a/bias[0:3)\"", [&](Forged* f) { *names(f)->Mutable(0) = "w"; }},
          {"two vectors", [&](Forged* f) { *names(f)->Mutable(0) = "v:1"; }},
          {"no name for a vector", [&](Forged* f) { names(f)->Mutable(0)->clear(); }},
          {"no name for a vector", [&](Forged* f) { *names(f)->Mutable(0) = "a b"; }},
          {"no name for a vector", [&](Forged* f) { names(f)->Mutable(0)->append(32, 'x'); }},
          {"4097 vectors",
           [&](Forged* f) {
             while (names(f)->size() < 4097) {
               *names(f)->Add() = absl::StrCat("w", names(f)->size());
             }
           }},
          {"2 largest values, expected 1", [&](Forged* f) { maxima(f)->Add(1.0f); }},
          {"largest value -1", [&](Forged* f) { maxima(f)->Set(0, -1.0f); }},
          {"largest value inf", [&](Forged* f) { maxima(f)->Set(0, Limits::infinity()); }},
          {"largest value nan", [&](Forged* f) { maxima(f)->Set(0, Limits::quiet_NaN()); }},
      },
      &storage_);
  // Nothing was summed up yet.
  Forged forged = good;
  maxima(&forged)->Clear();
  EXPECT_OK(WriteForged(forged, &storage_));
}

TEST_F(DamageTest, ForgeriesOfTablesAreRefused) {
  Write(MakeTestJob({.model = testing::kTablesModel}));
  const Forged good = ReadGood(storage_);
  ASSERT_OK(WriteForged(good, &storage_));
  ASSERT_OK(Read(storage_));
  // Of tables 0, 2 and 3 the only stripe.
  const auto stripes = [](Forged* f) { return f->content.mutable_row_stripe(); };
  const auto tensor = [](Forged* f, const std::string& name) {
    return static_cast<size_t>(std::ranges::find(f->tensors, name, &TensorSpec::name) -
                               f->tensors.begin());
  };
  ExpectRefused(good,
                {
                    {"stripe 0 of table 0 comes after stripe 0 of table 2; they must rise",
                     [&](Forged* f) { stripes(f)->SwapElements(0, 1); }},
                    {"stripe 0 of table 0 comes after stripe 0 of table 0; they must rise",
                     [&](Forged* f) { *stripes(f)->Mutable(1) = stripes(f)->at(0); }},
                    {"it has rows of table 4, where the model has 4",
                     [&](Forged* f) { stripes(f)->Mutable(2)->set_table(4); }},
                    {"it has rows of table 4294967295",
                     [&](Forged* f) { stripes(f)->Mutable(2)->set_table(UINT32_MAX); }},
                    {"it has stripe 1 of table 2, of which 1 are of this shard",
                     [&](Forged* f) { stripes(f)->Mutable(1)->set_stripe(1); }},
                    {"it has stripe 4294967295 of table 3",
                     [&](Forged* f) { stripes(f)->Mutable(2)->set_stripe(UINT32_MAX); }},
                    {"expected \"table:items\" of 0", [&](Forged* f) { stripes(f)->RemoveLast(); }},
                    {"expected \"table:never\" of 36",
                     [&](Forged* f) { stripes(f)->Mutable(1)->set_table(1); }},
                    {"expected \"table:words\" of 48",
                     [&](Forged* f) {
                       const size_t at = tensor(f, "table:words");
                       f->tensors[at].shape = {11};
                       f->data[at].resize(44);
                     }},
                    {"expected \"table:words\"",
                     [&](Forged* f) {
                       f->tensors[tensor(f, "table:words")].shape = {3, 4};
                     }},
                    {"expected \"table:users\"",
                     [&](Forged* f) { f->tensors[tensor(f, "table:users")].name = "table:other"; }},
                    {"tensors, expected",
                     [&](Forged* f) {
                       const auto at = static_cast<ptrdiff_t>(tensor(f, "table:never"));
                       f->tensors.erase(f->tensors.begin() + at);
                       f->data.erase(f->data.begin() + at);
                     }},
                    {"the name is used twice",
                     [](Forged* f) {
                       Model* const model = f->content.mutable_create()->mutable_model();
                       model->mutable_table(1)->set_name("words");
                     }},
                },
                &storage_);
}

TEST_F(DamageTest, ForgeriesAreRefused) {
  const std::vector<ForgeryCase> cases = {
      {"does not end with", [](Forged* f) { f->without_checksums = true; }},
      {"its header is not", [](Forged* f) { f->metadata["job"] = "other"; }},
      {"its header is not", [](Forged* f) { f->metadata["more"] = "x"; }},
      {"its header is not", [](Forged* f) { f->metadata.clear(); }},
      {"its header is not", [](Forged* f) { f->manifest.set_job("other"); }},
      {"no record", [](Forged* f) { f->tensors.back().name = "monsoon/other"; }},
      {"no record", [](Forged* f) { std::swap(f->tensors[0].name, f->tensors.back().name); }},
      {"cannot be read", [](Forged* f) { f->record = "\xff\xff\xff"; }},
      {"record is not", [](Forged* f) { f->content.set_generation(6); }},
      {"record is not", [](Forged* f) { f->manifest.set_parent_epoch(6); }},
      {"record is not", [](Forged* f) { f->content.mutable_create()->set_job_term(6); }},
      {"record is not", [](Forged* f) { f->content.mutable_create()->set_layout_hash(6); }},
      {"at least one layer",
       [](Forged* f) { f->content.mutable_create()->mutable_model()->clear_layer(); }},
      {"layout hash",
       [](Forged* f) {
         f->content.mutable_create()->mutable_model()->mutable_layer(0)->set_name("other");
       }},
      {"layout hash",
       [](Forged* f) {
         f->manifest.set_layout_hash(6);
         f->content.mutable_create()->set_layout_hash(6);
       }},
      {"stripe size", [](Forged* f) { f->content.mutable_create()->set_max_stripe_bytes(63); }},
      {"stripes", [](Forged* f) { f->content.mutable_create()->set_max_stripe_bytes(1 << 20); }},
      {"stripes", [](Forged* f) { f->content.mutable_stripe()->RemoveLast(); }},
      {"optimizer state", [](Forged* f) { f->content.set_state_slots(4); }},
      {"tensors, expected", [](Forged* f) { f->content.set_state_slots(0); }},
      {"tensors, expected",
       [](Forged* f) {
         f->tensors.insert(f->tensors.begin(), {.name = "x", .shape = {0}});
         f->data.insert(f->data.begin(), "");
       }},
      {"tensors, expected",
       [](Forged* f) {
         f->tensors.erase(f->tensors.begin());
         f->data.erase(f->data.begin());
       }},
      {"expected \"a/bias[0:3)\"", [](Forged* f) { f->tensors[0].name = "a/bias[0:2)"; }},
      {"expected \"a/bias[0:3)\"",
       [](Forged* f) {
         f->tensors[0].shape = {3, 1};
       }},
      {"expected \"a/bias[0:3)\"",
       [](Forged* f) {
         f->tensors[0].shape = {2};
         f->data[0].resize(8);
       }},
      {"expected \"a/bias[0:3)\"",
       [](Forged* f) {
         f->tensors[0].type = TensorType::kU8;
         f->tensors[0].shape = {12};
       }},
  };
  ExpectRefused(ReadGood(storage_), cases, &storage_);
}

}  // namespace
}  // namespace monsoon
