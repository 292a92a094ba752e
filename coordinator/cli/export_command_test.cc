// Export from the disk, and in both formats; from the cluster: cli_test.
#include <unistd.h>

#include <cstring>
#include <fstream>

#include "common/model/table_info.h"
#include "common/model_file/model_file.h"
#include "common/npz/npz_reader.h"
#include "common/safetensors/safetensors_file.h"
#include "common/storage/storage.h"
#include "coordinator/cli/checkpoint_fixture.h"
#include "gmock/gmock.h"
#include "proto/onnx.pb.h"

namespace monsoon {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class ExportTest : public CheckpointCliTest {
 protected:
  std::vector<float> Exported(const std::string& path) const {
    const absl::StatusOr<std::vector<float>> read = ReadModelFile(layout_, path);
    EXPECT_OK(read.status());
    return read.ok() ? *read : std::vector<float>();
  }
  static constexpr char kTaken[] =
      "coordinator: taken from the checkpoint in /state/jobs/tiny-1@1000: tiny-1 generation 2 "
      "(epoch 1.5, 12 steps), made 90 s ago: every 10 s\n";
};

TEST_F(ExportTest, TheClustersAnswerComesFirst) {
  Keep({});
  const ParameterLayout layout = Layout();
  cli_.transfer.parameters = Parameters(500);
  for (const std::string suffix : {"npz", "safetensors"}) {
    const std::string out = folder_ + "/m." + suffix;
    EXPECT_EQ(Run({"export", "tiny-1", "--out=" + out, "--format=" + suffix}), 0);
    EXPECT_EQ(Exported(out), Parameters(500));
    EXPECT_EQ(cli_.err(), "");
    EXPECT_EQ(cli_.out(), out + ": tiny-1, 2 tensors, 8 parameters\n");
  }
}

TEST_F(ExportTest, AsOnnxFromTheShardsAndFromTheDisk) {
  Keep({});
  const ParameterLayout layout = Layout();
  cli_.transfer.parameters = Parameters(500);
  const std::string live = folder_ + "/live.onnx", kept = folder_ + "/kept.onnx";
  EXPECT_EQ(Run({"export", "tiny-1", "--out=" + live, "--format=onnx"}), 0) << cli_.err();
  EXPECT_EQ(cli_.out(), live + ": tiny-1, 2 tensors, 8 parameters\n");
  EXPECT_EQ(Run({"export", "--from=" + Folder(), "--out=" + kept}), 0) << cli_.err();
  for (const auto& [path, parameters] :
       {std::pair(live, Parameters(500)), std::pair(kept, Parameters())}) {
    std::ifstream file(path, std::ios::binary);
    onnx::ModelProto model;
    ASSERT_TRUE(model.ParseFromIstream(&file));
    ASSERT_EQ(model.graph().initializer_size(), 2);
    const std::string& values = model.graph().initializer(0).raw_data();
    EXPECT_EQ(0, memcmp(values.data(), parameters.data(), values.size())) << path;
  }
}

// The values of a tensor of a .safetensors file, and its shape.
struct Tensor {
  std::vector<uint64_t> shape;
  std::vector<float> values;
  bool operator==(const Tensor&) const = default;
};
Tensor ReadTensor(const std::string& path, const std::string& name) {
  const absl::StatusOr<SafetensorsReader> reader = SafetensorsReader::Open(PosixStorage(), path);
  EXPECT_OK(reader.status());
  const SafetensorsReader::Tensor* const found = reader->Find(name);
  if (found == nullptr) {
    return {};
  }
  Tensor tensor{found->shape, std::vector<float>(found->bytes / sizeof(float))};
  EXPECT_OK(reader->Read(*found, 0, std::as_writable_bytes(std::span(tensor.values))));
  return tensor;
}

TEST_F(ExportTest, TablesAreTensorsOfAllTheirRows) {
  UseTables();
  const std::string out = folder_ + "/m.safetensors";
  // From the shards.
  cli_.transfer.parameters = Parameters(500);
  cli_.transfer.rows = {{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13}, {20, 21, 22, 23}};
  EXPECT_EQ(Run({"export", "tiny-1", "--out=" + out}), 0) << cli_.err();
  EXPECT_EQ(cli_.out(), out +
                            ": tiny-1, 1 tensors, 50 parameters, table words of 7 rows, table "
                            "users of 4 rows\n");
  EXPECT_EQ(ReadTensor(out, "words"), (Tensor{{7, 2}, cli_.transfer.rows[0]}));
  EXPECT_EQ(ReadTensor(out, "users"), (Tensor{{4, 1}, cli_.transfer.rows[1]}));
  EXPECT_EQ(ReadTensor(out, "w").values[19], 519);
  // From the disk: what was touched, and the rest as it begins.
  Keep({.shards = 3, .touched = {1}});
  EXPECT_EQ(Run({"export", "--from=" + Folder(), "--out=" + out, "--json"}), 0) << cli_.err();
  EXPECT_THAT(cli_.out(), HasSubstr(R"("tensors":1,"parameters":50,"tables":2,"checkpoint":)"));
  EXPECT_EQ(ReadTensor(out, "words"), (Tensor{{7, 2},
                                              {0.25, 0.25, 0.25, 0.25, 0.25, 0.25, 1003, 1003, 1004,
                                               1004, 1005, 1005, 0.25, 0.25}}));
  std::vector<float> users(4);
  InitializeRows(layout_.tables()[1], 1, /*seed=*/3, 0, users);
  users[0] = 2000;
  users[1] = 2001;
  EXPECT_EQ(ReadTensor(out, "users"), (Tensor{{4, 1}, users}));
  EXPECT_EQ(Run({"export", "--from=" + Folder(), "--out=" + model_}), 0) << cli_.err();
  ASSERT_OK_AND_ASSIGN(const NpzReader npz, NpzReader::Open(model_));
  ASSERT_OK_AND_ASSIGN(const NpzReader::Array array, npz.Read("users"));
  EXPECT_EQ(array.values, users);
}

TEST_F(ExportTest, RowsThatGetLostLeaveNoFile) {
  UseTables();
  const std::string out = folder_ + "/m.safetensors";
  cli_.transfer.parameters = Parameters();
  cli_.transfer.rows = {std::vector<float>(14), std::vector<float>(4)};
  int fetches = 0;
  cli_.transfer.during_fetch = [&] {
    if (++fetches == 3) {  // the parameters and one table came
      cli_.transfer.status = absl::UnavailableError("ps/0 was started anew");
    }
  };
  EXPECT_EQ(Run({"export", "tiny-1", "--out=" + out}), 3);
  EXPECT_THAT(cli_.err(), HasSubstr("ps/0 was started anew"));
  EXPECT_NE(access(out.c_str(), F_OK), 0);
}

TEST_F(ExportTest, WithoutTheClusterTheNewestGoodGenerationIsTaken) {
  Keep({.generation = 1, .first = 10});
  Keep({.generation = 2, .first = 20});
  Keep({.generation = 3, .first = 30});
  Keep({.generation = 4, .first = 40, .without = 0});
  cli_.storage.CorruptByte(Part({.generation = 3}, 1, "safetensors"), 20, 1);
  const auto expect = [&](const std::string& why) {
    EXPECT_EQ(Run({"export", "tiny-1", "--out=" + model_}), 0) << cli_.err();
    EXPECT_EQ(Exported(model_), Parameters(20));
    EXPECT_THAT(cli_.err(),
                AllOf(HasSubstr(why), HasSubstr(kTaken), HasSubstr("passed over: generation 4"),
                      HasSubstr("passed over: generation 3"),
                      HasSubstr(Part({.generation = 3}, 1, "safetensors")),
                      Not(HasSubstr("passed over: generation 1"))));
    ASSERT_EQ(unlink(model_.c_str()), 0);
  };
  cli_.coordinator.down = kDown;
  expect("coordinator at unix:c not reached");
  cli_.coordinator.down = absl::OkStatus();
  cli_.coordinator.locate_error = absl::NotFoundError("no job \"tiny-1\"");
  expect("no job \"tiny-1\"");
  cli_.coordinator.locate_error = absl::FailedPreconditionError("job tiny-1 has lost parameters");
  expect("has lost parameters");
  cli_.coordinator.locate_error = absl::OkStatus();
  Layout();
  cli_.transfer.status = absl::UnavailableError("ps/0 has been started anew");
  expect("ps/0 has been started anew");
}

TEST_F(ExportTest, LatestIsTheJobWrittenLast) {
  Keep({.job = "old-1", .term = 1, .first = 5});
  Keep({.term = 7, .first = 9});
  cli_.coordinator.down = kDown;
  EXPECT_EQ(Run({"export", "latest", "--out=" + model_, "--json"}), 0);
  EXPECT_EQ(cli_.out(), absl::StrCat(R"({"schema_version":1,"job":"tiny-1","out":")", model_,
                                     R"(","tensors":2,"parameters":8,"tables":0,"checkpoint":")",
                                     Folder({.term = 7}), R"(","generation":1})", "\n"));
  EXPECT_EQ(Exported(model_), Parameters(9));
}

