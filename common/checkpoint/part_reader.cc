#include "common/checkpoint/part_reader.h"

#include <algorithm>
#include <climits>
#include <limits>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status.h"
#include "common/base/xxh3.h"
#include "common/checkpoint/manifest.h"
#include "common/checkpoint/part_plan.h"
#include "common/config/earlier_job.h"
#include "common/safetensors/safetensors_file.h"
#include "common/storage/file_path.h"

namespace monsoon {
namespace {

// Read and hashed at once, so that the bytes are still in the cache.
constexpr uint64_t kChunkBytes = 1 << 20;

// Of a line, which has one quantum in a sum of gradients.
constexpr uint64_t kLineFloats = 16;

class PartReaderImpl : public PartReader {
 public:
  PartReaderImpl(SafetensorsReader file, CheckpointManifest manifest)
      : file_(std::move(file)), manifest_(std::move(manifest)) {}

  // Everything but the floats.
  absl::Status Check() {
    RETURN_IF_ERROR(CheckChecksums());
    RETURN_IF_ERROR(CheckMetadata());
    RETURN_IF_ERROR(ReadContent());
    return CheckTensors();
  }

  const CheckpointManifest& manifest() const override { return manifest_; }
  const ShardCheckpoint& content() const override { return content_; }
  const ParameterLayout& layout() const override { return plan_.layout; }
  Slice slice() const override { return plan_.slice; }

  absl::Status Verify() const override {
    for (size_t i = 0; i < checksums_.size(); ++i) {
      RETURN_IF_ERROR(VerifyTensor(i));
    }
    return absl::OkStatus();
  }

  absl::Status ReadAll(std::span<float> parameters, std::span<float> state) const override {
    CHECK_EQ(parameters.size(), plan_.slice.size());
    RETURN_IF_ERROR(ReadPieces(0, [&](uint64_t at) { return parameters.subspan(at); }));
    if (plan_.state_slots == 0 || state.empty()) {
      return absl::OkStatus();
    }
    CHECK_EQ(state.size(), plan_.state_slots * plan_.slice.size());
    return ReadState([&](size_t slot, uint64_t at) {
      return state.subspan(slot * plan_.slice.size() + at, plan_.slice.size() - at);
    });
  }

  absl::Status ReadTo(Place parameters, StatePlace state) const override {
    RETURN_IF_ERROR(ReadPieces(0, parameters));
    return ReadState(state);
  }

  absl::Status ReadRows(RowPlace rows) const override {
    const auto nothing_more = [](const RowStripeRecord&, std::span<const float>) {
      return absl::OkStatus();
    };
    for (uint32_t table = 0; table < plan_.tables.size(); ++table) {
      RETURN_IF_ERROR(ReadStripes(table, rows, nothing_more));
    }
    return absl::OkStatus();
  }

  absl::Status ReadTable(uint32_t table, TakeRows take) const override {
    std::vector<float> floats;
    const auto place = [&](const RowStripeRecord& stripe) {
      floats.resize(plan_.RowStripeFloats(stripe));
      return std::span(floats);
    };
    return ReadStripes(table, place, take);
  }

  absl::Status VerifyTables() const override {
    for (size_t table = 0; table < plan_.tables.size(); ++table) {
      RETURN_IF_ERROR(VerifyTensor(plan_.TableTensor(table)));
    }
    return absl::OkStatus();
  }

  absl::Status ReadVector(size_t index, Place floats) const override {
    CHECK_LT(index, plan_.vectors.size());
    return ReadPieces(plan_.VectorTensor(index), floats);
  }

 private:
  absl::Status ReadState(StatePlace state) const {
    for (size_t slot = 0; slot < plan_.state_slots; ++slot) {
      RETURN_IF_ERROR(
          ReadPieces(plan_.StateTensor(slot), [&](uint64_t at) { return state(slot, at); }));
    }
    return absl::OkStatus();
  }

  // Reads the stripes of a table to where `place` says; `take` gets each before the next is read.
  absl::Status ReadStripes(uint32_t table, RowPlace place, TakeRows take) const {
    const size_t index = plan_.TableTensor(table);
    Xxh3 hash;
    uint64_t begin = 0;  // in bytes
    for (const RowStripeRecord& stripe : content_.row_stripe()) {
      if (stripe.table() != table) {
        continue;
      }
      const std::span<float> floats = place(stripe);
      CHECK_EQ(floats.size(), plan_.RowStripeFloats(stripe));
      const std::span<std::byte> bytes = std::as_writable_bytes(floats);
      RETURN_IF_ERROR(file_.Read(file_.tensors()[index], begin, bytes));
      hash.Add(bytes);
      begin += bytes.size();
      RETURN_IF_ERROR(take(stripe, floats));
    }
    return CheckSum(index, hash);
  }

  absl::Status Damaged(absl::string_view what) const {
    return absl::DataLossError(absl::StrCat(file_.path(), ": ", what));
  }

