#include "common/model_file/model_file.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <span>
#include <vector>

#include "common/npz/npz_reader.h"
#include "common/npz/npz_writer.h"
#include "common/safetensors/safetensors_file.h"
#include "common/storage/storage.h"
#include "common/testing/status_matchers.h"
#include "google/protobuf/text_format.h"

namespace monsoon {
namespace {

using ::monsoon::testing::StatusIs;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

ParameterLayout TinyLayout() {
  Model model;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
      R"pb(name: "tiny"
           input_shape: 3
           layer {
             name: "a"
             dense { units: 2 }
           }
           layer {
             name: "b"
             dense { units: 4 }
           })pb",
      &model));
  return *ParameterLayout::Create(model);
}

// Padding is made visible, so that a test sees where it goes.
std::vector<float> Flat(const ParameterLayout& layout) {
  std::vector<float> flat(layout.size(), -1.0f);
  float next = 1.0f;
  for (const TensorInfo& tensor : layout.tensors()) {
    for (uint64_t i = 0; i < tensor.size; ++i) {
      flat[tensor.offset + i] = next++;
    }
  }
  return flat;
}

// As a file gives it back.
std::vector<float> WithoutPadding(std::vector<float> flat) {
  for (float& value : flat) {
    value = value < 0 ? 0.0f : value;
  }
  return flat;
}

size_t FilesIn(const std::string& folder) {
  return static_cast<size_t>(std::distance(std::filesystem::directory_iterator(folder),
                                           std::filesystem::directory_iterator()));
}

class ModelFileTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = ::testing::TempDir() + "/model-file-XXXXXX";
    ASSERT_NE(mkdtemp(folder_.data()), nullptr);
  }

  // A file of these tensors, each filled with its number.
  std::string Stored(const std::string& name, const std::vector<TensorSpec>& specs) {
    const std::string path = folder_ + "/" + name;
    absl::StatusOr<SafetensorsWriter> writer =
        SafetensorsWriter::Create(PosixStorage(), path, specs, {});
    EXPECT_OK(writer.status());
    for (size_t i = 0; i < specs.size(); ++i) {
      EXPECT_OK(writer->Append(i, std::vector<std::byte>(specs[i].bytes())));
    }
    EXPECT_OK(writer->Finish().status());
    return path;
  }

  std::string folder_;
};

TEST_F(ModelFileTest, TheSuffixSaysTheFormat) {
  EXPECT_EQ(ModelFormatOf("a/b.npz"), ModelFormat::kNpz);
  EXPECT_EQ(ModelFormatOf("b.safetensors"), ModelFormat::kSafetensors);
  for (const char* other : {"", "npz", "a.npz/b", "b.pt", "b.npz ", "b."}) {
    EXPECT_EQ(ModelFormatOf(other), std::nullopt) << other;
  }
  EXPECT_EQ(ModelFormatByName("safetensors"), ModelFormat::kSafetensors);
  EXPECT_EQ(ModelFormatByName(".npz"), std::nullopt);
  EXPECT_STREQ(NameOf(ModelFormat::kNpz), "npz");
  EXPECT_EQ(ModelFormatOf("b.onnx"), ModelFormat::kOnnx);
  const ParameterLayout layout = TinyLayout();
  EXPECT_THAT(WriteModelFile(layout, Flat(layout), folder_ + "/b.pt"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("b.pt"), HasSubstr(".npz or a .safetensors"))));
  EXPECT_THAT(WriteModelFile(layout, Flat(layout), folder_ + "/b.onnx"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(".npz or a .safetensors")));
  EXPECT_THAT(ReadModelFile(layout, folder_ + "/b.onnx"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("export the job as .npz")));
  EXPECT_EQ(FilesIn(folder_), 0u);
}

