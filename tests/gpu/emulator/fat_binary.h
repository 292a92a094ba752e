// What a program's kernels are compiled for, read from the fat binary that nvcc linked in.
#pragma once

#include <vector>

namespace monsoon::emulator {

class FatBinary {
 public:
  // What nvcc's registration code passes.
  explicit FatBinary(const void* wrapper);

  // Machine code of the same major version and no later minor one, or PTX that is no
  // newer. `capability`: 90 for sm_90.
  bool HasCodeFor(int capability) const;

 private:
  struct Code {
    bool is_ptx;
    int capability;
  };
  std::vector<Code> code_;
};

}  // namespace monsoon::emulator
