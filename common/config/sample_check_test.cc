// Samples that a model cannot read, and answers that its loss cannot judge.
#include "common/config/sample_check.h"

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace monsoon {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class SampleCheckTest : public ::testing::Test {
 protected:
  SampleCheckTest() { info_.type = ElementType::kFloat32; }

  void SetModel(const std::string& text) {
    ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(text, job_.mutable_model()));
  }
  // Errors, as FIELD: MESSAGE.
  std::vector<std::string> Errors(const std::function<void(const SampleCheck&)>& check) {
    std::vector<Diagnostic> found;
    Reporter reporter("FILE", &locations_, &found);
    const auto layout = ParameterLayout::Create(job_.model());
    EXPECT_TRUE(layout.ok()) << layout.status();
    check(SampleCheck(job_, *layout, &reporter));
    std::vector<std::string> errors;
    for (const Diagnostic& diagnostic : found) {
      errors.push_back(diagnostic.field + ": " + diagnostic.message);
      suggestion_ = diagnostic.suggestion;
    }
    return errors;
  }
  std::vector<std::string> IdErrors() {
    return Errors([this](const SampleCheck& check) {
      check.CheckIds("train", "train.npy.images", data_, info_);
    });
  }
  std::vector<std::string> AnswerErrors(const std::string& field = "test.npy.labels") {
    return Errors([&](const SampleCheck& check) {
      check.CheckAnswers(field, info_, [this] {
        counted_ = true;
        return uint64_t{2};
      });
    });
  }

  Job job_;
  Dataset data_;
  DatasetInfo info_;
  LocationMap locations_;
  bool counted_ = false;
  std::string suggestion_;  // of the last error
};

TEST_F(SampleCheckTest, AnEmbeddingReadsWholeNumbers) {
  SetModel(
      "input_shape: 5 layer { embedding { rows: 9 columns: 2 } } layer { flatten {} } "
      "layer { dense { units: 2 } }");
  data_.mutable_npy();
  info_.type = ElementType::kInteger;
  EXPECT_THAT(IdErrors(), IsEmpty());
  data_.set_scale(1.0);
  EXPECT_THAT(IdErrors(), IsEmpty());
  data_.set_scale(2.0);
  EXPECT_THAT(IdErrors(),
              ElementsAre("train: mean and scale change ids, which an embedding reads"));
  info_.type = ElementType::kUint8;
  EXPECT_THAT(IdErrors(),
              ElementsAre("train.npy.images: bytes are divided by 255, an embedding reads ids"));
  info_.type = ElementType::kFloat32;
  data_.clear_scale();
  EXPECT_THAT(IdErrors(), IsEmpty());
  job_.set_standardise(true);
  EXPECT_THAT(IdErrors(), ElementsAre("standardise: it changes ids, which an embedding reads"));
  job_.clear_standardise();
  data_.mutable_synthetic();
  EXPECT_THAT(IdErrors(),
              ElementsAre("train.npy.images: made samples are Gaussian, an embedding reads ids"));
  SetModel("input_shape: 5 layer { dense { units: 2 } }");
  EXPECT_THAT(IdErrors(), IsEmpty()) << "no embedding";
}

TEST_F(SampleCheckTest, SquaresOfSeveralOutputsNeedTargets) {
  SetModel("input_shape: 5 layer { dense { units: 2 } } loss: MEAN_SQUARED_ERROR");
  info_.labels = 1;
  EXPECT_THAT(AnswerErrors(),
              ElementsAre("test.npy.labels: there are labels, MEAN_SQUARED_ERROR of 2 outputs "
                          "needs as many targets a sample"));
  EXPECT_FALSE(counted_);
  SetModel("input_shape: 5 layer { dense { units: 1 } } loss: MEAN_SQUARED_ERROR");
  EXPECT_THAT(AnswerErrors(), IsEmpty()) << "a label is a number";
  info_.class_names = {"cat", "dog"};
  EXPECT_THAT(AnswerErrors(), IsEmpty()) << "classes 0 and 1";
  info_.class_names = {"-1.5", "12.25"};
  EXPECT_THAT(AnswerErrors("train.csv.file"),
              ElementsAre("train.csv.file: labels such as -1.5 are no class numbers, and so words "
                          "that are numbered in their order"));
  job_.mutable_train()->add_class_name("-1.5");
  EXPECT_THAT(AnswerErrors(), IsEmpty()) << "meant so";
}

TEST_F(SampleCheckTest, TellsHowAnswersBecomeLabels) {
  SetModel("input_shape: 5 layer { dense { units: 3 } }");
  info_.targets = 1;
  for (const auto& [field, advice] : {
           std::pair("train.npy.labels",
                     "floats are targets; write labels as integers, "
                     "labels.astype(numpy.int64)"),
           std::pair("train.csv.file", "name the class's column in label, not in target"),
           std::pair("train.libsvm.file", "leave out regression"),
       }) {
    EXPECT_THAT(AnswerErrors(field),
                ElementsAre(std::string(field) + ": there are targets, the loss is of labels"));
    EXPECT_EQ(suggestion_, advice);
  }
  job_.mutable_model()->Clear();
  SetModel("input_shape: 5 layer { dense { units: 1 } }");
  info_.targets = 0;
  EXPECT_THAT(AnswerErrors(),
              ElementsAre("test.npy.labels: there are 2 classes (labels 0 .. 1), the model has 1 "
                          "output"));
  EXPECT_EQ(suggestion_,
            "give the last layer 2 outputs, or subtract 1 from labels that begin with 1");
}

TEST_F(SampleCheckTest, NamesTheColumnsOfATableOfAnotherShape) {
  SetModel("input_shape: 2 layer { dense { units: 2 } }");
  data_.mutable_csv();
  info_.sample_shape = {3};
  info_.feature_names = {"a", "b", "weight"};
  EXPECT_THAT(Errors([this](const SampleCheck& check) {
                EXPECT_FALSE(check.CheckShape("train.csv.file", data_, info_));
              }),
              ElementsAre("train.csv.file: samples are [3] (3 values), the model's input_shape is "
                          "[2] (2)"));
  EXPECT_EQ(suggestion_,
            "the features are the columns a, b, weight; list those that are meant: feature: [...]");
}

TEST_F(SampleCheckTest, ClassesHaveWeightsTargetsHaveNone) {
  SetModel(
      "input_shape: 5 layer { dense { units: 1 } } loss: BINARY_CROSS_ENTROPY "
      "loss_settings { class_weight: 1 class_weight: 3 }");
  info_.labels = 1;
  EXPECT_THAT(AnswerErrors(), IsEmpty());
  info_.targets = 1;
  EXPECT_THAT(AnswerErrors(), ElementsAre("test.npy.labels: there are targets, "
                                          "loss_settings.class_weight is of labels"));
}

TEST_F(SampleCheckTest, SeveralTargetsTellNoAccuracy) {
  SetModel("input_shape: 5 layer { dense { units: 3 } } loss: BINARY_CROSS_ENTROPY");
  job_.mutable_stop()->set_target_accuracy(0.9);
  job_.mutable_checkpoint()->set_keep_best(TEST_ACCURACY);
  info_.targets = 3;
  EXPECT_THAT(AnswerErrors(),
              ElementsAre("stop.target_accuracy: several targets a sample tell no accuracy",
                          "checkpoint.keep_best: several targets a sample tell no accuracy"));
  EXPECT_THAT(AnswerErrors("train.npy.labels"), IsEmpty()) << "once";
}

}  // namespace
}  // namespace monsoon