TEST_F(ModelFileTest, NpzRoundTripLeavesPaddingOut) {
  const ParameterLayout layout = TinyLayout();
  const std::string path = folder_ + "/round.npz";
  const std::vector<float> flat = Flat(layout);
  ASSERT_OK(WriteModelFile(layout, flat, path));

  ASSERT_OK_AND_ASSIGN(const NpzReader reader, NpzReader::Open(path));
  EXPECT_THAT(reader.Names(), ElementsAre("a/bias", "a/weight", "b/bias", "b/weight"));
  ASSERT_OK_AND_ASSIGN(const NpzReader::Array weight, reader.Read("b/weight"));
  EXPECT_THAT(weight.shape, ElementsAre(4, 2));
  EXPECT_THAT(weight.values, ElementsAre(9, 10, 11, 12, 13, 14, 15, 16));

  ASSERT_OK_AND_ASSIGN(const std::vector<float> read, ReadModelFile(layout, path));
  EXPECT_EQ(read, WithoutPadding(flat));
}

TEST_F(ModelFileTest, SafetensorsRoundTripLeavesPaddingOut) {
  const ParameterLayout layout = TinyLayout();
  const std::string path = folder_ + "/round.safetensors";
  const std::vector<float> flat = Flat(layout);
  ASSERT_OK(WriteModelFile(layout, std::vector<float>(layout.size()), path));
  ASSERT_OK(WriteModelFile(layout, flat, path));  // in the place of the other
  EXPECT_EQ(FilesIn(folder_), 1u);

  ASSERT_OK_AND_ASSIGN(const SafetensorsReader reader,
                       SafetensorsReader::Open(PosixStorage(), path));
  EXPECT_EQ(reader.tensors().size(), 4u);
  EXPECT_EQ(reader.metadata().at("format"), "pt");
  const SafetensorsReader::Tensor* const weight = reader.Find("b/weight");
  ASSERT_NE(weight, nullptr);
  EXPECT_EQ(weight->type, "F32");
  EXPECT_THAT(weight->shape, ElementsAre(4, 2));
  std::vector<float> values(8);
  ASSERT_OK(reader.Read(*weight, 0, std::as_writable_bytes(std::span(values))));
  EXPECT_THAT(values, ElementsAre(9, 10, 11, 12, 13, 14, 15, 16));

  ASSERT_OK_AND_ASSIGN(const std::vector<float> read, ReadModelFile(layout, path));
  EXPECT_EQ(read, WithoutPadding(flat));
}

TEST_F(ModelFileTest, TablesAreWrittenPieceAfterPiece) {
  Model model;
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(
      R"pb(tensor { name: "w" shape: 3 }
           table { name: "words" rows: 4 columns: 2 }
           table { name: "users" rows: 3 columns: 1 })pb",
      &model));
  ASSERT_OK_AND_ASSIGN(const ParameterLayout layout, ParameterLayout::Create(model));
  const std::vector<std::vector<float>> rows = {{1, 2, 3, 4, 5, 6, 7, 8}, {11, 12, 13}};
  absl::Status end;
  const TableSource source = [&](uint32_t table, auto take) {
    for (size_t at = 0; at < rows[table].size(); at += 3) {
      const auto rest = std::span(rows[table]).subspan(at);
      const absl::Status taken = take(rest.first(std::min<size_t>(3, rest.size())));
      EXPECT_OK(taken);
    }
    return table == 1 ? end : absl::OkStatus();
  };
  const std::string path = folder_ + "/tables.safetensors";
  ASSERT_OK(WriteModelFile(layout, Flat(layout), path, source));
  ASSERT_OK_AND_ASSIGN(const SafetensorsReader file, SafetensorsReader::Open(PosixStorage(), path));
  ASSERT_EQ(file.tensors().size(), 3u);
  for (size_t table = 0; table < 2; ++table) {
    const SafetensorsReader::Tensor& tensor = file.tensors()[1 + table];
    EXPECT_EQ(tensor.name, layout.tables()[table].name);
    EXPECT_THAT(tensor.shape,
                ElementsAre(layout.tables()[table].rows, layout.tables()[table].columns));
    std::vector<float> read(rows[table].size());
    ASSERT_EQ(tensor.bytes, read.size() * sizeof(float));
    ASSERT_OK(file.Read(tensor, 0, std::as_writable_bytes(std::span(read))));
    EXPECT_EQ(read, rows[table]);
  }
  // An error of the source is told, and the file stays what it was.
  end = absl::UnavailableError("ps/0 is away");
  std::vector<float> other(layout.size());
  EXPECT_THAT(WriteModelFile(layout, other, path, source),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("ps/0 is away")));
  ASSERT_OK_AND_ASSIGN(const SafetensorsReader again,
                       SafetensorsReader::Open(PosixStorage(), path));
  float first = 0;
  ASSERT_OK(again.Read(again.tensors()[0], 0, std::as_writable_bytes(std::span(&first, 1))));
  EXPECT_EQ(first, 1.0f);
  EXPECT_EQ(FilesIn(folder_), 1u);
  // And as an archive.
  const std::string archive = folder_ + "/tables.npz";
  EXPECT_THAT(WriteModelFile(layout, Flat(layout), archive, source),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("ps/0 is away")));
  EXPECT_EQ(FilesIn(folder_), 1u);
  end = absl::OkStatus();
  ASSERT_OK(WriteModelFile(layout, Flat(layout), archive, source));
  ASSERT_OK_AND_ASSIGN(const NpzReader npz, NpzReader::Open(archive));
  EXPECT_THAT(npz.Names(), ElementsAre("users", "w", "words"));
  for (size_t table = 0; table < 2; ++table) {
    ASSERT_OK_AND_ASSIGN(const NpzReader::Array array, npz.Read(layout.tables()[table].name));
    EXPECT_THAT(array.shape,
                ElementsAre(layout.tables()[table].rows, layout.tables()[table].columns));
    EXPECT_EQ(array.values, rows[table]);
  }
}

