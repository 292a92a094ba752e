#include "common/config/data_advice.h"

#include <string>
#include <vector>

#include "common/config/location_map.h"
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

std::vector<std::string> Advice(const Job& job, const CheckedData& data) {
  const LocationMap locations;
  std::vector<Diagnostic> warnings;
  Reporter reporter("", &locations, &warnings);
  AdviseData(job, data, &reporter);
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
