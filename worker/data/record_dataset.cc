#include "worker/data/record_dataset.h"

#include <algorithm>

#include "common/base/check.h"
#include "common/base/status.h"
#include "common/data/joined_array.h"
#include "common/simd/simd_level.h"
#include "worker/data/channels_first.h"
#include "worker/data/normalise_loops.h"

namespace monsoon {
namespace {

// Records that a store is told of before they are read. Of a disk so many are asked for at once.
constexpr size_t kAhead = 32;

const NormaliseLoops& Loops() {
  return ActiveLoops(simd_baseline::kNormaliseLoops, simd_avx2::kNormaliseLoops,
                     simd_avx512::kNormaliseLoops);
}

}  // namespace

uint64_t RecordFormat::bytes() const {
  return std::max(values_at + values_bytes(), labels_at + labels);
}

SampleFormat RecordDataset::format() const {
  SampleFormat format = parts_.answers.FormatOf(parts_.format.values);
  format.labels = std::max({format.labels, parts_.format.labels, parts_.labels.count});
  format.targets = std::max(format.targets, parts_.targets.count);
  return format;
}

void RecordDataset::Normalise(const uint8_t* record, float* out) const {
  const RecordFormat& format = parts_.format;
  const Normalisation& normalisation = parts_.normalisation;
  const bool bytes = format.type == NpyType::kUint8;
  const double unit = bytes && !normalisation.raw ? 1.0 / 255.0 : 1.0;
  const auto factor = static_cast<float>(normalisation.scale * unit);
  const auto offset = static_cast<float>(-normalisation.mean * normalisation.scale);
  const uint8_t* const raw = record + format.values_at;
  if (bytes) {
    Loops().bytes(format.values, factor, offset, raw, out);
  } else if (format.type == NpyType::kFloat32) {
    // Records of floats have nothing else, so each begins at a whole float of its store.
    Loops().floats(format.values, factor, offset, reinterpret_cast<const float*>(raw), out);
  } else {
    const std::span<const uint8_t> all(raw, format.values_bytes());
    for (size_t i = 0; i < format.values; ++i) {
      out[i] = static_cast<float>(ElementAt(format.type, all, i)) * factor + offset;
    }
  }
  if (format.channels_last > 0) {
    ToChannelsFirst(format.values / format.channels_last, format.channels_last,
                    std::span(out, format.values));
  }
}

absl::Status RecordDataset::CopyRows(uint32_t index, size_t n, Batch* batch) const {
  std::vector<uint8_t> scratch;
  for (const AnswerRows* const rows : {&parts_.labels, &parts_.targets}) {
    if (rows->bytes == nullptr) {
      continue;
    }
    ASSIGN_OR_RETURN(const uint8_t* const bytes,
                     rows->bytes->Get(index * rows->row_bytes(), rows->row_bytes(), &scratch));
    const std::span<const uint8_t> row(bytes, rows->row_bytes());
    for (size_t i = 0; i < rows->count; ++i) {
      const double value = ElementAt(rows->type, row, i);
      if (rows == &parts_.labels) {
        // Judged when the set was opened; a file that changed since must not be undefined here.
        batch->labels[n * rows->count + i] = static_cast<uint32_t>(std::clamp(value, 0.0, 4e9));
      } else {
        batch->targets.data()[n * rows->count + i] = static_cast<float>(value);
      }
    }
  }
  return absl::OkStatus();
}

absl::Status RecordDataset::Gather(std::span<const uint32_t> indices, Batch* batch) const {
  CHECK_LE(indices.size(), batch->capacity());
  const SampleFormat sample = format();
  CHECK(batch->format() == sample);
  const RecordFormat& format = parts_.format;
  const uint64_t bytes = format.bytes();
  const auto expect = [&](size_t i) {
    if (i < indices.size()) {
      parts_.records->Expect(indices[i] * format.stride, bytes);
    }
  };
  for (size_t i = 0; i < kAhead; ++i) {
    expect(i);
  }
  std::vector<uint8_t> scratch;
  for (size_t i = 0; i < indices.size(); ++i) {
    CHECK_LT(indices[i], parts_.examples);
    expect(i + kAhead);
    ASSIGN_OR_RETURN(const uint8_t* const record,
                     parts_.records->Get(indices[i] * format.stride, bytes, &scratch));
    Normalise(record, batch->inputs.data() + i * sample.values);
    std::copy_n(record + format.labels_at, format.labels, batch->labels.data() + i * format.labels);
    parts_.answers.CopyTo(indices[i], i, batch);
    RETURN_IF_ERROR(CopyRows(indices[i], i, batch));
  }
  batch->examples = indices.size();
  return absl::OkStatus();
}

}  // namespace monsoon
