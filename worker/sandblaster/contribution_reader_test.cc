#include "worker/sandblaster/contribution_reader.h"

#include <algorithm>

#include "common/testing/status_matchers.h"
#include "proto/job.pb.h"
#include "worker/testing/fakes.h"

namespace monsoon {
namespace {

using ::testing::ElementsAre;
using testing::FakeSource;
using ::testing::HasSubstr;
using testing::StatusIs;

Job MakeJob(uint32_t batch, uint32_t chunk, uint64_t sample = 0) {
  Job job;
  job.set_seed(5);
  job.set_batch_size(batch);
  job.mutable_sandblaster()->set_chunk_examples(chunk);
  job.mutable_sandblaster()->set_sample_examples(sample);
  return job;
}

NextWorkReply::Contribution Range(uint64_t first, uint32_t examples) {
  NextWorkReply::Contribution contribution;
  contribution.set_first(first);
  contribution.set_examples(examples);
  return contribution;
}

TEST(ContributionReaderTest, CutsChunksIntoBatches) {
  const FakeSource source(100);
  ContributionReader reader(&source, MakeJob(4, 10));
  ASSERT_OK(reader.Append(Range(20, 23)));
  ASSERT_OK(reader.Append(Range(99, 1)));
  std::vector<size_t> sizes, chunk_ends, contribution_ends;
  uint32_t position = 20;
  while (reader.pieces_left() > 0) {
    ASSERT_OK_AND_ASSIGN(const ContributionReader::Piece piece, reader.Next());
    if (contribution_ends.size() == 1) position = 99;
    sizes.push_back(piece.batch->examples);
    ASSERT_EQ(piece.samples.size(), piece.batch->examples);
    for (size_t n = 0; n < piece.batch->examples; ++n) {
      EXPECT_EQ(piece.samples[n], position);
      EXPECT_EQ(piece.batch->inputs.data()[n * 4], static_cast<float>(position));
      ++position;
    }
    if (piece.ends_chunk) chunk_ends.push_back(sizes.size());
    if (piece.ends_contribution) contribution_ends.push_back(sizes.size());
  }
  EXPECT_THAT(sizes, ElementsAre(4, 4, 2, 4, 4, 2, 3, 1));
  EXPECT_THAT(chunk_ends, ElementsAre(3, 6, 7, 8));
  EXPECT_THAT(contribution_ends, ElementsAre(7, 8));
}

TEST(ContributionReaderTest, AChunkIsABatchUnlessTheJobSays) {
  const FakeSource source(100);
  ContributionReader reader(&source, MakeJob(8, 0));
  ASSERT_OK(reader.Append(Range(0, 20)));
  EXPECT_EQ(reader.pieces_left(), 3u);
  EXPECT_TRUE(reader.Next()->ends_chunk);
}

TEST(ContributionReaderTest, ASampleIsAFixedPartOfTheData) {
  const FakeSource source(100);
  ContributionReader reader(&source, MakeJob(30, 30, 30));
  ContributionReader other(&source, MakeJob(7, 7, 30));
  EXPECT_EQ(reader.examples(), 30u);
  ASSERT_OK(reader.Append(Range(0, 30)));
  ASSERT_OK(other.Append(Range(14, 7)));
  const std::span<const uint32_t> all = reader.Next()->samples;
  const std::span<const uint32_t> part = other.Next()->samples;
  EXPECT_TRUE(std::equal(part.begin(), part.end(), all.begin() + 14));
}

// Sample 9 cannot be read.
class BrokenSource : public FakeSource {
 public:
  using FakeSource::FakeSource;
  absl::Status Gather(std::span<const uint32_t> indices, Batch* batch) const override {
    if (std::ranges::count(indices, 9u) > 0) {
      return absl::DataLossError("images.npy cannot be read at byte 9000");
    }
    return FakeSource::Gather(indices, batch);
  }
};

TEST(ContributionReaderTest, SamplesThatCannotBeReadAreAnError) {
  const BrokenSource source(100);
  ContributionReader reader(&source, MakeJob(4, 4));
  ASSERT_OK(reader.Append(Range(4, 12)));
  ASSERT_OK(reader.Next().status());
  EXPECT_THAT(reader.Next().status(),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("images.npy")));
  // The owner may go on with others.
  reader.Clear();
  ASSERT_OK(reader.Append(Range(40, 4)));
  ASSERT_OK_AND_ASSIGN(const ContributionReader::Piece piece, reader.Next());
  EXPECT_EQ(piece.batch->inputs.data()[0], 40.0f);
}

TEST(ContributionReaderTest, RefusesPositionsOutsideTheBatch) {
  const FakeSource source(100);
  ContributionReader reader(&source, MakeJob(4, 10, 50));
  for (const auto& range : {Range(50, 1), Range(49, 2), Range(3, 0), Range(~uint64_t{0}, 2)}) {
    EXPECT_THAT(reader.Append(range),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("the batch has 50")));
  }
  EXPECT_EQ(reader.pieces_left(), 0u);
}

TEST(ContributionReaderTest, ClearForgetsTheRest) {
  const FakeSource source(100);
  ContributionReader reader(&source, MakeJob(4, 4));
  ASSERT_OK(reader.Append(Range(0, 12)));
  EXPECT_EQ(reader.Next()->samples[0], 0u);
  reader.Clear();
  EXPECT_EQ(reader.pieces_left(), 0u);
  ASSERT_OK(reader.Append(Range(40, 4)));
  EXPECT_EQ(reader.Next()->samples[0], 40u);
}

}  // namespace
}  // namespace monsoon
