// What differs between the C++ interfaces of oneDNN 2 (Debian 12) and oneDNN 3
// (Debian 13), so that the layers are written once: version 3 has no operation
// descriptors, takes the engine first and the attributes last, wants a
// destination for element-wise operations and a dilation for pooling, and calls
// a descriptor's dimensions get_dims.
//
// dnnl::error is thrown where a primitive cannot be described.
#pragma once

#include "oneapi/dnnl/dnnl.hpp"

namespace monsoon::cpu {

inline dnnl::memory::dims DimsOf(const dnnl::memory::desc& desc) {
#if DNNL_VERSION_MAJOR >= 3
  return desc.get_dims();
#else
  return desc.dims();
#endif
}

// The description of a convolution or inner product P, forward. `arguments` are
// those of version 2's operation descriptor.
template <typename P, typename... Arguments>
typename P::primitive_desc DescribeForward(const dnnl::engine& engine,
                                           const dnnl::primitive_attr& attributes,
                                           const Arguments&... arguments) {
#if DNNL_VERSION_MAJOR >= 3
  return typename P::primitive_desc(engine, arguments..., attributes);
#else
  return typename P::primitive_desc(typename P::desc(arguments...), attributes, engine);
#endif
}

// The same of a backward primitive, whose forward one is `forward`.
template <typename P, typename Forward, typename... Arguments>
typename P::primitive_desc DescribeBackward(const dnnl::engine& engine,
                                            const dnnl::primitive_attr& attributes,
                                            const Forward& forward, const Arguments&... arguments) {
#if DNNL_VERSION_MAJOR >= 3
  return typename P::primitive_desc(engine, arguments..., forward, attributes);
#else
  return typename P::primitive_desc(typename P::desc(arguments...), attributes, engine, forward);
#endif
}

// Source and destination are alike.
inline dnnl::eltwise_forward::primitive_desc DescribeEltwise(const dnnl::engine& engine,
                                                             const dnnl::primitive_attr& attributes,
                                                             dnnl::prop_kind kind,
                                                             dnnl::algorithm algorithm,
                                                             const dnnl::memory::desc& desc) {
#if DNNL_VERSION_MAJOR >= 3
  return DescribeForward<dnnl::eltwise_forward>(engine, attributes, kind, algorithm, desc, desc,
                                                0.0f, 0.0f);
#else
  return DescribeForward<dnnl::eltwise_forward>(engine, attributes, kind, algorithm, desc, 0.0f,
                                                0.0f);
#endif
}

inline dnnl::eltwise_backward::primitive_desc DescribeEltwiseBackward(
    const dnnl::engine& engine, const dnnl::primitive_attr& attributes,
    const dnnl::eltwise_forward::primitive_desc& forward, dnnl::algorithm algorithm,
    const dnnl::memory::desc& desc) {
#if DNNL_VERSION_MAJOR >= 3
  return DescribeBackward<dnnl::eltwise_backward>(engine, attributes, forward, algorithm, desc,
                                                  desc, desc, 0.0f, 0.0f);
#else
  return DescribeBackward<dnnl::eltwise_backward>(engine, attributes, forward, algorithm, desc,
                                                  desc, 0.0f, 0.0f);
#endif
}

// What a pooling looks at: without padding and dilation.
struct PoolingWindow {
  dnnl::algorithm algorithm;
  dnnl::memory::dims strides;
  dnnl::memory::dims window;
};

inline dnnl::pooling_forward::primitive_desc DescribePooling(const dnnl::engine& engine,
                                                             const dnnl::primitive_attr& attributes,
                                                             dnnl::prop_kind kind,
                                                             const PoolingWindow& pooling,
                                                             const dnnl::memory::desc& input,
                                                             const dnnl::memory::desc& output) {
  const dnnl::memory::dims none(pooling.window.size(), 0);
#if DNNL_VERSION_MAJOR >= 3
  return DescribeForward<dnnl::pooling_forward>(engine, attributes, kind, pooling.algorithm, input,
                                                output, pooling.strides, pooling.window, none, none,
                                                none);
#else
  return DescribeForward<dnnl::pooling_forward>(engine, attributes, kind, pooling.algorithm, input,
                                                output, pooling.strides, pooling.window, none,
                                                none);
#endif
}

inline dnnl::pooling_backward::primitive_desc DescribePoolingBackward(
    const dnnl::engine& engine, const dnnl::primitive_attr& attributes,
    const dnnl::pooling_forward::primitive_desc& forward, const PoolingWindow& pooling,
    const dnnl::memory::desc& input_diff, const dnnl::memory::desc& output_diff) {
  const dnnl::memory::dims none(pooling.window.size(), 0);
#if DNNL_VERSION_MAJOR >= 3
  return DescribeBackward<dnnl::pooling_backward>(engine, attributes, forward, pooling.algorithm,
                                                  input_diff, output_diff, pooling.strides,
                                                  pooling.window, none, none, none);
#else
  return DescribeBackward<dnnl::pooling_backward>(engine, attributes, forward, pooling.algorithm,
                                                  input_diff, output_diff, pooling.strides,
                                                  pooling.window, none, none);
#endif
}

// The element-wise operation that a primitive does to its own result.
inline dnnl::post_ops EltwiseAfter(dnnl::algorithm algorithm) {
  dnnl::post_ops operations;
#if DNNL_VERSION_MAJOR >= 3
  operations.append_eltwise(algorithm, 0.0f, 0.0f);
#else
  operations.append_eltwise(1.0f, algorithm, 0.0f, 0.0f);
#endif
  return operations;
}

}  // namespace monsoon::cpu