  // The last tensor: a checksum of each before it, and one of the head and of those.
  absl::Status CheckChecksums() {
    const SafetensorsReader::Tensor* const tensor = file_.Find(kChecksumTensor);
    const size_t count = file_.tensors().size();
    if (tensor == nullptr || tensor != &file_.tensors().back() ||
        tensor->type != NameOf(TensorType::kU64) || tensor->bytes != count * sizeof(uint64_t)) {
      return Damaged("it does not end with a checksum of each tensor");
    }
    checksums_.resize(count);
    RETURN_IF_ERROR(file_.Read(*tensor, 0, std::as_writable_bytes(std::span(checksums_))));
    const uint64_t last = checksums_.back();
    checksums_.pop_back();
    Xxh3 hash;
    hash.Add(std::as_bytes(std::span(file_.head())));
    hash.Add(std::as_bytes(std::span(checksums_)));
    if (hash.Digest() != last) {
      return Damaged("the checksum of its header does not match");
    }
    if (last != manifest_.checksum()) {
      return Damaged("its checksum is not that of its manifest");
    }
    return absl::OkStatus();
  }

  absl::Status CheckMetadata() const {
    const auto version = file_.metadata().find("format_version");
    uint64_t number = 0;
    if (version != file_.metadata().end() && absl::SimpleAtoi(version->second, &number) &&
        number > kCheckpointFormat) {
      return Annotate(NewerFormat(version->second), file_.path());
    }
    if (file_.metadata() != PartMetadata(manifest_)) {
      return Damaged("its header is not that of its manifest");
    }
    return absl::OkStatus();
  }

  absl::Status ReadContent() {
    const SafetensorsReader::Tensor* const tensor = file_.Find(kShardTensor);
    const size_t count = file_.tensors().size();
    if (count < 2 || tensor != &file_.tensors()[count - 2] ||
        tensor->type != NameOf(TensorType::kU8) || tensor->bytes > INT_MAX) {
      return Damaged("it has no record of its shard");
    }
    std::string record(tensor->bytes, '\0');
    RETURN_IF_ERROR(file_.Read(*tensor, 0, std::as_writable_bytes(std::span(record))));
    if (Xxh3::Of(std::as_bytes(std::span(record))) != checksums_.back()) {
      return Damaged("the checksum of its shard's record does not match");
    }
    if (!content_.ParseFromString(record)) {
      return Damaged("its shard's record cannot be read");
    }
    TakeOverEarlierJobs(&content_);
    CheckpointManifest expected = ManifestOf(content_);
    expected.set_format_version(manifest_.format_version());
    expected.set_written_ms(manifest_.written_ms());
    expected.set_file(manifest_.file());
    expected.set_bytes(manifest_.bytes());
    expected.set_checksum(manifest_.checksum());
    if (expected.SerializeAsString() != manifest_.SerializeAsString()) {
      return Damaged("its shard's record is not that of its manifest");
    }
    return absl::OkStatus();
  }

  // The header says what follows from the record.
  absl::Status CheckTensors() {
    auto plan = PartPlan::Create(content_);
    if (!plan.ok()) {
      return Damaged(plan.status().message());
    }
    plan_ = *std::move(plan);
    if (static_cast<uint64_t>(content_.stripe_size()) != plan_.map.stripes(plan_.shard)) {
      return Damaged(absl::StrCat("it has ", content_.stripe_size(), " stripes, expected ",
                                  plan_.map.stripes(plan_.shard)));
    }
    RETURN_IF_ERROR(CheckMaxima());
    const size_t count = plan_.RecordTensor() + 2;
    if (count != file_.tensors().size()) {
      return Damaged(absl::StrCat("it has ", file_.tensors().size(), " tensors, expected ", count));
    }
    const auto table_floats = plan_.TableFloats(content_);
    if (!table_floats.ok()) {
      return Damaged(table_floats.status().message());
    }
    std::vector<TensorSpec> expected = plan_.Tensors();
    for (size_t table = 0; table < table_floats->size(); ++table) {
      expected[plan_.TableTensor(table)].shape = {(*table_floats)[table]};
    }
    for (size_t i = 0; i + 2 < expected.size(); ++i) {
      const SafetensorsReader::Tensor& tensor = file_.tensors()[i];
      if (tensor.name != expected[i].name || tensor.type != NameOf(expected[i].type) ||
          tensor.shape != expected[i].shape) {
        return Damaged(absl::StrCat("tensor ", i, " is \"", tensor.name, "\" of ", tensor.bytes,
                                    " bytes, expected \"", expected[i].name, "\" of ",
                                    expected[i].bytes()));
      }
    }
    return absl::OkStatus();
  }

