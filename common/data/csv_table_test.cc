#include "common/data/csv_table.h"

#include <zlib.h>

#include <filesystem>
#include <fstream>

#include "common/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace monsoon {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::StatusIs;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

class CsvTableTest : public ::testing::Test {
 protected:
  // As file `name`; returns its path.
  std::string Write(const std::string& text, const std::string& name = "t.csv") {
    const std::string path = std::filesystem::path(::testing::TempDir()) / name;
    std::ofstream(path, std::ios::binary) << text;
    return path;
  }

  absl::StatusOr<SampleTable> Read(const std::string& text) {
    return ReadCsvTable(source_, {Write(text)}, options_);
  }

  void ExpectError(const std::string& text, const std::string& message) {
    EXPECT_THAT(Read(text), StatusIs(kInvalid, HasSubstr(message))) << text;
  }

  CsvSource source_;
  TableOptions options_;
};

TEST_F(CsvTableTest, ReadsAllOtherColumnsAsFeatures) {
  source_.set_label("kind");
  source_.set_weight("w");
  ASSERT_OK_AND_ASSIGN(const SampleTable table, Read("\xef\xbb\xbf"
                                                     "b,kind,a,w\r\n"
                                                     "1,2,0.5,1\r\n"
                                                     "-1,0,\" 3e1\",0.25\r\n"
                                                     "\r\n"));
  EXPECT_EQ(table.examples, 2u);
  EXPECT_EQ(table.features, 2u);
  EXPECT_EQ(table.classes, 3u);
  EXPECT_THAT(table.values, ElementsAre(1.0f, 0.5f, -1.0f, 30.0f));
  EXPECT_THAT(table.labels, ElementsAre(2, 0));
  EXPECT_THAT(table.weights, ElementsAre(1.0f, 0.25f));
  EXPECT_THAT(table.facts.features, ElementsAre("b", "a"));
  EXPECT_THAT(table.facts.class_names, IsEmpty());
}

TEST_F(CsvTableTest, ReadsNamedFeaturesAndTargetsInTheirOrder) {
  source_.add_target("y");
  source_.add_target("x");
  source_.add_feature("c");
  source_.add_feature("a");
  source_.set_delimiter(";");
  ASSERT_OK_AND_ASSIGN(const SampleTable table, Read("a;b;c;x;y\n1;text;3;4;5\n6;;8;9;10"));
  EXPECT_THAT(table.values, ElementsAre(3.0f, 1.0f, 8.0f, 6.0f));
  EXPECT_THAT(table.targets, ElementsAre(5.0f, 4.0f, 10.0f, 9.0f));
  EXPECT_EQ(table.targets_per_example, 2u);
  EXPECT_THAT(table.labels, IsEmpty());
  EXPECT_EQ(table.classes, 0u);
}

TEST_F(CsvTableTest, NumbersWordsInTheOrderOfTheirBytes) {
  source_.set_label("kind");
  ASSERT_OK_AND_ASSIGN(const SampleTable table,
                       Read("a,kind\n1,pear\n2,Zebra\n3,apple\n4,pear\n5,10\n"));
  EXPECT_THAT(table.facts.class_names, ElementsAre("10", "Zebra", "apple", "pear"));
  EXPECT_THAT(table.labels, ElementsAre(3, 1, 2, 3, 0));
  EXPECT_EQ(table.classes, 4u);
}

TEST_F(CsvTableTest, ClassNamesNumberWords) {
  source_.set_label("kind");
  options_.class_names = {"pear", "apple", "plum"};
  ASSERT_OK_AND_ASSIGN(const SampleTable table, Read("a,kind\n1,apple\n2,pear\n3,2\n"));
  EXPECT_THAT(table.labels, ElementsAre(1, 0, 2));  // names are no numbers, so 2 is a class
  EXPECT_EQ(table.classes, 3u);
  ExpectError("a,kind\n1,apple\n2,pea\n",
              ":3: column \"kind\": \"pea\" is none of the classes pear, apple, plum");
  ExpectError("a,kind\n1,3\n", "\"3\" is none of the classes");
  options_.class_names = {"1", "2"};
  EXPECT_THAT(Read("a,kind\n1,1\n2,2\n")->labels, ElementsAre(0, 1));
  ExpectError("a,kind\n1,0\n", "\"0\" is none of the classes 1, 2");
}

