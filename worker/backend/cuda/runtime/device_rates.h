// What a GPU says of its own speed: for estimates, not for decisions.
#pragma once

#include <cstdint>
#include <string>

namespace monsoon::cuda {

// 0 where the device does not tell.
struct DeviceRates {
  std::string name;    // empty: there is no such device
  int capability = 0;  // 90 for sm_90
  int multiprocessors = 0;
  double clock = 0;         // Hz
  double memory_clock = 0;  // Hz
  int memory_bus_bits = 0;
  double cache = 0;  // L2, bytes
};

// Never fails. Any thread.
DeviceRates QueryRates(uint32_t device_index);

}  // namespace monsoon::cuda
