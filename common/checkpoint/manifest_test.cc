#include "common/checkpoint/manifest.h"

#include <string>

#include "common/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace monsoon {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::IsOk;
using ::testing::StartsWith;
using testing::StatusIs;

CheckpointManifest Sample() {
  CheckpointManifest manifest;
  manifest.set_format_version(kCheckpointFormat);
  manifest.set_job("lenet-1");
  manifest.set_shard(1);
  manifest.set_shards(2);
  manifest.set_generation(17);
  manifest.set_shard_epoch(UINT64_MAX);
  manifest.set_layout_hash(0xfedcba9876543210);
  manifest.set_file("ps-1-of-2.g17.e18446744073709551615.safetensors");
  manifest.set_bytes(123);
  manifest.set_checksum(5);
  return manifest;
}

TEST(ManifestTest, ReadsWhatWasWritten) {
  const std::string text = ManifestText(Sample());
  EXPECT_THAT(text,
              AllOf(StartsWith("format_version: 1\njob: \"lenet-1\"\n"), HasSubstr("\n# xxh3 ")));
  ASSERT_OK_AND_ASSIGN(const CheckpointManifest read, ParseManifest(text));
  EXPECT_EQ(read.SerializeAsString(), Sample().SerializeAsString());
}

TEST(ManifestTest, EveryChangedBitIsRefused) {
  const std::string text = ManifestText(Sample());
  for (size_t offset = 0; offset < text.size(); ++offset) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string changed = text;
      changed[offset] = static_cast<char>(changed[offset] ^ (1 << bit));
      EXPECT_FALSE(ParseManifest(changed).ok()) << offset << " " << bit;
    }
  }
}

TEST(ManifestTest, EveryTruncationIsRefused) {
  const std::string text = ManifestText(Sample());
  for (size_t bytes = 0; bytes < text.size(); ++bytes) {
    EXPECT_THAT(ParseManifest(text.substr(0, bytes)).status(),
                StatusIs(absl::StatusCode::kDataLoss, ::testing::_))
        << bytes;
  }
  EXPECT_FALSE(ParseManifest(text + "\n").ok());
  EXPECT_FALSE(ParseManifest(text + text).ok());
}

TEST(ManifestTest, ANewerFormatIsRefusedByName) {
  CheckpointManifest manifest = Sample();
  manifest.set_format_version(2);
  const auto newer = StatusIs(absl::StatusCode::kFailedPrecondition,
                              AllOf(HasSubstr("format 2"), HasSubstr("up to 1")));
  EXPECT_THAT(ParseManifest(ManifestText(manifest)).status(), newer);
  // It may have other fields and another end.
  EXPECT_THAT(ParseManifest("format_version: 2\nflavour: SWEET\n# sha 1\n").status(), newer);
}

TEST(ManifestTest, NoVersionIsRefused) {
  CheckpointManifest manifest = Sample();
  manifest.clear_format_version();
  EXPECT_THAT(ParseManifest(ManifestText(manifest)).status(),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("format_version")));
}

TEST(ManifestTest, NamesOfParts) {
  const PartName name = PartName::Of(Sample());
  EXPECT_EQ(name.Text(".manifest"), "ps-1-of-2.g17.e18446744073709551615.manifest");
  const auto read = PartName::OfManifest(name.Text(kManifestEnding));
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(read->shard, 1u);
  EXPECT_EQ(read->shards, 2u);
  EXPECT_EQ(read->generation, 17u);
  EXPECT_EQ(read->epoch, UINT64_MAX);
}

TEST(ManifestTest, OtherNamesAreNoParts) {
  for (const char* const name :
       {"", "ps-0-of-1.g1.e1", "ps-0-of-1.g1.e1.safetensors", ".tmp-ps-0-of-1.g1.e1.manifest",
        "ps-0-of-1.g1.e1.manifest~", "ps-1-of-1.g1.e1.manifest", "ps-0-of-0.g1.e1.manifest",
        "ps--1-of-1.g1.e1.manifest", "ps-+0-of-1.g1.e1.manifest", "ps-00-of-1.g1.e1.manifest",
        "ps-0-of-1.g01.e1.manifest", "ps-0-of-1.g.e1.manifest", "ps- 0-of-1.g1.e1.manifest",
        "ps-0-of-4294967296.g1.e1.manifest", "ps-0-of-1.g18446744073709551616.e1.manifest",
        // A file's name must not cost memory.
        "ps-0-of-4294967295.g1.e1.manifest", "ps-0-of-1.g1.e1.manifest/"}) {
    EXPECT_FALSE(PartName::OfManifest(name).has_value()) << name;
  }
}

}  // namespace
}  // namespace monsoon
