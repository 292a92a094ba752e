#include "worker/data/job_data.h"

#include <cmath>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "common/data/access/data_access.h"
#include "common/testing/status_matchers.h"
#include "gtest/gtest.h"
#include "proto/job.pb.h"
#include "worker/data/data_source.h"
#include "worker/nn/batch.h"

namespace monsoon {
namespace {

using ::monsoon::testing::StatusIs;
using ::testing::HasSubstr;
using Samples = std::vector<std::vector<float>>;

// Writes `samples` and labels 0 as .npy files and names them in `dataset`.
void WriteSamples(const std::string& name, const Samples& samples, Dataset* dataset) {
  const std::string folder = ::testing::TempDir() + "/job_data_test";
  std::filesystem::create_directories(folder);
  const auto write = [&](const std::string& suffix, const std::string& type,
                         const std::string& shape, const std::string& data) {
    std::string header =
        "{'descr': '" + type + "', 'fortran_order': False, 'shape': (" + shape + "), }";
    header.resize(117, ' ');
    std::ofstream(folder + "/" + name + suffix, std::ios::binary)
        << std::string("\x93NUMPY\x01\x00\x76\x00", 10) << header << "\n"
        << data;
    return folder + "/" + name + suffix;
  };
  std::string data;
  for (const std::vector<float>& sample : samples) {
    data.append(reinterpret_cast<const char*>(sample.data()), sample.size() * sizeof(float));
  }
  const std::string count = std::to_string(samples.size());
  NpySource* const npy = dataset->mutable_npy();
  npy->set_images(write("-x.npy", "<f4", count + ", " + std::to_string(samples[0].size()), data));
  npy->set_labels(write("-y.npy", "|u1", count + ",", std::string(samples.size(), '\0')));
}

std::vector<float> Read(const DataSource& source) {
  Batch batch(source.examples(), source.values_per_example());
  std::vector<uint32_t> all(source.examples());
  for (uint32_t i = 0; i < all.size(); ++i) {
    all[i] = i;
  }
  EXPECT_OK(source.Gather(all, &batch));
  return {batch.inputs.data(), batch.inputs.data() + all.size() * batch.values};
}

// Of features: one of a usual size, one with a large mean and a small deviation,
// one constant at a value that no sum of floats keeps exactly.
const Samples kTrain = {{1, 1e6f, 0.1f},
                        {2, 1e6f + 1, 0.1f},
                        {4, 1e6f + 3, 0.1f},
                        {9, 1e6f + 4, 0.1f},
                        {5, 1e6f, 0.1f}};
const Samples kTest = {{4, 1e6f + 2, 0.1f}, {-6, 1e6f - 8, 77}};

Job StandardisedJob() {
  Job job;
  job.mutable_model()->add_input_shape(3);
  WriteSamples("train", kTrain, job.mutable_train());
  WriteSamples("test", kTest, job.mutable_test());
  job.set_standardise(true);
  return job;
}

TEST(JobDataTest, StandardisesWithTheNumbersOfTheTrainingSet) {
  const Job job = StandardisedJob();
  ASSERT_OK_AND_ASSIGN(const JobData data, OpenJobData(job, OpenerFor(), DataAccess::Own()));
  const std::vector<float> train = Read(*data.train);
  const std::vector<float> test = Read(*data.test);
  for (size_t feature = 0; feature < 2; ++feature) {
    double mean = 0, variance = 0;
    for (const auto& sample : kTrain) {
      mean += sample[feature] / 5.0;
    }
    for (const auto& sample : kTrain) {
      variance += (sample[feature] - mean) * (sample[feature] - mean) / 5.0;
    }
    for (size_t n = 0; n < kTrain.size(); ++n) {
      EXPECT_NEAR(train[n * 3 + feature], (kTrain[n][feature] - mean) / std::sqrt(variance), 1e-6);
    }
    for (size_t n = 0; n < kTest.size(); ++n) {
      EXPECT_NEAR(test[n * 3 + feature], (kTest[n][feature] - mean) / std::sqrt(variance), 1e-5);
    }
  }
  // The constant one, in the test set too where it is another value.
  for (size_t n = 0; n < kTrain.size(); ++n) {
    EXPECT_EQ(train[n * 3 + 2], 0.0f);
  }
  EXPECT_EQ(test[2], 0.0f);
  EXPECT_EQ(test[5], 0.0f);
}

TEST(JobDataTest, WithoutTheSettingValuesStayAsTheyAre) {
  Job job = StandardisedJob();
  ASSERT_OK_AND_ASSIGN(const JobData with, OpenJobData(job, OpenerFor(), DataAccess::Own()));
  job.set_standardise(false);
  ASSERT_OK_AND_ASSIGN(const JobData without, OpenJobData(job, OpenerFor(), DataAccess::Own()));
  EXPECT_EQ(Read(*without.train)[9], 9.0f);
  EXPECT_EQ(Read(*without.test)[5], 77.0f);
  EXPECT_NE(with.train->Fingerprint(), without.train->Fingerprint());
}

// Replicas compare fingerprints: a test set that was scaled by another training
// set is other data.
TEST(JobDataTest, TheFingerprintOfTheTestSetTellsTheTrainingSet) {
  Job job = StandardisedJob();
  ASSERT_OK_AND_ASSIGN(const auto test, OpenTestData(job, OpenerFor(), DataAccess::Own()));
  ASSERT_OK_AND_ASSIGN(const JobData data, OpenJobData(job, OpenerFor(), DataAccess::Own()));
  EXPECT_EQ(test->Fingerprint(), data.test->Fingerprint());
  EXPECT_EQ(Read(*test), Read(*data.test));
  job.mutable_train()->set_limit(4);
  ASSERT_OK_AND_ASSIGN(const auto other, OpenTestData(job, OpenerFor(), DataAccess::Own()));
  EXPECT_NE(test->Fingerprint(), other->Fingerprint());
}

TEST(JobDataTest, AMissingTrainingSetIsNamedWhereItsNumbersAreNeeded) {
  Job job = StandardisedJob();
  job.mutable_train()->mutable_npy()->set_images("/nowhere/train.npy");
  EXPECT_THAT(OpenTestData(job, OpenerFor(), DataAccess::Own()).status(),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("/nowhere/train.npy")));
  job.set_standardise(false);
  EXPECT_OK(OpenTestData(job, OpenerFor(), DataAccess::Own()));
}

}  // namespace
}  // namespace monsoon
