// A manifest, a zero byte and a part's file: as they are, and with every checksum made
// right. They are refused, or hold what they say.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "common/base/xxh3.h"
#include "common/checkpoint/checkpoint.h"
#include "common/checkpoint/manifest.h"
#include "common/model/table_info.h"
#include "common/model/table_map.h"
#include "common/safetensors/safetensors_file.h"
#include "common/storage/simulated_storage.h"

namespace monsoon {
namespace {

constexpr char kFile[] = "/f/ps-1-of-2.g5.e1.safetensors";
constexpr char kManifest[] = "/f/ps-1-of-2.g5.e1.manifest";
// Of one input: padding can make the floats 16 times the bytes, not more.
constexpr uint64_t kMaxFloats = 16 * 8192;

void ReadPart(const SimulatedStorage& storage) {
  const auto part = PartReader::Open(&storage, kManifest);
  if (!part.ok()) {
    return;
  }
  CHECK_EQ((*part)->manifest().bytes(), (*storage.Open(kFile))->bytes());
  CHECK_EQ((*part)->layout().Hash(), (*part)->content().create().layout_hash());
  const uint64_t size = (*part)->slice().size();
  CHECK_LE(size, kMaxFloats);
  std::vector<float> parameters(size);
  std::vector<float> state(size * (*part)->content().state_slots());
  absl::Status read = (*part)->ReadAll(parameters, state);
  for (int i = 0; read.ok() && i < (*part)->content().context().vector_size(); ++i) {
    read = (*part)->ReadVector(static_cast<size_t>(i),
                               [&](uint64_t at) { return std::span(parameters).subspan(at); });
  }
  if (read.ok()) {
    const CreateShardJobRequest& create = (*part)->content().create();
    const auto maps = TableMaps((*part)->layout().tables(), create.shards());
    CHECK_OK(maps.status());
    std::vector<float> floats;
    std::set<std::pair<uint32_t, uint32_t>> seen;
    uint64_t bytes = 0;
    read = (*part)->ReadRows([&](const RowStripeRecord& stripe) {
      CHECK(seen.emplace(stripe.table(), stripe.stripe()).second);
      const TableMap& map = (*maps)[stripe.table()];
      const uint64_t first = uint64_t{stripe.stripe()} * map.stripe_rows();
      CHECK_LT(first, map.rows_of(create.shard()));
      floats.resize(std::min<uint64_t>(map.stripe_rows(), map.rows_of(create.shard()) - first) *
                    (map.columns() + uint64_t{1}));
      bytes += floats.size() * sizeof(float);
      CHECK_LE(bytes, (*part)->manifest().bytes());
      return std::span(floats);
    });
  }
  CHECK_EQ((*part)->Verify().ok(), read.ok());
}

// The file with right checksums; "" where it has no place for them.
std::string WithChecksums(const SimulatedStorage& storage, std::string bytes, uint64_t* last) {
  const auto file = SafetensorsReader::Open(&storage, kFile);
  if (!file.ok() || file->tensors().empty()) {
    return "";
  }
  const std::vector<SafetensorsReader::Tensor>& tensors = file->tensors();
  if (tensors.back().bytes != tensors.size() * sizeof(uint64_t)) {
    return "";
  }
  const auto part = [&](uint64_t begin, uint64_t size) {
    return std::as_bytes(std::span(bytes).subspan(begin, size));
  };
  std::vector<uint64_t> checksums;
  for (size_t i = 0; i + 1 < tensors.size(); ++i) {
    checksums.push_back(Xxh3::Of(part(tensors[i].offset, tensors[i].bytes)));
  }
  Xxh3 hash;
  hash.Add(part(0, file->head().size()));
  hash.Add(std::as_bytes(std::span(checksums)));
  checksums.push_back(*last = hash.Digest());
  bytes.replace(tensors.back().offset, tensors.back().bytes,
                reinterpret_cast<const char*>(checksums.data()), tensors.back().bytes);
  return bytes;
}

void Fuzz(const std::string& input) {
  const size_t zero = input.find('\0');
  if (zero == std::string::npos) {
    return;
  }
  const std::string text = input.substr(0, zero);
  std::string file = input.substr(zero + 1);
  SimulatedStorage storage;
  CHECK_OK(storage.MakeFolder("/f"));
  CHECK_OK(storage.WriteAll(kManifest, text));
  CHECK_OK(storage.WriteAll(kFile, file));
  ReadPart(storage);

  const std::string body = text.substr(0, text.rfind('#'));
  auto manifest = ParseManifest(WithChecksumLine(body));
  if (!manifest.ok()) {
    return;
  }
  uint64_t last = 0;
  file = WithChecksums(storage, std::move(file), &last);
  if (file.empty()) {
    return;
  }
  manifest->set_bytes(file.size());
  manifest->set_checksum(last);
  CHECK_OK(storage.WriteAll(kManifest, ManifestText(*manifest)));
  CHECK_OK(storage.WriteAll(kFile, file));
  ReadPart(storage);
}

}  // namespace
}  // namespace monsoon

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  monsoon::Fuzz(std::string(reinterpret_cast<const char*>(data), size));
  return 0;
}
