// Batch normalisation, with a ReLU behind it. Values lie as rows of channels: pixels of images, or
// samples.
#include <algorithm>
#include <cmath>
#include <vector>

#include "common/simd/simd_level.h"
#include "worker/backend/cpu/image_loops.h"
#include "worker/backend/cpu/layer.h"
#include "worker/backend/cpu/parallel.h"

namespace monsoon::cpu {
namespace {

// Few channels would leave most of a vector empty: so many rows are taken as one, of at least so
// many columns.
constexpr size_t kMinColumns = 64;
// Floats of a block, whose sums are in float; it is read twice, the second time from the cache.
constexpr size_t kBlockFloats = 1 << 14;
// Below so many floats a thread costs more than it brings.
constexpr size_t kMinFloatsOfThread = 1 << 15;

// Of one column: how many values, their mean, and the sum of their squared differences from it.
struct Moments {
  double count = 0;
  double mean = 0;
  double squares = 0;

  // Of both together (Chan et al. 1983).
  void Merge(const Moments& other) {
    const double all = count + other.count;
    if (other.count == 0) {
      return;
    }
    const double between = other.mean - mean;
    mean += between * other.count / all;
    squares += other.squares + between * between * count * other.count / all;
    count = all;
  }
};

class BatchNorm : public CpuLayer {
 public:
  explicit BatchNorm(const LayerArguments& arguments)
      : input_(arguments.input),
        plan_(arguments.plan),
        relu_(arguments.activation.has_value()),
        channels_(plan_.input.channels),
        rows_(arguments.context.examples() * plan_.input.height * plan_.input.width),
        rows_of_strip_(std::min(rows_, (kMinColumns + channels_ - 1) / channels_)),
        columns_(rows_of_strip_ * channels_),
        loops_(ActiveLoops(simd_baseline::kColumnLoops, simd_avx2::kColumnLoops,
                           simd_avx512::kColumnLoops)) {
    AllocateOutput(arguments, input_.value.get_desc(), plan_.output);
    const size_t strips = rows_ / rows_of_strip_;
    parts_ = std::clamp<size_t>(rows_ * channels_ / kMinFloatsOfThread, 1,
                                std::min<size_t>(strips, static_cast<size_t>(arguments.threads)));
    tiles_.resize(kTiles * columns_);
    if (arguments.context.training()) {
      sums_.resize(parts_ * 2 * columns_);
      moments_.resize(parts_ * columns_);
      first_.resize(parts_ * columns_);
      second_.resize(parts_ * columns_);
      channel_.resize(channels_);
    }
  }

  void SetParameters(const float* parameters) override { parameters_ = parameters; }

  void Forward(const StepKey* key) override {
    // One value has no variance: the running ones stand in for it, and stay.
    by_batch_ = key != nullptr && key->samples.empty() && rows_ > 1;
    if (by_batch_) {
      JudgeBatch();
    }
    for (size_t c = 0; c < channels_; ++c) {
      const double variance =
          by_batch_ ? channel_[c].squares / channel_[c].count : parameters_[running_variance() + c];
      const double mean = by_batch_ ? channel_[c].mean : parameters_[running_mean() + c];
      const double inverse = 1 / std::sqrt(variance + plan_.epsilon);
      tile(kMean)[c] = static_cast<float>(mean);
      tile(kInverse)[c] = static_cast<float>(inverse);
      tile(kScale)[c] = static_cast<float>(Scale(c) * inverse);
      tile(kShift)[c] = plan_.bias.size == 0 ? 0 : parameters_[plan_.bias.offset + c];
    }
    Repeat({kMean, kScale, kShift});
    ForEachBlock([&](size_t /*part*/, size_t at, size_t rows, size_t columns) {
      loops_.normalise(rows, columns, Data(input_.value) + at, tile(kMean), tile(kScale),
                       tile(kShift), relu_, Data(output_.value) + at);
    });
  }

  void Backward(float* gradient) override {
    SumProducts();
    const double count = static_cast<double>(rows_);
    for (size_t c = 0; c < channels_; ++c) {
      const double sum = first_[c], inverse = tile(kInverse)[c];
      const double product = second_[c] * inverse;
      if (plan_.weight.size != 0) {
        gradient[plan_.weight.offset + c] = static_cast<float>(product);
        gradient[plan_.bias.offset + c] = static_cast<float>(sum);
      }
      MoveRunning(c, gradient);
      const double scale = Scale(c) * inverse;
      tile(kSlope)[c] = by_batch_ ? static_cast<float>(-scale * inverse * product / count) : 0;
      tile(kShift)[c] = by_batch_ ? static_cast<float>(-scale * sum / count) : 0;
    }
    if (!input_.diff) {
      return;
    }
    Repeat({kSlope, kShift});
    ForEachBlock([&](size_t /*part*/, size_t at, size_t rows, size_t columns) {
      loops_.denormalise(rows, columns, Data(input_.value) + at, tile(kMean),
                         Data(output_.diff) + at, tile(kScale), tile(kSlope), tile(kShift),
                         Data(input_.diff) + at);
    });
  }

