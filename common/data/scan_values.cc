#include "common/data/scan_values.h"

#include <zlib.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/status.h"
#include "common/data/idx_header.h"
#include "common/data/npy_header.h"

namespace monsoon {
namespace {

static_assert(std::endian::native == std::endian::little);

struct GzCloser {
  void operator()(gzFile_s* file) const { gzclose_r(file); }
};

// What is not finite among the values seen so far.
class NonFinite {
 public:
  explicit NonFinite(uint64_t considered) : considered_(considered) {}

  // The next values; whole floats but at the end of a file that is cut short.
  void Look(std::span<const char> bytes) {
    for (size_t i = 0; i + sizeof(float) <= bytes.size() && seen_ < considered_;
         i += sizeof(float), ++seen_) {
      float value = 0;
      std::memcpy(&value, bytes.data() + i, sizeof(float));
      if (!std::isfinite(value)) {
        if (count_++ == 0) {
          first_ = seen_;
          value_ = value;
        }
      }
    }
  }

  absl::Status ToStatus(const std::string& path, const DatasetInfo& info) const {
    if (count_ == 0) {
      return absl::OkStatus();
    }
    const uint64_t values = info.sample_elements();
    std::vector<uint64_t> place(info.sample_shape.size());
    uint64_t rest = first_ % values;
    for (size_t i = place.size(); i-- > 0;) {
      place[i] = rest % info.sample_shape[i];
      rest /= info.sample_shape[i];
    }
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": sample ", first_ / values, " has ", value_, " at [",
                     absl::StrJoin(place, ", "), "]; ", count_, " of the values of ", info.examples,
                     info.examples == 1 ? " sample is" : " samples are", " not finite"));
  }

 private:
  const uint64_t considered_;
  uint64_t seen_ = 0;
  uint64_t count_ = 0;
  uint64_t first_ = 0;
  float value_ = 0;
};

// Calls `look` with the bytes from `offset` on, piece by piece, whole floats
// each, to the end of the file, whose CRC zlib checks there.
template <typename Look>
absl::Status ReadThrough(const std::string& path, uint64_t offset, uint64_t bytes, Look look) {
  std::unique_ptr<gzFile_s, GzCloser> file(gzopen(path.c_str(), "rb"));
  if (file == nullptr || gzseek(file.get(), static_cast<z_off_t>(offset), SEEK_SET) < 0) {
    return absl::InvalidArgumentError(absl::StrCat("cannot read ", path));
  }
  std::vector<char> buffer(1 << 16);
  uint64_t got = 0;
  while (true) {
    const int count = gzread(file.get(), buffer.data(), static_cast<unsigned>(buffer.size()));
    if (count < 0) {
      return absl::DataLossError(
          absl::StrCat(path, ": damaged after ", offset + got, " bytes of its content"));
    }
    if (count == 0) {
      break;
    }
    look(std::span<const char>(buffer).first(static_cast<size_t>(count)));
    got += static_cast<uint64_t>(count);
  }
  if (got != bytes) {
    return absl::DataLossError(
        absl::StrCat(path, ": holds ", got, " bytes of samples, its header ", "promises ", bytes));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ScanValues(const Dataset& dataset, const DatasetInfo& info) {
  switch (dataset.source_case()) {
    case Dataset::kIdx: {
      const std::string& path = dataset.idx().images();
      ASSIGN_OR_RETURN(const IdxHeader header, ReadIdxHeader(path));
      return ReadThrough(path, header.data_offset, header.data_bytes, [](const auto&) {});
    }
    case Dataset::kNpy: {
      const std::string& path = dataset.npy().images();
      ASSIGN_OR_RETURN(const NpyHeader header, ReadNpyHeader(path));
      NonFinite found(info.type == ElementType::kFloat32 ? info.examples * info.sample_elements()
                                                         : 0);
      RETURN_IF_ERROR(ReadThrough(path, header.data_offset, header.data_bytes,
                                  [&](std::span<const char> bytes) { found.Look(bytes); }));
      return found.ToStatus(path, info);
    }
    default:
      return absl::UnimplementedError("this source is not built in yet");
    case Dataset::kSynthetic:
    case Dataset::kJoiners:
    case Dataset::SOURCE_NOT_SET:
      break;
  }
  return absl::OkStatus();
}

}  // namespace monsoon