TEST_F(ModelFileTest, WhatCannotBeWrittenLeavesNothing) {
  const ParameterLayout layout = TinyLayout();
  for (const std::string suffix : {".npz", ".safetensors"}) {
    const std::string missing = folder_ + "/none/m" + suffix;
    const absl::Status status = WriteModelFile(layout, Flat(layout), missing);
    EXPECT_FALSE(status.ok());
    EXPECT_THAT(std::string(status.message()), HasSubstr(missing));
    // A folder in the way, which no rename can replace.
    const std::string folder = folder_ + "/in_the_way" + suffix;
    ASSERT_TRUE(std::filesystem::create_directories(folder + "/full"));
    EXPECT_FALSE(WriteModelFile(layout, Flat(layout), folder).ok());
  }
  EXPECT_EQ(FilesIn(folder_), 2u);
}

TEST_F(ModelFileTest, NamesEveryMemberThatDoesNotFit) {
  const std::string path = folder_ + "/other.npz";
  ASSERT_OK_AND_ASSIGN(NpzWriter writer, NpzWriter::Create(path));
  const std::vector<uint32_t> turned = {3, 2};
  const std::vector<uint32_t> two = {2};
  ASSERT_OK(writer.Add("a/weight", turned, std::vector<float>(6)));
  ASSERT_OK(writer.Add("a/bias", two, std::vector<float>(2)));
  ASSERT_OK(writer.Add("c/bias", two, std::vector<float>(2)));
  ASSERT_OK(writer.Finish());
  EXPECT_THAT(
      ReadModelFile(TinyLayout(), path).status(),
      StatusIs(absl::StatusCode::kInvalidArgument,
               AllOf(HasSubstr(path), HasSubstr("a/weight.npy has the shape (3, 2)"),
                     HasSubstr("the model has (2, 3)"), HasSubstr("b/weight.npy is missing"),
                     HasSubstr("b/bias.npy is missing"),
                     HasSubstr("c/bias.npy is no tensor of the model"))));
}

TEST_F(ModelFileTest, NamesEveryTensorOfAStrangersFileThatDoesNotFit) {
  const std::string path = Stored("other.safetensors", {{"a/weight", TensorType::kF32, {3, 2}},
                                                        {"a/bias", TensorType::kU8, {2}},
                                                        {"b/weight", TensorType::kF32, {4, 2}},
                                                        {"c/bias", TensorType::kF32, {2}}});
  EXPECT_THAT(
      ReadModelFile(TinyLayout(), path).status(),
      StatusIs(absl::StatusCode::kInvalidArgument,
               AllOf(HasSubstr(path + " does not fit the model: "),
                     HasSubstr("tensor a/weight has the shape (3, 2), the model has (2, 3)"),
                     HasSubstr("tensor a/bias is U8, it must be F32"),
                     HasSubstr("tensor b/bias is missing"),
                     HasSubstr("tensor c/bias is no tensor of the model"))));
}