 private:
  // One value for each column of a strip.
  enum Tile { kMean, kInverse, kScale, kShift, kSlope, kTiles };

  float* tile(Tile which) { return tiles_.data() + which * columns_; }
  uint64_t running_mean() const { return plan_.tensors[plan_.tensors.size() - 2].offset; }
  uint64_t running_variance() const { return plan_.tensors.back().offset; }
  double Scale(size_t c) const {
    return plan_.weight.size == 0 ? 1.0 : parameters_[plan_.weight.offset + c];
  }

  // The channels' values to the other rows of a strip.
  void Repeat(std::initializer_list<Tile> which) {
    for (const Tile each : which) {
      for (size_t j = channels_; j < columns_; ++j) {
        tile(each)[j] = tile(each)[j - channels_];
      }
    }
  }

  // run(part, first float, rows, columns) for all blocks of strips; the rows that make no whole
  // strip are a block by themselves.
  template <typename Run>
  void ForEachBlock(const Run& run) {
    const size_t strips = rows_ / rows_of_strip_;
    const size_t of_block = std::max<size_t>(1, kBlockFloats / columns_);
    ForEachPart(parts_, [&](size_t part) {
      const size_t end = strips * (part + 1) / parts_;
      for (size_t strip = strips * part / parts_; strip < end; strip += of_block) {
        run(part, strip * columns_, std::min(of_block, end - strip), columns_);
      }
      if (part + 1 == parts_ && rows_ % rows_of_strip_ != 0) {
        run(part, strips * columns_, 1, rows_ % rows_of_strip_ * channels_);
      }
    });
  }

  // Mean and variance of each channel, into channel_.
  void JudgeBatch() {
    std::ranges::fill(moments_, Moments());
    ForEachBlock([&](size_t part, size_t at, size_t rows, size_t columns) {
      const float* const x = Data(input_.value) + at;
      float* const mean = sums_.data() + part * 2 * columns_;
      float* const squares = mean + columns_;
      std::fill_n(mean, 2 * columns_, 0.0f);
      loops_.add(rows, columns, x, mean);
      for (size_t j = 0; j < columns; ++j) {
        mean[j] /= static_cast<float>(rows);
      }
      loops_.add_squares(rows, columns, x, mean, squares);
      for (size_t j = 0; j < columns; ++j) {
        moments_[part * columns_ + j].Merge({static_cast<double>(rows), mean[j], squares[j]});
      }
    });
    std::ranges::fill(channel_, Moments());
    for (size_t i = 0; i < parts_ * columns_; ++i) {
      channel_[i % channels_].Merge(moments_[i]);
    }
  }

  // Of each channel the sums of the gradient, which passes the ReLU, and of its products with
  // x - mean, into first_ and second_.
  void SumProducts() {
    std::ranges::fill(first_, 0.0);
    std::ranges::fill(second_, 0.0);
    ForEachBlock([&](size_t part, size_t at, size_t rows, size_t columns) {
      float* const sums = sums_.data() + part * 2 * columns_;
      std::fill_n(sums, 2 * columns_, 0.0f);
      float* const diff = Data(output_.diff) + at;
      if (relu_) {
        loops_.mask(rows * columns, Data(output_.value) + at, diff);
      }
      loops_.add_products(rows, columns, Data(input_.value) + at, tile(kMean), diff, sums,
                          sums + columns_);
      for (size_t j = 0; j < columns; ++j) {
        first_[part * columns_ + j] += sums[j];
        second_[part * columns_ + j] += sums[columns_ + j];
      }
    });
    for (size_t i = channels_; i < parts_ * columns_; ++i) {
      first_[i % channels_] += first_[i];
      second_[i % channels_] += second_[i];
    }
  }

  // What moves the running ones towards those of the batch once it is subtracted.
  void MoveRunning(size_t c, float* gradient) const {
    gradient[running_mean() + c] = gradient[running_variance() + c] = 0;
    if (by_batch_) {
      const double unbiased = channel_[c].squares / std::max(1.0, channel_[c].count - 1);
      gradient[running_mean() + c] =
          static_cast<float>(plan_.momentum * (parameters_[running_mean() + c] - channel_[c].mean));
      gradient[running_variance() + c] =
          static_cast<float>(plan_.momentum * (parameters_[running_variance() + c] - unbiased));
    }
  }

  const Port input_;
  const LayerPlan plan_;
  const bool relu_;
  const size_t channels_;
  const size_t rows_;
  const size_t rows_of_strip_;
  const size_t columns_;  // of a strip
  const ColumnLoops& loops_;
  size_t parts_ = 1;
  const float* parameters_ = nullptr;
  bool by_batch_ = false;         // in the last Forward
  std::vector<float> tiles_;      // [tile][column]
  std::vector<float> sums_;       // of a block: [part][2][column]
  std::vector<Moments> moments_;  // [part][column]
  std::vector<Moments> channel_;  // of the batch
  std::vector<double> first_;     // [part][column]
  std::vector<double> second_;
};

}  // namespace

std::unique_ptr<CpuLayer> MakeBatchNorm(const LayerArguments& arguments) {
  return std::make_unique<BatchNorm>(arguments);
}

}  // namespace monsoon::cpu
