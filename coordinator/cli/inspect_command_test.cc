#include <cstring>

#include "coordinator/cli/checkpoint_fixture.h"
#include "gmock/gmock.h"
#include "google/protobuf/struct.pb.h"
#include "google/protobuf/util/json_util.h"

namespace monsoon {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class InspectTest : public CheckpointCliTest {
 protected:
  google::protobuf::Struct Json(const std::string& what, int code = 0) {
    EXPECT_EQ(Run({"inspect", what, "--json"}), code) << cli_.err();
    google::protobuf::Struct json;
    EXPECT_TRUE(google::protobuf::util::JsonStringToMessage(cli_.out(), &json).ok()) << cli_.out();
    return json;
  }
};

TEST_F(InspectTest, TellsAllOfAJob) {
  Keep({.generation = 1});
  Keep({.generation = 2, .steps = 24});
  EXPECT_EQ(Run({"inspect", "tiny-1"}), 0);
  EXPECT_THAT(
      cli_.out(),
      AllOf(HasSubstr("job          tiny-1, submitted in term 1000\n"),
            HasSubstr("folder       /state/jobs/tiny-1@1000\n"),
            HasSubstr("model        tiny: 2 tensors, 8 parameters\n  a/weight (2, 3)\n"
                      "  a/bias (2)\n"),
            HasSubstr("optimizer    adagrad, 1 floats of state for each parameter\n"),
            HasSubstr("generation 2  complete, all checksums hold\n  epoch 1.5, 24 steps, "),
            HasSubstr(", made 90 s ago: every 10 s\n  ps/0 of 2  good, "),
            HasSubstr(", versions 12 to 12, epoch 3 (from generation 1 of epoch 2)\n"),
            HasSubstr("generation 1  complete, all checksums hold\n  epoch 1.5, 12 steps, ")));
  EXPECT_EQ(cli_.err(), "");
  EXPECT_TRUE(cli_.coordinator.calls.empty());
}

// A checkpoint of another machine, or a clock that was set back.
TEST_F(InspectTest, AClockAheadTellsNoAge) {
  cli_.clock.Advance(absl::Hours(24 * 365));
  Keep({.generation = 7});
  cli_.clock.Advance(-absl::Hours(24 * 300));
  EXPECT_EQ(Run({"inspect", "tiny-1"}), 0);
  EXPECT_THAT(cli_.out(),
              HasSubstr(", made at 1971-01-01 00:58 UTC, which this machine's clock has "
                        "not reached: every 10 s\n"));
  const google::protobuf::Struct json = Json("latest");
  EXPECT_TRUE(json.fields()
                  .at("generations")
                  .list_value()
                  .values(0)
                  .struct_value()
                  .fields()
                  .at("age_s")
                  .has_null_value());
}

TEST_F(InspectTest, JsonHasItAll) {
  Keep({.generation = 7});
  const google::protobuf::Struct json = Json("latest");
  const auto& fields = json.fields();
  EXPECT_EQ(fields.at("schema_version").number_value(), 1);
  EXPECT_EQ(fields.at("job").string_value(), "tiny-1");
  EXPECT_EQ(fields.at("job_term").number_value(), 1000);
  EXPECT_EQ(fields.at("folder").string_value(), Folder());
  EXPECT_TRUE(fields.at("ok").bool_value());
  EXPECT_EQ(fields.at("optimizer").string_value(), "adagrad");
  EXPECT_EQ(fields.at("state_slots").number_value(), 1);
  const auto& model = fields.at("model").struct_value().fields();
  EXPECT_EQ(model.at("parameters").number_value(), 8);
  EXPECT_EQ(model.at("tensors").list_value().values_size(), 2);
  ASSERT_EQ(fields.at("generations").list_value().values_size(), 1);
  const auto& generation = fields.at("generations").list_value().values(0).struct_value().fields();
  EXPECT_EQ(generation.at("generation").number_value(), 7);
  EXPECT_EQ(generation.at("shards").number_value(), 2);
  EXPECT_TRUE(generation.at("complete").bool_value());
  EXPECT_TRUE(generation.at("ok").bool_value());
  EXPECT_EQ(generation.at("age_s").number_value(), 90);
  const auto& context = generation.at("context").struct_value().fields();
  EXPECT_EQ(context.at("reason").string_value(), "every 10 s");
  EXPECT_EQ(context.at("epoch").number_value(), 1.5);
  EXPECT_EQ(context.at("steps").number_value(), 12);
  const auto& part = generation.at("parts").list_value().values(1).struct_value().fields();
  EXPECT_EQ(part.at("shard").number_value(), 1);
  EXPECT_EQ(part.at("manifest").string_value(), Part({.generation = 7}, 1, "manifest"));
  EXPECT_EQ(part.at("version_max").number_value(), 17);
  EXPECT_EQ(part.at("epoch").number_value(), 3);
  EXPECT_EQ(part.at("parent_generation").number_value(), 6);
  EXPECT_TRUE(part.at("error").has_null_value());
  const auto& first = generation.at("parts").list_value().values(0).struct_value().fields();
  EXPECT_EQ(generation.at("bytes").number_value(),
            first.at("bytes").number_value() + part.at("bytes").number_value());
}

TEST_F(InspectTest, TellsWhatOfTablesWasTouched) {
  UseTables();
  Keep({.shards = 3, .touched = {2}});
  EXPECT_EQ(Run({"inspect", "tiny-1"}), 0) << cli_.err();
  EXPECT_THAT(cli_.out(),
              AllOf(HasSubstr("model        words: 1 tensors, 50 parameters\n  w (50)\n"
                              "  table words (7, 2)\n  table users (4, 1)\n"),
                    HasSubstr("ago: every 10 s\n  table words: 1 of 3 stripes touched\n"
                              "  table users: 1 of 2 stripes touched\n  90 rows applied\n"
                              "  ps/0 of 3  good")));
  const google::protobuf::Struct json = Json("latest");
  const auto& model = json.fields().at("model").struct_value().fields();
  ASSERT_EQ(model.at("tables").list_value().values_size(), 2);
  const auto& words = model.at("tables").list_value().values(0).struct_value().fields();
  EXPECT_EQ(words.at("name").string_value(), "words");
  EXPECT_EQ(words.at("rows").number_value(), 7);
  EXPECT_EQ(words.at("columns").number_value(), 2);
  const auto& generation =
      json.fields().at("generations").list_value().values(0).struct_value().fields();
  const auto& part = generation.at("parts").list_value().values(2).struct_value().fields();
  EXPECT_EQ(part.at("rows_applied").number_value(), 30);
  ASSERT_EQ(part.at("tables").list_value().values_size(), 2);
  const auto& of_words = part.at("tables").list_value().values(0).struct_value().fields();
  EXPECT_EQ(of_words.at("touched_stripes").number_value(), 1);
  EXPECT_EQ(of_words.at("stripes").number_value(), 1);
}

TEST_F(InspectTest, DamageIsNamedAndExits5) {
  Keep({.generation = 1});
  Keep({.generation = 2});
  const std::string file = Part({.generation = 1}, 1, "safetensors");
  // The first float: neither header nor record, which are looked at when it is opened.
  ASSERT_OK_AND_ASSIGN(const std::string bytes, cli_.storage.ReadAll(file, 1 << 20));
  uint64_t header = 0;
  std::memcpy(&header, bytes.data(), sizeof(header));
  cli_.storage.CorruptByte(file, sizeof(header) + header + 1, 4);
  EXPECT_EQ(Run({"inspect", "tiny-1"}), 5);
  EXPECT_THAT(cli_.out(), AllOf(HasSubstr("generation 2  complete, all checksums hold\n"),
                                HasSubstr("generation 1  BAD\n"), HasSubstr("  ps/0 of 2  good"),
                                HasSubstr("  ps/1 of 2  BAD, "), HasSubstr(file)));
  EXPECT_THAT(cli_.err(), HasSubstr(file));
  const google::protobuf::Struct json = Json("tiny-1", 5);
  EXPECT_FALSE(json.fields().at("ok").bool_value());
  // The good part of it is good.
  EXPECT_EQ(Run({"inspect", Part({.generation = 1}, 0, "manifest")}), 0);
  EXPECT_THAT(cli_.out(), AllOf(HasSubstr("generation 1  complete"), Not(HasSubstr("ps/1"))));
  EXPECT_EQ(Run({"inspect", file}), 5);
  // Nothing of a part can be opened.
  ASSERT_OK(cli_.storage.Remove(Part({.generation = 1}, 0, "safetensors")));
  EXPECT_EQ(Run({"inspect", Part({.generation = 1}, 0, "manifest")}), 5);
  EXPECT_THAT(cli_.out(), HasSubstr("BAD"));
  const google::protobuf::Struct unknown = Json(Part({.generation = 1}, 0, "manifest"), 5);
  EXPECT_TRUE(unknown.fields().at("job").has_null_value());
  EXPECT_TRUE(unknown.fields().at("model").has_null_value());
}

TEST_F(InspectTest, WhatIsNotCompleteIsSaidAndIsNoDamage) {
  Keep({.generation = 1});
  Keep({.generation = 2, .without = 1});
  EXPECT_EQ(Run({"inspect", Folder()}), 0);
  EXPECT_THAT(cli_.out(), HasSubstr("generation 2  not complete, its checksums hold; missing: the "
                                    "parts of ps/1\n"));
}

// A part's manifest is removed before its file; a power cut may undo the first alone.
TEST_F(InspectTest, AGenerationOfWhichOnlyManifestsAreLeftIsGoneAndIsNoDamage) {
  Keep({.generation = 1});
  Keep({.generation = 2});
  Keep({.generation = 3});
  ASSERT_OK(cli_.storage.Remove(Part({.generation = 1}, 0, "safetensors")));
  ASSERT_OK(cli_.storage.Remove(Part({.generation = 1}, 1, "safetensors")));
  ASSERT_OK(cli_.storage.Remove(Part({.generation = 2}, 1, "safetensors")));
  EXPECT_EQ(Run({"inspect", "tiny-1"}), 0) << cli_.err();
  EXPECT_THAT(cli_.out(),
              AllOf(HasSubstr("generation 3  complete, all checksums hold\n"),
                    HasSubstr("generation 2  not complete, its checksums hold; missing: the parts "
                              "of ps/1\n"),
                    HasSubstr("  ps/0 of 2  good, "),
                    HasSubstr("  ps/1 of 2  gone: it was deleted, and only its manifest is left\n"),
                    HasSubstr("generation 1  gone: it was deleted, and only manifests of ps/0, "
                              "ps/1 are left\n"),
                    Not(HasSubstr("BAD"))));
  const google::protobuf::Struct json = Json("tiny-1");
  EXPECT_TRUE(json.fields().at("ok").bool_value());
  const auto& generations = json.fields().at("generations").list_value();
  ASSERT_EQ(generations.values_size(), 3);
  const auto list = [&](int index, const char* key) {
    const auto& fields = generations.values(index).struct_value().fields();
    return fields.at(key).list_value().values_size();
  };
  EXPECT_EQ(list(0, "gone"), 0);
  EXPECT_EQ(list(1, "gone"), 1);
  EXPECT_EQ(list(1, "missing"), 1);
  EXPECT_EQ(list(2, "gone"), 2);
  EXPECT_EQ(list(2, "parts"), 0);
  const auto& oldest = generations.values(2).struct_value().fields();
  EXPECT_EQ(oldest.at("generation").number_value(), 1);
  EXPECT_FALSE(oldest.at("complete").bool_value());
  EXPECT_TRUE(oldest.at("age_s").has_null_value());
}

// Of the newest part of a shard nobody has removed the file on purpose.
TEST_F(InspectTest, TheNewestPartWithoutItsFileIsDamage) {
  Keep({.generation = 1});
  Keep({.generation = 2});
  const std::string file = Part({.generation = 2}, 1, "safetensors");
  ASSERT_OK(cli_.storage.Remove(file));
  EXPECT_EQ(Run({"inspect", "tiny-1"}), 5);
  EXPECT_THAT(cli_.out(), AllOf(HasSubstr("generation 2  BAD"), HasSubstr(file)));
  // Nor is one gone that has only a damaged one after it.
  ASSERT_OK(cli_.storage.Remove(Part({.generation = 1}, 1, "safetensors")));
  EXPECT_EQ(Run({"inspect", "tiny-1"}), 5);
  EXPECT_THAT(cli_.out(), AllOf(HasSubstr("generation 1  BAD"), Not(HasSubstr("gone"))));
}

TEST_F(InspectTest, WhatIsNoCheckpointExits2) {
  EXPECT_EQ(Run({"inspect", "tiny-9"}), 2);
  EXPECT_THAT(cli_.err(), AllOf(HasSubstr("there is no checkpoint of any job in /state/jobs"),
                                HasSubstr("nor is there a file or folder tiny-9 here")));
  Keep({});
  EXPECT_EQ(Run({"inspect", "tiny-9"}), 2);
  EXPECT_THAT(cli_.err(), HasSubstr("there is no checkpoint of tiny-9 in /state/jobs; there are "
                                    "those of tiny-1"));
  EXPECT_EQ(Run({"inspect", "/state"}), 2);
  EXPECT_THAT(cli_.err(), HasSubstr("is a state folder"));
  ASSERT_OK(cli_.storage.WriteAll("/state/model.npz", "PK"));
  EXPECT_EQ(Run({"inspect", "/state/model.npz"}), 2);
  EXPECT_THAT(cli_.err(), HasSubstr("is no checkpoint"));
  cli_.variables["MONSOON_STATE_DIR"] = "";
  EXPECT_EQ(Run({"inspect", "tiny-1"}), 2);
  EXPECT_THAT(cli_.err(), AllOf(HasSubstr("keeps nothing on the disk"), HasSubstr(cluster_)));
  EXPECT_EQ(Run({"inspect"}), 2);
}

TEST_F(InspectTest, OfSeveralLivesTheOneWrittenLast) {
  Keep({.term = 2000, .steps = 5});
  Keep({.job = "other-1", .term = 3000});
  Keep({.term = 2500, .steps = 6});
  EXPECT_EQ(Run({"inspect", "tiny-1"}), 0);
  EXPECT_THAT(cli_.out(), HasSubstr("term 2500\n"));
  EXPECT_EQ(Run({"inspect", "tiny-1@2000"}), 0);
  EXPECT_THAT(cli_.out(), HasSubstr("epoch 1.5, 5 steps"));
}

}  // namespace
}  // namespace monsoon
