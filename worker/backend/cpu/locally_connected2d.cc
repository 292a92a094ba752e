// Weights of each output pixel's own: a matrix product for each, of [filters, patch] with [patch,
// samples]. Values are turned to [height][width][channel][sample] for it: a patch's rows are then
// copied as they are, and weights and their gradient are read and written in the flat vector.
#include <algorithm>
#include <vector>

#include "common/base/check.h"
#include "worker/backend/cpu/layer.h"
#include "worker/backend/cpu/parallel.h"

namespace monsoon::cpu {
namespace {

using dnnl::memory;

// Of images with the samples side by side.
memory::desc SamplesLastDesc(size_t examples, const Extent& extent) {
  return memory::desc(
      {static_cast<memory::dim>(examples), static_cast<memory::dim>(extent.channels),
       static_cast<memory::dim>(extent.height), static_cast<memory::dim>(extent.width)},
      memory::data_type::f32, memory::format_tag::cdba);
}

// A row-major matrix with so many floats from row to row.
struct Matrix {
  const float* data;
  size_t stride;
  bool transposed = false;
};

// c = a b + beta c with c of [rows, columns].
void Multiply(size_t rows, size_t columns, size_t inner, const Matrix& a, const Matrix& b,
              float beta, float* c, size_t c_stride) {
  const auto dim = [](size_t size) { return static_cast<dnnl_dim_t>(size); };
  CHECK_EQ(dnnl_sgemm(a.transposed ? 'T' : 'N', b.transposed ? 'T' : 'N', dim(rows), dim(columns),
                      dim(inner), 1.0f, a.data, dim(a.stride), b.data, dim(b.stride), beta, c,
                      dim(c_stride)),
           dnnl_success);
}

class LocallyConnected2d : public CpuLayer {
 public:
  explicit LocallyConnected2d(const LayerArguments& arguments)
      : plan_(arguments.plan),
        examples_(arguments.context.examples()),
        threads_(static_cast<size_t>(arguments.threads)),
        filters_(plan_.output.channels),
        pixels_(plan_.output.height * plan_.output.width),
        patch_(plan_.input.channels * plan_.window * plan_.window),
        has_input_diff_(arguments.input.diff) {
    Context& context = arguments.context;
    AllocateOutput(arguments, ChannelsLastDesc(examples_, plan_.output), plan_.output);
    in_ = context.Allocate(SamplesLastDesc(examples_, plan_.input));
    out_ = context.Allocate(SamplesLastDesc(examples_, plan_.output));
    turn_in_ = MakeReorder(context, arguments.input.value, in_);
    turn_out_ = MakeReorder(context, out_, output_.value);
    if (context.training()) {
      turn_out_diff_ = MakeReorder(context, output_.diff, out_);  // whose values are done with
    }
    if (has_input_diff_) {
      in_diff_ = context.Allocate(SamplesLastDesc(examples_, plan_.input));
      turn_in_diff_ = MakeReorder(context, in_diff_, arguments.input.diff);
    }
    patches_.resize(threads_ * patch_ * examples_);
  }

  void SetParameters(const float* parameters) override { parameters_ = parameters; }

  void Forward(const StepKey* /*key*/) override {
    turn_in_.Run();
    ForEachPixel([&](size_t part, size_t pixel) {
      float* const out = Data(out_) + pixel * filters_ * examples_;
      for (size_t f = 0; f < filters_ && plan_.bias.size > 0; ++f) {
        std::fill_n(out + f * examples_, examples_, parameters_[BiasAt(pixel, f)]);
      }
      Multiply(filters_, examples_, patch_, WeightsAt(parameters_, pixel),
               {Gather(part, pixel), examples_}, plan_.bias.size > 0 ? 1.0f : 0.0f, out, examples_);
    });
    turn_out_.Run();
  }

  void Backward(float* gradient) override {
    turn_out_diff_.Run();
    ForEachPixel([&](size_t part, size_t pixel) {
      const float* const diff = Data(out_) + pixel * filters_ * examples_;
      for (size_t f = 0; f < filters_ && plan_.bias.size > 0; ++f) {
        double sum = 0;
        for (size_t n = 0; n < examples_; ++n) {
          sum += diff[f * examples_ + n];
        }
        gradient[BiasAt(pixel, f)] = static_cast<float>(sum);
      }
      Multiply(filters_, patch_, examples_, {diff, examples_},
               {Gather(part, pixel), examples_, true}, 0.0f, gradient + WeightsOffset(pixel),
               patch_);
    });
    if (has_input_diff_) {
      BackwardData();
      turn_in_diff_.Run();
    }
  }

