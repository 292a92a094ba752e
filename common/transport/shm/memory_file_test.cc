#include "common/transport/shm/memory_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace monsoon {
namespace {

using ::monsoon::testing::StatusIs;
using ::testing::HasSubstr;

TEST(MemoryFileTest, TwoMappingsShareTheirBytesAndTheSizeIsFixed) {
  ASSERT_OK_AND_ASSIGN(const MemoryFile file, MemoryFile::Create("test", 8192));
  ASSERT_OK_AND_ASSIGN(const MemoryMapping a, file.Map(MemoryFile::Access::kReadWrite));
  ASSERT_OK_AND_ASSIGN(const MemoryMapping b, file.Map(MemoryFile::Access::kRead));
  EXPECT_EQ(b.data()[8191], std::byte{0});
  a.data()[8191] = std::byte{7};
  EXPECT_EQ(b.data()[8191], std::byte{7});
  EXPECT_NE(ftruncate(file.fd(), 4096), 0);
  EXPECT_NE(ftruncate(file.fd(), 16384), 0);
}

TEST(MemoryFileTest, OfOneWriterItIsReadOnlyForOthers) {
  MemoryMapping own;
  ASSERT_OK_AND_ASSIGN(const MemoryFile file, MemoryFile::CreateForOneWriter("test", 4096, &own));
  ASSERT_OK_AND_ASSIGN(const MemoryFile theirs, MemoryFile::Adopt(UniqueFd(dup(file.fd())), 4096));
  EXPECT_THAT(theirs.Map(MemoryFile::Access::kReadWrite).status(),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("mmap")));
  EXPECT_LT(pwrite(theirs.fd(), "x", 1, 0), 0);
  ASSERT_OK_AND_ASSIGN(const MemoryMapping mapped, theirs.Map(MemoryFile::Access::kRead));
  own.data()[3] = std::byte{9};
  EXPECT_EQ(mapped.data()[3], std::byte{9});
  EXPECT_NE(mprotect(mapped.data(), mapped.size(), PROT_READ | PROT_WRITE), 0);
}

TEST(MemoryFileTest, NobodyAddsOrTakesOffSeals) {
  ASSERT_OK_AND_ASSIGN(const MemoryFile file, MemoryFile::Create("test", 4096));
  MemoryMapping own;
  ASSERT_OK_AND_ASSIGN(const MemoryFile read_only,
                       MemoryFile::CreateForOneWriter("test", 4096, &own));
  for (const int fd : {file.fd(), read_only.fd()}) {
    EXPECT_EQ(fcntl(fd, F_GET_SEALS) & (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL),
              F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
    EXPECT_NE(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE), 0);
  }
}

// A file of a page, as a peer that means harm may seal it.
UniqueFd SealedWith(int seals) {
  UniqueFd fd(memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  EXPECT_EQ(ftruncate(fd.get(), 4096), 0);
  EXPECT_EQ(fcntl(fd.get(), F_ADD_SEALS, seals), 0);
  return fd;
}

TEST(MemoryFileTest, AFileThatCouldChangeItsSizeOrIsTooSmallIsRefused) {
  EXPECT_OK(MemoryFile::Adopt(SealedWith(F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL), 4096));
  for (const int seals :
       {0, F_SEAL_GROW | F_SEAL_SEAL, F_SEAL_SHRINK | F_SEAL_SEAL, F_SEAL_SHRINK | F_SEAL_GROW}) {
    EXPECT_THAT(MemoryFile::Adopt(SealedWith(seals), 4096).status(),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("not sealed")))
        << seals;
  }
  ASSERT_OK_AND_ASSIGN(const MemoryFile small, MemoryFile::Create("test", 4096));
  EXPECT_THAT(MemoryFile::Adopt(UniqueFd(dup(small.fd())), 4097).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("4097")));
  EXPECT_THAT(MemoryFile::Adopt(UniqueFd(open("/dev/null", 0)), 1).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("sealed")));
}

}  // namespace
}  // namespace monsoon
