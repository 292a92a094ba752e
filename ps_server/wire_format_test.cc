// Wire formats between real clients and servers: what arrives is what the codec
// says, each push once, also when frames are lost.
#include <algorithm>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "common/codec/tensor_codec.h"
#include "common/codec/wire_formats.h"
#include "common/testing/status_matchers.h"
#include "ps_server/testing/test_shards.h"

namespace monsoon {
namespace {

using ::testing::HasSubstr;
using testing::StatusIs;

using Vector = std::vector<float>;

constexpr double kShare = 0.1;
constexpr int kPushes = 30;

// 16,384 floats in stripes of 1024, w -= g.
TestJobOptions JobOptions() {
  TestJobOptions options;
  options.model = TestModel(128, 128);
  options.optimizer = TestSgd(1.0);
  options.max_stripe_bytes = 4096;
  return options;
}

Vector Gradient(size_t size, int push) {
  Vector values(size);
  for (size_t i = 0; i < size; ++i) {
    values[i] = static_cast<float>(
                    static_cast<int>((i * 31 + 17 * static_cast<size_t>(push)) % 211) - 105) /
                1024.0f;
  }
  return values;
}

std::vector<WireFormat> Formats(bool (*chosen)(WireFormat)) {
  std::vector<WireFormat> formats;
  for (const FormatTraits& traits : WireFormats()) {
    if (chosen(traits.format)) {
      formats.push_back(traits.format);
    }
  }
  return formats;
}

// What the shards have after kPushes, from the codec alone.
Vector Expected(const TestJob& job, WireFormat format, Vector w) {
  const auto codec = *TensorCodec::Create(format, kShare);
  Vector residual(w.size(), 0.0f);
  for (int push = 0; push < kPushes; ++push) {
    const Vector gradient = Gradient(w.size(), push);
    for (uint32_t shard = 0; shard < job.map.shards(); ++shard) {
      for (uint32_t stripe = 0; stripe < job.map.stripes(shard); ++stripe) {
        const Slice slice = job.map.stripe(shard, stripe);
        Vector wanted(slice.size()), content(slice.size());
        for (size_t i = 0; i < wanted.size(); ++i) {
          wanted[i] = residual[slice.begin + i] + gradient[slice.begin + i];
        }
        std::vector<std::byte> bytes(codec->EncodedBytes(wanted.size()));
        codec->Encode(wanted, bytes);
        EXPECT_OK(codec->Decode(bytes, content));
        for (size_t i = 0; i < wanted.size(); ++i) {
          residual[slice.begin + i] = wanted[i] - content[i];
          w[slice.begin + i] -= content[i];
        }
      }
    }
  }
  return w;
}

class PushFormatTest : public ::testing::TestWithParam<WireFormat> {};

TEST_P(PushFormatTest, EveryPushArrivesOnceAsTheCodecSays) {
  for (const bool lossy_network : {false, true}) {
    ASSERT_OK_AND_ASSIGN(auto shards, TestShards::Start({.shards = 2}));
    ASSERT_OK_AND_ASSIGN(const TestJob job, shards->CreateJob(JobOptions()));
    ASSERT_OK_AND_ASSIGN(ParameterClientOptions options, shards->OpenSession(job, 0));
    options.push_format = GetParam();
    options.top_k_share = kShare;
    if (lossy_network) {
      options.fault = {.drop = 0.05, .seed = 5};  // requests and answers
    }
    ASSERT_OK_AND_ASSIGN(auto client, ParameterClient::Create(options));
    Vector w(job.map.size());
    ASSERT_OK(client->Fetch(w, nullptr, nullptr));
    const Vector expected = Expected(job, GetParam(), w);
    uint64_t bytes = 0;
    uint32_t retries = 0;
    for (int push = 0; push < kPushes; ++push) {
      ASSERT_OK_AND_ASSIGN(const auto result, client->Push(Gradient(w.size(), push), {}));
      EXPECT_EQ(result.refused_invalid, 0u) << result.first_refusal;
      bytes += result.bytes;
      retries += result.retries;
    }
    ASSERT_OK(client->FetchExact(w, nullptr, nullptr));
    EXPECT_EQ(w, expected);
    if (lossy_network) {
      EXPECT_GT(retries, 0u);
      continue;
    }
    // Stripes of 1024 values are a quarter of a chunk, with 103 entries at this share.
    const std::map<WireFormat, double> per_float = {{FLOAT32, 4},
                                                    {BFLOAT16, 2},
                                                    {FLOAT16, 2},
                                                    {INT8, 1 + 4.0 / 256},
                                                    {TOP_K, 8 * kShare},
                                                    {INT4, 0.5 + 4.0 / 256},
                                                    {TOP_K_2BIT, (8 + 181) / 1024.0}};
    const double payload = per_float.at(GetParam()) * static_cast<double>(w.size()) * kPushes;
    EXPECT_GE(static_cast<double>(bytes), payload);
    EXPECT_LE(static_cast<double>(bytes), payload * 1.01 + 1000.0 * kPushes);  // and headers
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, PushFormatTest,
                         ::testing::ValuesIn(Formats([](WireFormat) { return true; })),
                         [](const auto& info) { return WireFormat_Name(info.param); });

class FetchFormatTest : public ::testing::TestWithParam<WireFormat> {};

TEST_P(FetchFormatTest, ParametersAreRoundedStripeByStripe) {
  ASSERT_OK_AND_ASSIGN(auto shards, TestShards::Start({.shards = 2}));
  ASSERT_OK_AND_ASSIGN(const TestJob job, shards->CreateJob(JobOptions()));
  ASSERT_OK_AND_ASSIGN(ParameterClientOptions options, shards->OpenSession(job, 0));
  options.fetch_format = GetParam();
  ASSERT_OK_AND_ASSIGN(auto client, ParameterClient::Create(options));
  Vector exact(job.map.size()), fetched(job.map.size());
  FetchStats exact_stats, stats;
  FetchMarks marks;
  ASSERT_OK(client->Push(Gradient(exact.size(), 1), {}));
  ASSERT_OK(client->FetchExact(exact, nullptr, &exact_stats));
  ASSERT_OK(client->Fetch(fetched, &marks, &stats));
  const auto codec = *TensorCodec::Create(GetParam(), 0);
  uint64_t bytes = 0;
  for (uint32_t shard = 0; shard < 2; ++shard) {
    for (uint32_t stripe = 0; stripe < job.map.stripes(shard); ++stripe) {
      const Slice slice = job.map.stripe(shard, stripe);
      std::vector<std::byte> encoded(codec->EncodedBytes(slice.size()));
      codec->Encode(std::span(exact).subspan(slice.begin, slice.size()), encoded);
      Vector rounded(slice.size());
      ASSERT_OK(codec->Decode(encoded, rounded));
      EXPECT_EQ(Vector(fetched.begin() + static_cast<ptrdiff_t>(slice.begin),
                       fetched.begin() + static_cast<ptrdiff_t>(slice.end)),
                rounded);
      EXPECT_EQ(marks.shard[shard][stripe].version, 1u);
      bytes += encoded.size();
    }
  }
  EXPECT_EQ(stats.bytes, bytes);
  EXPECT_EQ(exact_stats.bytes, exact.size() * sizeof(float));
}

INSTANTIATE_TEST_SUITE_P(Formats, FetchFormatTest,
                         ::testing::ValuesIn(Formats(TensorCodec::CarriesParameters)),
                         [](const auto& info) { return WireFormat_Name(info.param); });

TEST(WireFormatTest, APushersHalvesAndFetchedHalvesAreAsTheyTravel) {
  for (const bool lossy_network : {false, true}) {
    ASSERT_OK_AND_ASSIGN(auto shards, TestShards::Start({.shards = 2}));
    ASSERT_OK_AND_ASSIGN(const TestJob job, shards->CreateJob(JobOptions()));
    ASSERT_OK_AND_ASSIGN(ParameterClientOptions options, shards->OpenSession(job, 0));
    const TensorCodec& codec = *TensorCodec::Find(BFLOAT16);
    options.push_format = options.fetch_format = BFLOAT16;
    options.halves = true;
    if (lossy_network) {
      options.fault = {.drop = 0.05, .seed = 5};
    }
    ASSERT_OK_AND_ASSIGN(auto client, ParameterClient::Create(options));
    options.halves = false;
    options.fault = {};
    ASSERT_OK_AND_ASSIGN(auto whole, ParameterClient::Create(options));
    Vector masters(job.map.size()), packed(masters.size() / 2), unpacked(masters.size());
    std::vector<std::byte> halves(2 * masters.size());
    Vector exact = masters;
    ASSERT_OK(whole->FetchExact(masters, nullptr, nullptr));
    for (int push = 0; push < kPushes; ++push) {
      codec.Encode(Gradient(masters.size(), push), halves);
      ASSERT_OK(codec.Decode(halves, unpacked));
      for (size_t i = 0; i < masters.size(); ++i) {
        masters[i] -= unpacked[i];
      }
      ASSERT_OK(client->Push(GradientView::Encoded(halves, nullptr), {}));
    }
    ASSERT_OK(whole->FetchExact(exact, nullptr, nullptr));
    EXPECT_EQ(exact, masters);
    codec.Encode(masters, halves);
    FetchMarks marks;
    FetchStats stats;
    for (const bool as_float32 : {false, true}) {
      std::ranges::fill(packed, -1.0f);
      ASSERT_OK(as_float32 ? client->FetchExact(packed, &marks, &stats)
                           : client->Fetch(packed, &marks, &stats));
      EXPECT_TRUE(std::ranges::equal(std::as_bytes(std::span(packed)), halves));
      EXPECT_EQ(marks.shard[1][0].version, static_cast<uint64_t>(kPushes));
      EXPECT_EQ(stats.bytes, (as_float32 ? 4 : 2) * masters.size());
    }
  }
}

TEST(WireFormatTest, TheClientRefusesWhatCannotBe) {
  ASSERT_OK_AND_ASSIGN(auto shards, TestShards::Start({}));
  ASSERT_OK_AND_ASSIGN(const TestJob job, shards->CreateJob(JobOptions()));
  ASSERT_OK_AND_ASSIGN(const ParameterClientOptions options, shards->OpenSession(job, 0));
  ParameterClientOptions wrong = options;
  for (const WireFormat format : {TOP_K, INT4, TOP_K_2BIT}) {
    wrong.fetch_format = format;
    EXPECT_THAT(ParameterClient::Create(wrong).status(),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("fetched")));
  }
  wrong = options;
  wrong.halves = true;
  EXPECT_THAT(ParameterClient::Create(wrong).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("as BFLOAT16")));
  wrong = options;
  for (const WireFormat format : {TOP_K, TOP_K_2BIT}) {
    wrong.push_format = format;
    EXPECT_THAT(ParameterClient::Create(wrong).status(),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("top_k_share")));
  }
}

}  // namespace
}  // namespace monsoon