TEST_F(CsvTableTest, ATestSetIsReadByItsTrainingSet) {
  source_.set_label("kind");
  source_.set_missing_mean(true);
  ASSERT_OK_AND_ASSIGN(const SampleTable train, Read("a,b,kind\n1,,no\n3,6,yes\n,2,no\n"));
  EXPECT_THAT(train.values, ElementsAre(1, 4, 3, 6, 2, 2));
  EXPECT_THAT(train.facts.means, ElementsAre(2.0, 4.0));
  options_.train = &train.facts;
  ASSERT_OK_AND_ASSIGN(const SampleTable test, Read("kind,more,b,a\nyes,x,,100\nyes,y,50,\n"));
  EXPECT_THAT(test.values, ElementsAre(100, 4, 2, 50));
  EXPECT_THAT(test.labels, ElementsAre(1, 1));
  EXPECT_THAT(test.facts.class_names, ElementsAre("no", "yes"));
  ExpectError("a,b,kind\n1,2,no\n1,2,maybe\n",
              ":3: column \"kind\": \"maybe\" is none of the classes no, yes");
  ExpectError("a,c,kind\n1,2,no\n", ":1: no column is called \"b\" (feature)");
  source_.clear_label();
  EXPECT_THAT(Read("a,b\n1,2\n")->labels, IsEmpty());
}

TEST_F(CsvTableTest, ATestSetIsNotReadInAnotherWayThanItsTrainingSet) {
  source_.set_label("kind");
  ASSERT_OK_AND_ASSIGN(const SampleTable train, Read("a,b,kind\n1,2,no\n3,4,yes\n"));
  options_.train = &train.facts;
  // Spaces around a word are none of its letters.
  EXPECT_THAT(Read("a,b,kind\n1,2, yes\n1,2,no \n")->labels, ElementsAre(1, 0));
  // Its words have no numbers that a file could know, unless a job gave them.
  ExpectError("a,b,kind\n1,2,0\n", ":2: column \"kind\": \"0\" is none of the classes no, yes");
  options_.names_are_given = true;
  EXPECT_THAT(Read("a,b,kind\n1,2,0\n")->labels, ElementsAre(0));
  options_.class_names = {"no", "yes"};
  EXPECT_OK(Read("a,b,kind\n1,2,yes\n").status());
  options_.class_names = {"yes", "no"};
  ExpectError("a,b,kind\n1,2,yes\n",
              ":1: class_name differs from the training set's classes no, yes; leave it out");
  options_.class_names.clear();
  for (const char* name : {"b", "a"}) source_.add_feature(name);
  ExpectError("a,b,kind\n1,2,yes\n", ":1: feature differs from the training set's columns a, b");
}

TEST_F(CsvTableTest, ATestSetOfNumberedClassesHasNoWords) {
  source_.set_label("kind");
  ASSERT_OK_AND_ASSIGN(const SampleTable train, Read("a,kind\n1,0\n3,2\n"));
  options_.train = &train.facts;
  EXPECT_THAT(Read("a,kind\n1,1\n")->labels, ElementsAre(1));
  ExpectError("a,kind\n1,1\n1,two\n", ":3: column \"kind\": \"two\" is no class");
}

TEST_F(CsvTableTest, MissingFieldsAreFilledOrNamed) {
  source_.set_label("k");
  ExpectError("a,k,b\n1,0,2\n1,0,\n", ":3: column \"b\": the field is empty");
  source_.set_missing_value(-1);
  EXPECT_THAT(Read("a,k,b\n1,0,2\n ,0,\n")->values, ElementsAre(1, 2, -1, -1));
  source_.set_missing_mean(true);
  ExpectError("a,k,b\n1,0,\n2,0,\n", "column \"b\" has no value at all");
}

