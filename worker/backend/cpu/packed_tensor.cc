#include "worker/backend/cpu/packed_tensor.h"

#include <algorithm>
#include <cstring>

#include "common/base/check.h"

namespace monsoon::cpu {
namespace {

using dnnl::memory;

memory::desc RowMajor(const memory::dims& dims) {
  memory::dims strides(dims.size(), 1);
  for (size_t i = dims.size() - 1; i-- > 0;) {
    strides[i] = strides[i + 1] * dims[i + 1];
  }
  return memory::desc(dims, memory::data_type::f32, strides);
}

size_t Product(const memory::dims& dims, size_t from) {
  size_t product = 1;
  for (size_t i = from; i < dims.size(); ++i) {
    product *= static_cast<size_t>(dims[i]);
  }
  return product;
}

}  // namespace

PackedTensor::PackedTensor(Context& context, const memory::dims& plain_dims,
                           const memory::desc& packed) {
  Init(context, plain_dims, packed);
  if (direct_) {
    packed_ = plain_;
    return;
  }
  packed_ = plain_.get_desc() == packed ? plain_ : context.Allocate(packed);
  if (packed_.get() != plain_.get()) {
    pack_ = MakeReorder(context, plain_, packed_);
    unpack_ = MakeReorder(context, packed_, plain_);
  }
}

PackedTensor::PackedTensor(Context& context, const memory::dims& plain_dims, memory packed) {
  Init(context, plain_dims, packed.get_desc());
  direct_ = false;
  packed_ = std::move(packed);
  pack_ = MakeReorder(context, plain_, packed_);
  unpack_ = MakeReorder(context, packed_, plain_);
}

void PackedTensor::Init(Context& context, const memory::dims& plain_dims,
                        const memory::desc& packed) {
  const memory::dims padded_dims = packed.dims();
  CHECK_EQ(plain_dims.size(), padded_dims.size());
  // A vector is one row.
  const size_t first = plain_dims.size() == 1 ? 0 : 1;
  rows_ = first == 0 ? 1 : static_cast<size_t>(plain_dims[0]);
  columns_ = Product(plain_dims, first);
  padded_columns_ = Product(padded_dims, first);
  padded_ = plain_dims != padded_dims;
  const memory::desc row_major = RowMajor(padded_dims);
  direct_ = !padded_ && row_major == packed;
  if (padded_) {
    staging_ = AlignedBuffer(Product(padded_dims, 0));
    staging_.Fill(0.0f);
  }
  plain_ = memory(row_major, context.engine(), padded_ ? staging_.data() : DNNL_MEMORY_NONE);
}

void PackedTensor::Pack(const float* plain) {
  if (padded_) {
    for (size_t row = 0; row < rows_; ++row) {
      std::memcpy(staging_.data() + row * padded_columns_, plain + row * columns_,
                  columns_ * sizeof(float));
    }
    // A primitive may have written gradients of the padding here by Unpack's
    // reorder; Pack is only used on tensors that are never unpacked into.
  } else {
    plain_.set_data_handle(const_cast<float*>(plain));
  }
  pack_.Run();
}

void PackedTensor::BindOutput(float* plain) {
  if (!padded_) {
    plain_.set_data_handle(plain);
  }
}

void PackedTensor::Unpack(float* plain) {
  BindOutput(plain);
  unpack_.Run();
  if (padded_) {
    for (size_t row = 0; row < rows_; ++row) {
      std::memcpy(plain + row * columns_, staging_.data() + row * padded_columns_,
                  columns_ * sizeof(float));
    }
  }
}

}  // namespace monsoon::cpu
