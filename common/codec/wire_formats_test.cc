#include "common/codec/wire_formats.h"

#include <google/protobuf/descriptor.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/testing/status_matchers.h"
#include "gtest/gtest.h"

namespace monsoon {
namespace {

TEST(WireFormatsTest, EveryFormatOfTheProtoHasARow) {
  const auto& type = *WireFormat_descriptor();
  ASSERT_EQ(WireFormats().size(), static_cast<size_t>(type.value_count()));
  for (int i = 0; i < type.value_count(); ++i) {
    const FormatTraits& traits = WireFormats()[static_cast<size_t>(i)];
    EXPECT_EQ(traits.format, type.value(i)->number()) << type.value(i)->name();
    EXPECT_EQ(traits.name(), type.value(i)->name());
    EXPECT_EQ(FindFormat(traits.format), &traits);
  }
  EXPECT_EQ(FindFormat(static_cast<WireFormat>(17)), nullptr);
}

// A stripe of many whole blocks, most of which is values.
TEST(WireFormatsTest, BytesAValueAreThoseOfTheCodec) {
  constexpr size_t kFloats = 1 << 16;
  for (const FormatTraits& traits : WireFormats()) {
    const double sent = kFloats * (traits.takes_share ? kMaxTopKShare : 1.0);
    const auto bytes = static_cast<double>(traits.make(kMaxTopKShare)->EncodedBytes(kFloats));
    EXPECT_GE(bytes, traits.bytes_per_value * sent) << traits.name();
    EXPECT_LE(bytes, traits.bytes_per_value * sent * 1.04) << traits.name();
  }
}

TEST(WireFormatsTest, EveryFormatBringsAPush) {
  std::vector<float> push(1000, 0.0f);
  push[17] = 3.0f;
  push[900] = -3.0f;
  for (const FormatTraits& traits : WireFormats()) {
    const TensorCodec& codec = *TensorCodec::Find(traits.format);
    std::vector<std::byte> bytes(codec.EncodedBytes(push.size()));
    codec.Encode(push, bytes);
    std::vector<float> out(push.size());
    ASSERT_OK(codec.Decode(bytes, out)) << traits.name();
    EXPECT_NEAR(out[17], 3.0f, 1e-6f) << traits.name();
    EXPECT_NEAR(out[900], -3.0f, 1e-6f) << traits.name();
  }
}

TEST(WireFormatsTest, WhatCannotBeSaysWhatCan) {
  const auto changes = [](const FormatTraits& traits) { return traits.no_changes == nullptr; };
  EXPECT_EQ(FormatNames(changes, "or"), "BFLOAT16, FLOAT16, INT8 or INT4");
  EXPECT_EQ(FormatNames(changes, "or", /*smallest_first=*/true), "INT4, INT8, BFLOAT16 or FLOAT16");
  for (const FormatTraits& traits : WireFormats()) {
    // Values that are not sent have no scale to be told by.
    EXPECT_FALSE(traits.takes_share && traits.carries_statistics) << traits.name();
    EXPECT_EQ(TensorCodec::CarriesParameters(traits.format), traits.no_parameters == nullptr);
    EXPECT_EQ(TensorCodec::CarriesChanges(traits.format), traits.no_changes == nullptr);
    EXPECT_EQ(TakesShare(traits.format), traits.takes_share);
  }
}

TEST(WireFormatsTest, TheDocsHaveARowForEachFormat) {
  std::ifstream file("docs/wire_protocol.md");
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) {
    lines.push_back(line);
  }
  for (const FormatTraits& traits : WireFormats()) {
    const std::string row = absl::StrCat("| `", traits.name(), "` |");
    EXPECT_TRUE(std::ranges::any_of(
        lines, [&](const std::string& line) { return absl::StartsWith(line, row); }))
        << "docs/wire_protocol.md has no row of " << traits.name();
  }
}

}  // namespace
}  // namespace monsoon