// A million of them made an error of 40 MiB.
TEST_F(ModelFileTest, NamesSomeOfManyTensorsThatDoNotFit) {
  std::vector<TensorSpec> specs = {{std::string(100000, 'b'), TensorType::kF32, {0}}};
  for (int i = 0; i < 5000; ++i) {
    specs.push_back({"t" + std::to_string(i), TensorType::kF32, {0}});
  }
  const absl::Status status =
      ReadModelFile(TinyLayout(), Stored("many.safetensors", specs)).status();
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kInvalidArgument,
                               AllOf(HasSubstr("tensor a/weight is missing"),
                                     HasSubstr("tensor t0 is no tensor of the model"),
                                     HasSubstr("; and 4985 more"))));
  EXPECT_LT(status.message().size(), 2000u);
}

TEST_F(ModelFileTest, HalfPrecisionIsRefusedByName) {
  // As other programs write it: our writer has no such type.
  const std::string header = R"({"a/weight":{"dtype":"BF16","shape":[2,3],"data_offsets":[0,12]},)"
                             R"("a/bias":{"dtype":"F16","shape":[2],"data_offsets":[12,16]},)"
                             R"("b/weight":{"dtype":"F32","shape":[4,2],"data_offsets":[16,48]},)"
                             R"("b/bias":{"dtype":"F32","shape":[4],"data_offsets":[48,64]}})";
  std::string bytes(8, '\0');
  bytes[0] = static_cast<char>(header.size() & 0xff);
  bytes[1] = static_cast<char>(header.size() >> 8);
  const std::string path = folder_ + "/half.safetensors";
  std::ofstream(path, std::ios::binary) << bytes << header << std::string(64, '\0');
  EXPECT_THAT(ReadModelFile(TinyLayout(), path).status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("tensor a/weight is BF16, it must be F32"),
                             HasSubstr("tensor a/bias is F16, it must be F32"),
                             Not(HasSubstr("tensor b/")))));
}

TEST_F(ModelFileTest, WhatIsNoModelIsNamed) {
  const ParameterLayout layout = TinyLayout();
  const std::string none = folder_ + "/none.safetensors";
  EXPECT_THAT(ReadModelFile(layout, none).status(),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr(none)));
  const std::string garbage = folder_ + "/garbage.safetensors";
  std::ofstream(garbage) << "PK this is another file";
  EXPECT_THAT(ReadModelFile(layout, garbage).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(garbage)));
  const std::string part =
      Stored("ps-0-of-1.g1.e1.safetensors",
             {{"a/weight[0:6)", TensorType::kF32, {6}}, {"monsoon/shard", TensorType::kU8, {3}}});
  EXPECT_THAT(ReadModelFile(layout, part).status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr(part), HasSubstr("part of a checkpoint"))));
}

TEST_F(ModelFileTest, WhatIsNotFiniteIsNamed) {
  const ParameterLayout layout = TinyLayout();
  std::vector<float> flat = Flat(layout);
  EXPECT_OK(CheckModelFinite(layout, flat, "m.npz"));
  flat[layout.tensors()[0].offset + 4] = std::nanf("");
  flat[layout.tensors()[3].offset + 2] = -std::numeric_limits<float>::infinity();
  EXPECT_THAT(CheckModelFinite(layout, flat, "m.npz"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("m.npz: tensor a/weight has nan at [1, 1]; a job begins with "
                                 "finite numbers")));
  flat[layout.tensors()[0].offset + 4] = 0;
  EXPECT_THAT(CheckModelFinite(layout, flat, "m.npz"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("m.npz: tensor b/bias has -inf at [2];")));
}

}  // namespace
}  // namespace monsoon