  // Of each stripe one for each line, or none.
  absl::Status CheckMaxima() const {
    for (int i = 0; i < content_.stripe_size(); ++i) {
      const auto& maxima = content_.stripe(i).maximum();
      const uint64_t floats = plan_.map.stripe(plan_.shard, static_cast<uint32_t>(i)).size();
      const uint64_t lines = (floats + kLineFloats - 1) / kLineFloats;
      if (!maxima.empty() && static_cast<uint64_t>(maxima.size()) != lines) {
        return Damaged(absl::StrCat("stripe ", i, " has ", maxima.size(),
                                    " largest values, expected ", lines));
      }
      for (const float maximum : maxima) {
        if (!(maximum >= 0.0f && maximum <= std::numeric_limits<float>::max())) {
          return Damaged(absl::StrCat("stripe ", i, " has the largest value ", maximum));
        }
      }
    }
    return absl::OkStatus();
  }

  absl::Status CheckSum(size_t index, const Xxh3& hash) const {
    if (hash.Digest() != checksums_[index]) {
      return Damaged(absl::StrCat("the checksum of tensor \"", file_.tensors()[index].name,
                                  "\" does not match"));
    }
    return absl::OkStatus();
  }

  absl::Status VerifyTensor(size_t index) const {
    const SafetensorsReader::Tensor& tensor = file_.tensors()[index];
    std::vector<std::byte> chunk(std::min(kChunkBytes, tensor.bytes));
    Xxh3 hash;
    for (uint64_t begin = 0; begin < tensor.bytes; begin += kChunkBytes) {
      const std::span<std::byte> part =
          std::span(chunk).first(std::min(kChunkBytes, tensor.bytes - begin));
      RETURN_IF_ERROR(file_.Read(tensor, begin, part));
      hash.Add(part);
    }
    return CheckSum(index, hash);
  }

  // Into a slice's floats, from the tensor `first` on.
  absl::Status ReadPieces(size_t first, Place floats) const {
    constexpr uint64_t kChunkFloats = kChunkBytes / sizeof(float);
    uint64_t done = 0;
    const auto next = [&](uint64_t end) {
      const std::span<float> place = floats(done);
      CHECK(!place.empty());
      return place.first(std::min<uint64_t>({place.size(), end - done, kChunkFloats}));
    };
    const auto fill = [&](uint64_t end) {  // padding
      while (done < end) {
        const std::span<float> part = next(end);
        std::ranges::fill(part, 0.0f);
        done += part.size();
      }
    };
    for (size_t i = 0; i < plan_.pieces.size(); ++i) {
      const Slice& range = plan_.pieces[i].range;
      const uint64_t begin = range.begin - plan_.slice.begin;
      fill(begin);
      Xxh3 hash;
      while (done < begin + range.size()) {
        const std::span<float> part = next(begin + range.size());
        const std::span<std::byte> bytes = std::as_writable_bytes(part);
        RETURN_IF_ERROR(
            file_.Read(file_.tensors()[first + i], (done - begin) * sizeof(float), bytes));
        hash.Add(bytes);
        done += part.size();
      }
      RETURN_IF_ERROR(CheckSum(first + i, hash));
    }
    fill(plan_.slice.size());
    return absl::OkStatus();
  }

  const SafetensorsReader file_;
  const CheckpointManifest manifest_;
  std::vector<uint64_t> checksums_;  // of each tensor but the last
  ShardCheckpoint content_;
  PartPlan plan_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<PartReader>> OpenPart(const Storage* storage,
                                                     const std::string& folder,
                                                     CheckpointManifest manifest) {
  const std::string path = InFolder(folder, manifest.file());
  ASSIGN_OR_RETURN(const std::unique_ptr<StorageReader> bytes, storage->Open(path));
  if (bytes->bytes() != manifest.bytes()) {
    return absl::DataLossError(absl::StrCat(path, ": it has ", bytes->bytes(),
                                            " bytes, its manifest says ", manifest.bytes()));
  }
  auto file = SafetensorsReader::Open(storage, path);
  if (absl::IsInvalidArgument(file.status())) {
    return absl::DataLossError(file.status().message());
  }
  RETURN_IF_ERROR(file.status());
  auto part = std::make_unique<PartReaderImpl>(*std::move(file), std::move(manifest));
  RETURN_IF_ERROR(part->Check());
  return part;
}

absl::StatusOr<std::unique_ptr<PartReader>> PartReader::Open(const Storage* storage,
                                                             const std::string& manifest_path) {
  auto text = storage->ReadAll(manifest_path, kMaxManifestBytes);
  if (absl::IsFailedPrecondition(text.status())) {
    return absl::DataLossError(text.status().message());
  }
  RETURN_IF_ERROR(text.status());
  auto manifest = ParseManifest(*text);
  RETURN_IF_ERROR(Annotate(manifest.status(), manifest_path));
  const PartName name = PartName::Of(*manifest);
  if (manifest->file() != name.Text(kPartEnding) ||
      NameOfPath(manifest_path) != name.Text(kManifestEnding)) {
    return absl::DataLossError(
        absl::StrCat(manifest_path, ": it is the manifest of ", name.Text(kPartEnding)));
  }
  return OpenPart(storage, FolderOf(manifest_path), *std::move(manifest));
}

}  // namespace monsoon
