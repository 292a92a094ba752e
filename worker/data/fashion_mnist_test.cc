// The real Fashion-MNIST, from Debian's package dataset-fashion-mnist.
#include <numeric>
#include <string>
#include <vector>

#include "common/testing/status_matchers.h"
#include "gtest/gtest.h"
#include "worker/data/open_dataset.h"

namespace monsoon {
namespace {

Dataset FashionMnist(const std::string& part) {
  const std::string folder = "/usr/share/datasets/fashion-mnist/";
  Dataset dataset;
  dataset.mutable_idx()->set_images(folder + part + "-images-idx3-ubyte.gz");
  dataset.mutable_idx()->set_labels(folder + part + "-labels-idx1-ubyte.gz");
  return dataset;
}

TEST(FashionMnistTest, HasItsPublishedSizesClassesAndMean) {
  for (const auto& [part, examples] :
       std::vector<std::pair<std::string, uint64_t>>{{"train", 60'000}, {"t10k", 10'000}}) {
    ASSERT_OK_AND_ASSIGN(const auto source, OpenDataset(FashionMnist(part), {{784}}));
    ASSERT_EQ(source->examples(), examples);
    Batch batch(examples, 784);
    std::vector<uint32_t> all(examples);
    std::iota(all.begin(), all.end(), 0u);
    EXPECT_OK(source->Gather(all, &batch));
    std::vector<uint64_t> classes(10);
    for (const uint32_t label : batch.labels) {
      ++classes.at(label);
    }
    EXPECT_EQ(classes, std::vector<uint64_t>(10, examples / 10));
    double sum = 0;
    for (const float value : batch.inputs.span()) {
      sum += value;
    }
    EXPECT_NEAR(sum / static_cast<double>(batch.inputs.size()), 0.286, 0.002);
  }
}

}  // namespace
}  // namespace monsoon