TEST_F(ExportTest, WhereNeitherHasItBothAreNamed) {
  cli_.coordinator.down = kDown;
  EXPECT_EQ(Run({"export", "tiny-1", "--out=" + model_}), 3);
  EXPECT_EQ(cli_.err(),
            absl::StrCat("coordinator export: coordinator at unix:c not reached; on the "
                         "disk: there is no checkpoint of any job in /state/jobs; is the cluster "
                         "up? start it: coordinator up --cluster=",
                         cluster_, "\n"));
  cli_.coordinator.down = absl::OkStatus();
  cli_.coordinator.locate_error = absl::NotFoundError("no job \"tiny-1\"");
  EXPECT_EQ(Run({"export", "tiny-1", "--out=" + model_}), 2);
  Keep({});
  for (const uint32_t shard : {0, 1}) {
    cli_.storage.CorruptByte(Part({}, shard, "safetensors"), 20, 1);
  }
  EXPECT_EQ(Run({"export", "tiny-1", "--out=" + model_}), 5);
  EXPECT_THAT(cli_.err(), AllOf(HasSubstr("no job \"tiny-1\""), HasSubstr(Folder()),
                                HasSubstr(Part({}, 0, "safetensors"))));
  EXPECT_NE(access(model_.c_str(), F_OK), 0);
}

