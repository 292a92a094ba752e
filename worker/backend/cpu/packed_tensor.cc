#include "worker/backend/cpu/packed_tensor.h"

#include <utility>

#include "worker/backend/cpu/onednn_api.h"

namespace monsoon::cpu {
namespace {

using dnnl::memory;

// A memory of the same shape, row-major, whose buffer comes later.
memory MakePlain(Context& context, const memory::dims& dims) {
  memory::dims strides(dims.size(), 1);
  for (size_t i = dims.size() - 1; i-- > 0;) {
    strides[i] = strides[i + 1] * dims[i + 1];
  }
  return memory(memory::desc(dims, memory::data_type::f32, strides), context.engine(),
                DNNL_MEMORY_NONE);
}

}  // namespace

PackedTensor::PackedTensor(Context& context, const memory::desc& packed)
    : plain_(MakePlain(context, DimsOf(packed))) {
  if (plain_.get_desc() == packed) {
    packed_ = plain_;
    return;
  }
  packed_ = context.Allocate(packed);
  pack_ = MakeReorder(context, plain_, packed_);
  unpack_ = MakeReorder(context, packed_, plain_);
}

PackedTensor::PackedTensor(Context& context, memory packed)
    : plain_(MakePlain(context, DimsOf(packed.get_desc()))),
      packed_(std::move(packed)),
      pack_(MakeReorder(context, plain_, packed_)),
      unpack_(MakeReorder(context, packed_, plain_)) {}

void PackedTensor::Pack(const float* plain) {
  plain_.set_data_handle(const_cast<float*>(plain));
  pack_.Run();
}

void PackedTensor::BindOutput(float* plain) { plain_.set_data_handle(plain); }

void PackedTensor::Unpack(float* plain) {
  BindOutput(plain);
  unpack_.Run();
}

}  // namespace monsoon::cpu
