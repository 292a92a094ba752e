// What docs/checkpoint_format.md shows: the bytes, and the script.
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/checkpoint/checkpoint.h"
#include "common/checkpoint/test_parts.h"
#include "common/npz/npz_reader.h"
#include "common/storage/file_path.h"
#include "common/storage/simulated_storage.h"
#include "common/testing/status_matchers.h"
#include "common/testing/unique_name.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace monsoon {
namespace {

using testing::IsOk;
using testing::MakeTestJob;
using testing::SameFloats;
using testing::TestJob;
using testing::WriteTestGeneration;

std::string Document() {
  std::ifstream file("docs/checkpoint_format.md");
  std::stringstream content;
  content << file.rdbuf();
  return content.str();
}

// What stands in the document's block that begins with `fence`.
std::string Block(const std::string& fence) {
  const std::string document = Document();
  const size_t begin = document.find(fence);
  const size_t end = document.find("```", begin + fence.size());
  EXPECT_NE(begin, std::string::npos);
  EXPECT_NE(end, std::string::npos);
  return begin == std::string::npos
             ? ""
             : document.substr(begin + fence.size(), end - begin - fence.size());
}

// As `hexdump -C`: equal lines are told once.
std::string HexDump(const std::string& bytes) {
  std::string dump;
  std::string before;
  bool starred = false;
  for (size_t begin = 0; begin < bytes.size(); begin += 16) {
    const std::string line = bytes.substr(begin, 16);
    if (line == before) {
      dump += starred ? "" : "*\n";
      starred = true;
      continue;
    }
    before = line;
    starred = false;
    absl::StrAppendFormat(&dump, "%08x ", begin);
    for (size_t i = 0; i < 16; ++i) {
      absl::StrAppend(&dump, i % 8 == 0 ? " " : "");
      absl::StrAppend(&dump, i < line.size()
                                 ? absl::StrFormat("%02x ", static_cast<unsigned char>(line[i]))
                                 : "   ");
    }
    dump += " |";
    for (const char c : line) {
      dump.push_back(c >= ' ' && c <= '~' ? c : '.');
    }
    dump += "|\n";
  }
  return dump;
}

TEST(DocumentTest, TheBytesAreThoseOfAPart) {
  const char kModel[] = R"pb(
    input_shape: 2
    layer {
      name: "a"
      dense { units: 1 no_bias: true }
    }
  )pb";
  TestJob job = MakeTestJob({.model = kModel, .shards = 1, .state_slots = 0});
  job.parameters = {1.0f, -2.0f};
  job.parameters.resize(16);
  SimulatedStorage storage;
  ASSERT_OK(WriteTestGeneration(&storage, "/f", job, 3));
  ASSERT_OK_AND_ASSIGN(std::string file,
                       storage.ReadAll("/f/ps-0-of-1.g3.e1.safetensors", 1 << 20));
  const size_t head =
      8 + static_cast<unsigned char>(file[0]) + 256 * size_t{static_cast<unsigned char>(file[1])};
  EXPECT_EQ(Block("```text hexdump\n"), HexDump(file.substr(0, head + 8)));
}

TEST(DocumentTest, TheScriptReadsPieces) {
  const char* const given = std::getenv("TEST_TMPDIR");
  const std::string folder = InFolder(given != nullptr ? given : "/tmp", testing::UniqueName());
  const TestJob job = MakeTestJob(
      {.model = testing::kConvModel, .shards = 3, .max_stripe_bytes = 64, .vectors = 1});
  ASSERT_OK(WriteTestGeneration(PosixStorage(), folder, job, 3));
  ASSERT_OK(PosixStorage()->WriteAll(folder + "/pieces.py", Block("```python file=pieces.py\n")));
  ASSERT_EQ(std::system(absl::StrCat("/usr/bin/python3 ", folder, "/pieces.py ", folder, " 3 ",
                                     folder, "/out.npz")
                            .c_str()),
            0);
  ASSERT_OK_AND_ASSIGN(const NpzReader npz, NpzReader::Open(folder + "/out.npz"));
  EXPECT_EQ(npz.Names().size(), 3 * job.layout.tensors().size());
  for (const TensorInfo& tensor : job.layout.tensors()) {
    const auto part = [&](const std::vector<float>& floats) {
      const auto begin = floats.begin() + static_cast<ptrdiff_t>(tensor.offset);
      return std::vector<float>(begin, begin + static_cast<ptrdiff_t>(tensor.size));
    };
    ASSERT_OK_AND_ASSIGN(const NpzReader::Array read, npz.Read(tensor.name));
    EXPECT_TRUE(SameFloats(read.values, part(job.parameters)));
    ASSERT_OK_AND_ASSIGN(const NpzReader::Array state, npz.Read("optimizer:" + tensor.name));
    EXPECT_TRUE(SameFloats(state.values, part(job.state)));
    ASSERT_OK_AND_ASSIGN(const NpzReader::Array vector, npz.Read("vector:v:0:" + tensor.name));
    EXPECT_TRUE(SameFloats(vector.values, part(job.vectors[0])));
  }
}

}  // namespace
}  // namespace monsoon
