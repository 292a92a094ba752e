// What cublas.cc and cublas_lt.cc share: each is a shared object of its own, with the
// backend's declarations of the interface (kernels/cublas_api.h), as not every toolkit has
// NVIDIA's headers of it.
#pragma once

#include "tests/gpu/emulator/api.h"
#include "tests/gpu/emulator/products.h"
#include "tests/gpu/emulator/report.h"
#include "worker/backend/cuda/kernels/cublas_api.h"

namespace monsoon::cuda {

constexpr uint64_t kWorkspaceAlignment = 256;

struct ProductTypes {
  cudaDataType a;
  cudaDataType b;
  cudaDataType c;
  cublasComputeType_t compute;
};

// False, reported, for what the emulator does not compute.
inline bool FindFactorType(const ProductTypes& types, emulator::FactorType* type) {
  const bool plain = types.compute == CUBLAS_COMPUTE_32F;
  const bool full = types.a == CUDA_R_32F;
  if (types.a == types.b && types.c == CUDA_R_32F &&
      (plain || (full && types.compute == CUBLAS_COMPUTE_32F_FAST_TF32)) &&
      (full || types.a == CUDA_R_16F || types.a == CUDA_R_16BF)) {
    *type = !plain                  ? emulator::FactorType::kTf32
            : full                  ? emulator::FactorType::kFloat32
            : types.a == CUDA_R_16F ? emulator::FactorType::kFloat16
                                    : emulator::FactorType::kBfloat16;
    return true;
  }
  emulator::Report(
      "misuse",
      emulator::Text("a product of types %d and %d to %d, computed as %d, is not emulated", types.a,
                     types.b, types.c, types.compute));
  return false;
}

// Reported for a handle of another device than the selected one.
inline void CheckDevice(int device, const char* call) {
  if (device != emulator::ThisThread().device) {
    emulator::Report(
        "misuse", emulator::Text("%s with a handle of device %d while device %d is selected", call,
                                 device, emulator::ThisThread().device));
  }
}

// False, reported, where the device could not use it.
inline bool IsWorkspace(uint64_t address, uint64_t bytes) {
  if (address % kWorkspaceAlignment == 0 && emulator::Find(address, bytes) != nullptr) {
    return true;
  }
  emulator::Report("misuse", "a cuBLAS workspace that is misaligned or not allocated: " +
                                 emulator::Describe(address));
  return false;
}

inline uint64_t Address(const void* pointer) { return reinterpret_cast<uint64_t>(pointer); }

}  // namespace monsoon::cuda
