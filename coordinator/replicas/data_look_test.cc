#include "coordinator/replicas/data_look.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace monsoon {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr absl::Duration kBegan = absl::Seconds(100);

DataReport Images(uint64_t examples, uint64_t description = 1, uint64_t content = 1) {
  DataReport report;
  DataSetSeen* const train = report.mutable_train();
  train->set_examples(examples);
  train->add_sample_shape(28);
  train->add_sample_shape(28);
  train->set_classes(10);
  train->set_description(description);
  train->set_content(content);
  return report;
}

DataReport NoFile() {
  DataReport report;
  report.add_error()->set_field("train.npz.file");
  report.mutable_error(0)->set_message("/data/train.npz: no such file");
  report.mutable_error(0)->set_suggestion("copy it");
  return report;
}

class DataLookTest : public ::testing::Test {
 protected:
  DataLookTest() {
    look_.Ask(0, 5, "worker/0 on alpha");
    look_.Ask(2, 7, "worker/2 on beta");
  }
  std::vector<std::string> Errors(absl::Duration after = absl::ZeroDuration()) {
    return Texts(look_.Verdict(kBegan + after)->errors);
  }
  std::vector<std::string> Warnings(absl::Duration after = absl::ZeroDuration()) {
    return Texts(look_.Verdict(kBegan + after)->warnings);
  }
  static std::vector<std::string> Texts(const std::vector<DataFinding>& findings) {
    std::vector<std::string> texts;
    for (const DataFinding& finding : findings) {
      texts.push_back(FindingText(finding));
    }
    return texts;
  }

  DataLook look_{Job(), kBegan};
};

TEST_F(DataLookTest, WhatAWorkerSaysIsFitForATerminal) {
  DataReport report = NoFile();
  report.mutable_error(0)->set_message("\x1b[31mno\nsuch file");
  look_.Answer(0, 5, report);
  look_.Answer(2, 7, report);
  EXPECT_THAT(Errors(), ElementsAre(HasSubstr("\\x1b[31mno\\nsuch file")));
}

TEST_F(DataLookTest, WhatBothSeeIsToldOnceWithTheirNames) {
  look_.Answer(0, 5, Images(1200));
  EXPECT_FALSE(look_.Verdict(kBegan));
  look_.Answer(2, 7, Images(1200));
  const auto verdict = look_.Verdict(kBegan);
  ASSERT_TRUE(verdict);
  EXPECT_THAT(verdict->errors, IsEmpty());
  EXPECT_THAT(verdict->warnings, IsEmpty());
  EXPECT_EQ(verdict->examples, 1200u);
  EXPECT_EQ(verdict->seen,
            "worker/0 on alpha, worker/2 on beta: train 1200 samples of [28, 28], 10 classes");
}

TEST_F(DataLookTest, AFileThatIsMissingOnOneMachineIsToldWithItsName) {
  look_.Answer(0, 5, Images(1200));
  look_.Answer(2, 7, NoFile());
  EXPECT_THAT(
      Errors(),
      ElementsAre("worker/2 on beta: /data/train.npz: no such file (train.npz.file); copy it"));
}

TEST_F(DataLookTest, AFileThatIsMissingOnAllMachinesIsToldOnce) {
  look_.Answer(0, 5, NoFile());
  look_.Answer(2, 7, NoFile());
  EXPECT_THAT(Errors(), ElementsAre("worker/0 on alpha, worker/2 on beta: "
                                    "/data/train.npz: no such file (train.npz.file); copy it"));
}

TEST_F(DataLookTest, MachinesWithDifferentFilesAreToldApart) {
  look_.Answer(0, 5, Images(1200, 1));
  look_.Answer(2, 7, Images(1000, 2));
  EXPECT_THAT(Errors(),
              ElementsAre("worker/2 on beta: it sees 1000 samples of [28, 28], "
                          "10 classes where worker/0 on alpha sees 1200 samples of "
                          "[28, 28], 10 classes (train); give all machines the same files"));
}

TEST_F(DataLookTest, FilesThatMayHoldTheSameValuesAreToldOf) {
  look_.Answer(0, 5, Images(1200, 1, 1));
  look_.Answer(2, 7, Images(1200, 1, 2));
  EXPECT_THAT(Errors(), IsEmpty());
  EXPECT_THAT(Warnings(), ElementsAre(HasSubstr("its files differ from those of worker/0")));
}

TEST_F(DataLookTest, WhoeverIsSlowIsNotWaitedForButNamed) {
  look_.Answer(0, 5, Images(1200));
  EXPECT_FALSE(look_.Verdict(kBegan + kLookFor - absl::Milliseconds(1)));
  EXPECT_THAT(Warnings(kLookFor),
              ElementsAre("worker/2 on beta: it has not looked at the data within 10 s"));
}

TEST_F(DataLookTest, NobodyThatIsGoneIsWaitedFor) {
  look_.Answer(2, 6, NoFile());  // of an earlier life
  look_.Answer(0, 5, Images(1200));
  look_.NoteGone(0, 5);  // It has answered.
  look_.NoteGone(2, 7);
  ASSERT_TRUE(look_.Verdict(kBegan));
  EXPECT_THAT(Errors(), IsEmpty());
}

TEST_F(DataLookTest, WithoutAnAnswerThereIsNoVerdict) {
  EXPECT_FALSE(look_.Verdict(kBegan + 2 * kLookFor));
  EXPECT_THAT(look_.awaited(), ElementsAre("worker/0 on alpha", "worker/2 on beta"));
  EXPECT_FALSE(look_.hopeless());
  look_.NoteGone(0, 5);
  look_.NoteGone(2, 7);
  EXPECT_TRUE(look_.hopeless());
}

}  // namespace
}  // namespace monsoon