TEST_F(CsvTableTest, LimitAndFilesInTheirOrder) {
  source_.set_label("k");
  const std::string one = Write("a,k\n1,0\n2,1\n", "one.csv");
  const std::string two = Write("a,k\n3,5\n4,1\n", "two.csv");
  options_.limit = 3;
  ASSERT_OK_AND_ASSIGN(SampleTable table, ReadCsvTable(source_, {one, two}, options_));
  EXPECT_THAT(table.values, ElementsAre(1, 2, 3));
  EXPECT_EQ(table.classes, 6u);
  const std::string other = Write("k,a\n3,5\n", "other.csv");
  EXPECT_THAT(ReadCsvTable(source_, {one, other}, options_),
              StatusIs(kInvalid, HasSubstr("other.csv:1: the header is not that of ")));
  options_.keep_values = false;
  ASSERT_OK_AND_ASSIGN(table, ReadCsvTable(source_, {one, two}, options_));
  EXPECT_THAT(table.values, IsEmpty());
  EXPECT_EQ(table.examples, 3u);
}

TEST_F(CsvTableTest, ReadsGzip) {
  source_.set_label("k");
  const std::string path = Write("", "t.csv.gz");
  gzFile file = gzopen(path.c_str(), "wb");
  gzputs(file, "a,k\n7,1\n");
  gzclose(file);
  EXPECT_THAT(ReadCsvTable(source_, {path}, options_)->values, ElementsAre(7));
  std::filesystem::resize_file(path, std::filesystem::file_size(path) - 3);
  EXPECT_THAT(ReadCsvTable(source_, {path}, options_),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("cut short or damaged")));
}

TEST_F(CsvTableTest, NamesFileLineAndColumnOfWhatIsWrong) {
  source_.set_label("k");
  ExpectError("", "t.csv: the file is empty");
  ExpectError("a,k\n", "t.csv:1: no row follows the header");
  ExpectError("a,k\n1,0\n1,2,3\n", "t.csv:3: the row has 3 fields, the header 2");
  ExpectError("a,k\n1,0\n1\n", "t.csv:3: the row has 1 field, the header 2");
  ExpectError("a,k\n1e400,0\n", "t.csv:2: column \"a\": \"1e400\" is beyond what float32 holds");
  ExpectError("a,k\nnan,0\n", "t.csv:2: column \"a\": \"nan\" is not a finite number");
  ExpectError("a,k\n0x1,0\n", "t.csv:2: column \"a\": \"0x1\" is not a number");
  ExpectError("a,k\n1,\n", "t.csv:2: column \"k\": the label is empty");
  ExpectError("1.5,0\n2.5,1\n", "t.csv:1: these are numbers; the first line names the columns");
  ExpectError("a,b\n1,2\n", "t.csv:1: no column is called \"k\" (label); there are a, b");
  ExpectError("a;k\n1;2\n",
              "no column is called \"k\" (label); there are a;k; is the delimiter another one, "
              "\";\"?");
  ExpectError("a,a,k\n1,2,0\n", "t.csv:1: two columns are called \"a\"");
  ExpectError(",a,k\n0,1,0\n", "t.csv:1: column 1 has no name; leave it out");
  ExpectError("k\n1\n", "t.csv:1: no column is left for the features");
  source_.set_weight("w");
  ExpectError("a,k,w\n1,0,-2\n", "t.csv:2: column \"w\": -2 is no weight");
  source_.set_weight("k");
  ExpectError("a,k\n1,0\n", "column \"k\" is taken twice: as label and as weight");
  EXPECT_THAT(ReadCsvTable(source_, {"/nowhere/t.csv"}, options_),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("/nowhere/t.csv")));
}

}  // namespace
}  // namespace monsoon
