// Data files for tests.
#pragma once

#include <zlib.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace monsoon {

// A folder of the test that runs, emptied.
class DataFolder {
 public:
  DataFolder() {
    const auto* const test = ::testing::UnitTest::GetInstance()->current_test_info();
    path_ = std::filesystem::path(::testing::TempDir()) / test->test_suite_name() / test->name();
    std::filesystem::remove_all(path_);
    std::filesystem::create_directories(path_);
  }

  std::string Path(const std::string& name) const { return path_ / name; }
  std::string Write(const std::string& name, const std::string& bytes) const {
    std::ofstream(Path(name), std::ios::binary) << bytes;
    return Path(name);
  }
  std::string WriteGz(const std::string& name, const std::string& bytes) const {
    gzFile file = gzopen(Path(name).c_str(), "wb");
    gzwrite(file, bytes.data(), static_cast<unsigned>(bytes.size()));
    gzclose(file);
    return Path(name);
  }

 private:
  std::filesystem::path path_;
};

template <typename T>
std::string Raw(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

// As numpy.save writes it: type "<f4", shape "2, 3".
inline std::string NpyBytes(const std::string& type, const std::string& shape,
                            const std::string& data) {
  std::string header =
      "{'descr': '" + type + "', 'fortran_order': False, 'shape': (" + shape + "), }";
  header.resize(64 * ((10 + header.size() + 64) / 64) - 11, ' ');
  header.push_back('\n');
  std::string bytes("\x93NUMPY\x01\x00", 8);
  bytes.push_back(static_cast<char>(header.size() & 0xff));
  bytes.push_back(static_cast<char>(header.size() >> 8));
  return bytes + header + data;
}

// A CIFAR-10 record whose value i is (first + i) modulo 251.
inline std::string Cifar10Record(uint8_t label, uint32_t first) {
  std::string bytes(1, static_cast<char>(label));
  for (uint32_t i = 0; i < 3072; ++i) {
    bytes.push_back(static_cast<char>((first + i) % 251));
  }
  return bytes;
}

}  // namespace monsoon
