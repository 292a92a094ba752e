// What the environment sets of the emulated machine. Read once, at the first call.
//
// MONSOON_EMULATOR_..., and what holds where it is not set:
//
//   SCHEDULE=late                a stream's work runs when the host waits for it [late]
//   SCHEDULE=eager               it runs as it is enqueued
//   SCHEDULE=<number>            at moments drawn with this seed, blocks and threads too
//   DEVICES=<n>                  how many GPUs there are [1]
//   CAPABILITY=<major*10+minor>  of each; code it has none for is not run (error 209) [90]
//   MEMORY_MIB=<n>               of each [16384]
//   DRIVER=<major.minor>         older than the toolkit's major version: error 35; `none`: 35
//                                [13.0]
//   FAIL_ALLOCATION=<n>          the nth allocation, device or pinned, fails once (error 2)
//   FAIL_INSTANTIATE=<n>         the nth cudaGraphInstantiate fails once (error 2)
//   LOSE_DEVICE_AFTER=<n>        the nth operation of a stream and all after it fail ...
//   LOSE_DEVICE_ERROR=<code>     ... with this code [719]
//   REFUSE_PAGE_LOCKS=1          cudaHostRegister fails
//   TF32=nearest|truncate|away   how factors of TF32 products are rounded [nearest]
//   CUBLASLT=works               products by cuBLASLt are computed [works]
//   CUBLASLT=no_handle           cublasLtCreate fails
//   CUBLASLT=no_algorithm        the search for an algorithm finds none
//   CUBLASLT=refuses             cublasLtMatmul fails
//   CHECK=off                    no shadow of device memory: for whole jobs, several times
//                                faster [on]
//   STATS=<file>|stderr          counts at the end of the process, one JSON object, appended
//   REPORTS=<file>               reports are appended there too
//   EXPECT=<kind>                reports of this kind are no failure (a test that makes them)
//
// A value that cannot be read ends the process.
#pragma once

#include <cstdint>
#include <string>

namespace monsoon::emulator {

enum class Schedule { kLate, kEager, kSeeded };
enum class CublasLt { kWorks, kNoHandle, kNoAlgorithm, kRefuses };
enum class Tf32 { kNearest, kTruncate, kAway };

struct Settings {
  Schedule schedule = Schedule::kLate;
  uint32_t seed = 0;
  int devices = 1;
  int capability = 90;
  uint64_t device_memory = uint64_t{16384} << 20;
  bool driver = true;
  int driver_version = 13000;  // as cudaDriverGetVersion has it
  uint64_t fail_allocation = 0;
  uint64_t fail_instantiate = 0;
  uint64_t lose_device_after = 0;
  int lose_device_error = 719;
  bool refuse_page_locks = false;
  Tf32 tf32 = Tf32::kNearest;
  CublasLt cublas_lt = CublasLt::kWorks;
  bool check = true;
  std::string stats;
  std::string reports;
  std::string expect;
};

const Settings& TheSettings();

}  // namespace monsoon::emulator
