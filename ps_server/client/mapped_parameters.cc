#include "ps_server/client/mapped_parameters.h"

#include <numeric>
#include <optional>

#include "common/transport/shm/shared_slice.h"

namespace monsoon {
namespace {

// Of a stripe, before the shard is asked for it.
constexpr int kReadAttempts = 3;

}  // namespace

bool AllAreMapped(const ChoosingTransport& transport, uint32_t shards) {
  for (uint32_t shard = 0; shard < shards; ++shard) {
    if (transport.mapped(shard) == nullptr) {
      return false;
    }
  }
  return true;
}

void ReadMappedParameters(ChoosingTransport* transport, uint32_t shard, const FetchRequest& request,
                          const ShardMap& map, std::span<float> parameters,
                          std::vector<StripeMark>* marks, std::vector<uint32_t>* left) {
  const auto all_are_left = [&] {
    left->resize(map.stripes(shard));
    std::iota(left->begin(), left->end(), 0u);
  };
  all_are_left();
  const ChoosingTransport::Mapping* mapping =
      transport->Map(shard, request, {0, map.shard(shard).size(), map.stripe_floats()});
  if (mapping == nullptr) {
    return;
  }
  // A stripe that is being written gets another chance when the others are
  // read.
  for (int attempt = 0; attempt < kReadAttempts && !left->empty(); ++attempt) {
    std::erase_if(*left, [&](uint32_t stripe) {
      const Slice slice = map.stripe(shard, stripe);
      const std::optional<SliceReader::Mark> mark =
          mapping->reader->Read(stripe, parameters.subspan(slice.begin, slice.size()));
      if (mark.has_value()) {
        (*marks)[stripe] = {mapping->shard_epoch, mark->version, mark->applied_sequence};
      }
      return mark.has_value();
    });
  }
  // A shard that is gone may have left half of an update; a session that was
  // closed must not go on unnoticed. The shard itself says what is wrong.
  if (!mapping->reader->valid() || !transport->Alive(shard)) {
    all_are_left();
    return;
  }
  uint64_t floats = map.shard(shard).size();
  for (const uint32_t stripe : *left) {
    floats -= map.stripe(shard, stripe).size();
  }
  mapping->counts->stripes += map.stripes(shard) - left->size();
  mapping->counts->bytes += floats * sizeof(float);
}

}  // namespace monsoon