 private:
  uint64_t WeightsOffset(size_t pixel) const {
    return plan_.weight.offset + pixel * filters_ * patch_;
  }
  Matrix WeightsAt(const float* vector, size_t pixel) const {
    return {vector + WeightsOffset(pixel), patch_};
  }
  // [filters, height, width].
  uint64_t BiasAt(size_t pixel, size_t filter) const {
    return plan_.bias.offset + filter * pixels_ + pixel;
  }

  // run(part, pixel)
  template <typename Run>
  void ForEachPixel(const Run& run) {
    const size_t parts = std::min(threads_, pixels_);
    ForEachPart(parts, [&](size_t part) {
      for (size_t p = pixels_ * part / parts; p < pixels_ * (part + 1) / parts; ++p) {
        run(part, p);
      }
    });
  }

  // run(row of the patch, row of the input's values; SIZE_MAX in the zero border)
  template <typename Run>
  void ForEachRow(size_t pixel, const Run& run) const {
    const size_t top = pixel / plan_.output.width * plan_.stride;
    const size_t left = pixel % plan_.output.width * plan_.stride;
    size_t row = 0;
    for (size_t c = 0; c < plan_.input.channels; ++c) {
      for (size_t i = 0; i < plan_.window; ++i) {
        for (size_t j = 0; j < plan_.window; ++j, ++row) {
          // Those before the image become large.
          const size_t y = top + i - plan_.padding, x = left + j - plan_.padding;
          const bool inside = y < plan_.input.height && x < plan_.input.width;
          run(row, inside ? (y * plan_.input.width + x) * plan_.input.channels + c : SIZE_MAX);
        }
      }
    }
  }

  // [patch, samples].
  const float* Gather(size_t part, size_t pixel) {
    float* const patch = patches_.data() + part * patch_ * examples_;
    ForEachRow(pixel, [&](size_t row, size_t from) {
      if (from == SIZE_MAX) {
        std::fill_n(patch + row * examples_, examples_, 0.0f);
      } else {
        std::copy_n(Data(in_) + from * examples_, examples_, patch + row * examples_);
      }
    });
    return patch;
  }

  // Threads share the samples out: the patches of two pixels overlap.
  void BackwardData() {
    const size_t parts = std::min(threads_, examples_);
    const size_t rows = plan_.input.size();
    ForEachPart(parts, [&](size_t part) {
      const size_t first = examples_ * part / parts;
      const size_t samples = examples_ * (part + 1) / parts - first;
      float* const in_diff = Data(in_diff_) + first;
      for (size_t row = 0; row < rows; ++row) {
        std::fill_n(in_diff + row * examples_, samples, 0.0f);
      }
      float* const patch = patches_.data() + part * patch_ * examples_;
      for (size_t pixel = 0; pixel < pixels_; ++pixel) {
        Matrix weights = WeightsAt(parameters_, pixel);
        weights.transposed = true;
        Multiply(patch_, samples, filters_, weights,
                 {Data(out_) + pixel * filters_ * examples_ + first, examples_}, 0.0f, patch,
                 samples);
        ForEachRow(pixel, [&](size_t row, size_t to) {
          for (size_t n = 0; n < samples && to != SIZE_MAX; ++n) {
            in_diff[to * examples_ + n] += patch[row * samples + n];
          }
        });
      }
    });
  }

  const LayerPlan plan_;
  const size_t examples_;
  const size_t threads_;
  const size_t filters_;
  const size_t pixels_;  // of the output
  const size_t patch_;   // weights of a filter
  const bool has_input_diff_;
  const float* parameters_ = nullptr;
  memory in_;   // with the samples side by side, as the others
  memory out_;  // values, and in the backward pass their gradient
  memory in_diff_;
  Call turn_in_;
  Call turn_out_;
  Call turn_out_diff_;
  Call turn_in_diff_;
  std::vector<float> patches_;  // of each thread
};

}  // namespace

std::unique_ptr<CpuLayer> MakeLocallyConnected2d(const LayerArguments& arguments) {
  return std::make_unique<LocallyConnected2d>(arguments);
}

}  // namespace monsoon::cpu
