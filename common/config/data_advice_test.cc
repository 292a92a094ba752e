#include "common/config/data_advice.h"

#include <fstream>
#include <string>
#include <vector>

#include "common/config/location_map.h"
#include "common/data/access/data_access.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace monsoon {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// `more` is merged into it.
Job JobOf(const std::string& text, const std::string& more = "") {
  Job job;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &job)) << text;
  Job added;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(more, &added)) << more;
  job.MergeFrom(added);
  return job;
}

using Adviser = void (*)(const Job& job, const CheckedData& data, Reporter* reporter);

std::vector<std::string> Advice(const Job& job, const CheckedData& data,
                                Adviser advise = &AdviseData) {
  const LocationMap locations;
  std::vector<Diagnostic> warnings;
  Reporter reporter("", &locations, &warnings);
  advise(job, data, &reporter);
  std::vector<std::string> lines;
  for (const Diagnostic& warning : warnings) {
    lines.push_back(FormatDiagnostic(warning, "warning"));
  }
  return lines;
}

DatasetInfo Info(ElementType type, std::vector<uint64_t> shape) {
  DatasetInfo info;
  info.type = type;
  info.sample_shape = std::move(shape);
  return info;
}

constexpr char kPictures[] = R"pb(
  model {
    input_shape: [ 1, 4, 4 ]
    layer { dense { units: 2 } }
  }
  train { npy { images: "a" labels: "b" } })pb";

TEST(DataAdviceTest, WidePicturesAreNotScaled) {
  const CheckedData data{.train = Info(ElementType::kInteger, {4, 4})};
  EXPECT_THAT(Advice(JobOf(kPictures), data),
              ElementsAre(AllOf(HasSubstr("train.npy.images: the samples are integers wider than"),
                                HasSubstr("train.scale: 1.5259021"))));
  for (const char* meant : {"train { scale: 0.01 }", "train { raw: true }", "standardise: true",
                            "model { layer { embedding { rows: 9 columns: 2 } } }"}) {
    EXPECT_THAT(Advice(JobOf(kPictures, meant), data), IsEmpty()) << meant;
  }
  EXPECT_THAT(Advice(JobOf(kPictures), {.train = Info(ElementType::kUint8, {4, 4})}), IsEmpty());
}

constexpr char kTable[] = R"pb(
  model {
    input_shape: 2
    layer { dense { units: 2 } }
  }
  train { csv { file: "a.csv" label: "kind" } })pb";

TEST(DataAdviceTest, AnIndexIsNoFeature) {
  CheckedData data{.train = Info(ElementType::kFloat32, {2})};
  data.train->feature_names = {"Unnamed: 0", "size"};
  EXPECT_THAT(Advice(JobOf(kTable), data),
              ElementsAre(AllOf(HasSubstr("train.csv.file: the column \"Unnamed: 0\" is a feature"),
                                HasSubstr("index=False"))));
  EXPECT_THAT(Advice(JobOf(kTable, "train { csv { feature: [\"Unnamed: 0\", \"size\"] } }"), data),
              IsEmpty());
}

// What is told of a table of these columns.
class FeatureAdviceTest : public ::testing::Test {
 protected:
  std::vector<std::string> Told(const std::string& rows, const std::string& more = "") {
    const std::string path = ::testing::TempDir() + "/features.csv";
    std::ofstream(path) << "size,age,kind\n" << rows;
    Job job = JobOf(kTable, more);
    job.mutable_train()->mutable_csv()->set_file(path);
    CheckedData data{.train = Info(ElementType::kFloat32, {2})};
    data.train->examples = 3;
    data.train->feature_names = {"size", "age"};
    return Advice(job, data, [](const Job& of, const CheckedData& seen, Reporter* reporter) {
      AdviseFeatures(of, seen, DataAccess::Own(), reporter);
    });
  }
};

TEST_F(FeatureAdviceTest, OneThatLiesFarFromZeroIsTold) {
  const std::string rows = "1000002,3,0\n999997,4,1\n1000000,5,1\n";
  EXPECT_THAT(Told(rows),
              ElementsAre(AllOf(HasSubstr("train.csv.file: \"size\" lies far from 0 beside what it "
                                          "varies: 999997 to 1000002 in the first samples"),
                                HasSubstr("standardise: true"))));
  EXPECT_THAT(Told(rows, "standardise: true"), IsEmpty());
  EXPECT_THAT(Told(rows, "train { mean: 1e6 }"), ElementsAre(HasSubstr("\"age\" lies far from 0")));
  EXPECT_THAT(Told("102,3,0\n97,4,1\n100,5,1\n"), IsEmpty());
  EXPECT_THAT(Told("7,3,0\n7,4,1\n7,5,1\n"), IsEmpty()) << "it is the same for all";
}

TEST_F(FeatureAdviceTest, ScalesThatDifferAreTold) {
  const std::string rows = "-5e5,3e-4,0\n5e5,1e-4,1\n0,-1e-4,1\n";
  EXPECT_THAT(Told(rows),
              ElementsAre(AllOf(HasSubstr("features differ in scale: \"size\" varies by 1e+06 in "
                                          "the first samples, \"age\" by 0.0004"),
                                HasSubstr("standardise: true"))));
  EXPECT_THAT(Told("0,0,0\n900,1,1\n3,0,1\n"), IsEmpty());
  EXPECT_THAT(Told(rows, "model { input_shape: 2 }"), IsEmpty()) << "a picture";
}

TEST(DataAdviceTest, AWordAmongNumbersIsTold) {
  CheckedData data{.train = Info(ElementType::kFloat32, {2})};
  data.train->class_names = {"1", "2", "3", "?"};
  EXPECT_THAT(Advice(JobOf(kTable), data),
              ElementsAre(HasSubstr("train.csv.file: the classes are numbers, but for \"?\"")));
  data.train->class_names = {"cat", "dog"};
  EXPECT_THAT(Advice(JobOf(kTable), data), IsEmpty());
}

TEST(DataAdviceTest, ATestSetOfOtherValuesIsTold) {
  const auto advice = [](const std::string& test, ElementType type) {
    return Advice(
        JobOf(std::string(kPictures) + "test { npy { images: \"c\" labels: \"d\" } " + test + "}"),
        {.train = Info(ElementType::kUint8, {4, 4}), .test = Info(type, {4, 4})});
  };
  EXPECT_THAT(advice("", ElementType::kUint8), IsEmpty());
  EXPECT_THAT(advice("", ElementType::kFloat32),
              ElementsAre(HasSubstr("test: its samples are float32 values as they are, those of "
                                    "train bytes, divided by 255")));
  EXPECT_THAT(advice("scale: 0.5 ", ElementType::kFloat32), IsEmpty());
  EXPECT_THAT(advice("mean: 0.5 ", ElementType::kUint8),
              ElementsAre(HasSubstr("test: its samples are changed by mean 0.5, scale 1, those of "
                                    "train by mean 0, scale 1")));
}

}  // namespace
}  // namespace monsoon