TEST_F(ExportTest, FromAsksTheDiskAlone) {
  Keep({.generation = 1, .first = 10});
  Keep({.generation = 2, .first = 20});
  const auto expect = [&](std::vector<std::string> args, double first) {
    args.insert(args.begin(), "export");
    args.push_back("--out=" + model_);
    EXPECT_EQ(Run(args), 0) << cli_.err();
    EXPECT_EQ(Exported(model_), Parameters(first));
  };
  expect({"tiny-1", "--from=/state"}, 20);
  expect({"latest", "--from=/state"}, 20);
  EXPECT_EQ(cli_.err(), kTaken);
  expect({"--from=" + Folder()}, 20);
  expect({"tiny-1", "--from=" + Folder()}, 20);
  expect({"--from=" + Part({.generation = 1}, 1, "manifest")}, 10);
  EXPECT_TRUE(cli_.coordinator.calls.empty());
  EXPECT_EQ(Run({"export", "lenet-1", "--from=" + Folder(), "--out=" + model_}), 2);
  EXPECT_THAT(cli_.err(), HasSubstr("is the folder of tiny-1, not of lenet-1"));
  EXPECT_EQ(Run({"export", "--from=/state", "--out=" + model_}), 2);
  EXPECT_THAT(cli_.err(), HasSubstr("name one of its jobs"));
  EXPECT_EQ(Run({"export", "--from=/none", "--out=" + model_}), 2);
  EXPECT_EQ(Run({"export", "--out=" + model_}), 2);
  EXPECT_THAT(cli_.err(), HasSubstr("an argument is missing"));
}

}  // namespace
}  // namespace monsoon
