#include "common/base/xxh3.h"

#include <algorithm>
#include <span>
#include <string>
#include <utility>

#include "gtest/gtest.h"

namespace monsoon {
namespace {

uint64_t Of(const std::string& text) { return Xxh3::Of(std::as_bytes(std::span(text))); }

// From `xxhsum -H3`.
TEST(Xxh3Test, KnownValues) {
  EXPECT_EQ(Of(""), 0x2d06800538d394c2u);
  EXPECT_EQ(Of("a"), 0xe6c632b61e964e1fu);
  EXPECT_EQ(Of("abc"), 0x78af5f94892f3950u);
}

TEST(Xxh3Test, PiecesAreAsTheWhole) {
  std::string text;
  for (int i = 0; i < 5000; ++i) {
    text.push_back(static_cast<char>(i * 7));
  }
  for (const size_t piece : {1u, 7u, 64u, 1000u, 5000u}) {
    Xxh3 hash;
    for (size_t begin = 0; begin < text.size(); begin += piece) {
      hash.Add(std::as_bytes(std::span(text).subspan(begin, std::min(piece, text.size() - begin))));
    }
    hash.Add({});
    EXPECT_EQ(hash.Digest(), Of(text));
    Xxh3 moved = std::move(hash);
    EXPECT_EQ(moved.Digest(), Of(text));
  }
}

}  // namespace
}  // namespace monsoon
