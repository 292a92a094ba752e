// The main() of NAME_corpus_test: a case for each file named on the command line,
// which the target's function must survive.
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>

#include "gtest/gtest.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

class CorpusFile : public ::testing::Test {
 public:
  explicit CorpusFile(std::string path) : path_(std::move(path)) {}

  void TestBody() override {
    std::ifstream file(path_, std::ios::binary);
    ASSERT_TRUE(file.is_open()) << path_;
    const std::string bytes{std::istreambuf_iterator<char>(file), {}};
    EXPECT_EQ(LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()),
              0);
  }

 private:
  const std::string path_;
};

}  // namespace

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  for (int i = 1; i < argc; ++i) {
    const std::string path = argv[i];
    ::testing::RegisterTest("Corpus", path.substr(path.rfind('/') + 1).c_str(), nullptr, nullptr,
                            __FILE__, __LINE__,
                            [path]() -> ::testing::Test* { return new CorpusFile(path); });
  }
  return RUN_ALL_TESTS();
}
