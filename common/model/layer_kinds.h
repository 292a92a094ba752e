// The list of layers, one line each: all that is needed to know one, beside its files. Plain C++,
// so that a backend builds without anything else.
//
// A layer is: a message and an alternative of Layer.kind in proto/model.proto; a line here; a
// Design function, which says shapes and tensors (layer_design.h, layers/); and its Make function
// in each backend (worker/backend/*).
#pragma once

namespace monsoon {

// X(KIND, CASE, NAME, MAKER): the kind, Layer::kCASE of the proto, the name of one that has none,
// and what follows Design and Make in the functions' names.
#define MONSOON_LAYER_KINDS(X)                                              \
  X(Dense, Dense, "dense", Dense)                                           \
  X(Conv2d, Conv2D, "conv", Conv2d)                                         \
  X(AveragePool2d, AveragePool2D, "average_pool", Pool2d)                   \
  X(MaxPool2d, MaxPool2D, "max_pool", Pool2d)                               \
  X(Relu, Relu, "relu", Activation)                                         \
  X(Sigmoid, Sigmoid, "sigmoid", Activation)                                \
  X(Tanh, Tanh, "tanh", Activation)                                         \
  X(Dropout, Dropout, "dropout", Dropout)                                   \
  X(Flatten, Flatten, "flatten", Flatten)                                   \
  X(Add, Add, "add", Join)                                                  \
  X(Multiply, Multiply, "multiply", Join)                                   \
  X(Concat, Concat, "concat", Join)                                         \
  X(LocallyConnected2d, LocallyConnected2D, "local", LocallyConnected2d)    \
  X(LocalContrastNorm, LocalContrastNorm, "contrast", LocalContrastNorm)    \
  X(BatchNorm, BatchNorm, "batch_norm", BatchNorm)                          \
  X(LayerNorm, LayerNorm, "layer_norm", LayerNorm)                          \
  X(Embedding, Embedding, "embedding", Embedding)                           \
  X(PositionEmbedding, PositionEmbedding, "position", PositionEmbedding)    \
  X(Lstm, Lstm, "lstm", Lstm)                                               \
  X(SelfAttention, SelfAttention, "attention", SelfAttention)               \
  X(Gelu, Gelu, "gelu", Activation)                                         \
  X(GlobalAveragePool, GlobalAveragePool, "global_pool", GlobalAveragePool) \
  X(Rescale, Rescale, "rescale", Rescale)                                   \
  X(Augment, Augment, "augment", Augment)

enum class LayerKind {
#define MONSOON_LAYER_KIND(kind, proto_case, name, maker) k##kind,
  MONSOON_LAYER_KINDS(MONSOON_LAYER_KIND)
#undef MONSOON_LAYER_KIND
};

// "dense".
inline const char* Name(LayerKind kind) {
  switch (kind) {
#define MONSOON_LAYER_NAME(kind, proto_case, name, maker) \
  case LayerKind::k##kind:                                \
    return name;
    MONSOON_LAYER_KINDS(MONSOON_LAYER_NAME)
#undef MONSOON_LAYER_NAME
  }
  return "";
}

}  // namespace monsoon
