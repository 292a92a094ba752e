#include "common/model/fragment_map.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "proto/downpour.pb.h"

namespace monsoon {
namespace {

constexpr std::string_view kSeparators = "/.";

// Of a tensor's name, what the names of its layer's tensors begin with.
std::string_view LayerOf(std::string_view name) {
  size_t part = 0;
  while (part < name.size()) {
    const size_t end = std::min(name.find_first_of(kSeparators, part), name.size());
    const std::string_view text = name.substr(part, end - part);
    if (!text.empty() && std::ranges::all_of(text, absl::ascii_isdigit)) {
      return name.substr(0, end);
    }
    part = end + 1;
  }
  const size_t last = name.find_last_of(kSeparators);
  return last == std::string_view::npos ? name : name.substr(0, last);
}

struct LayerSlice {
  std::string_view name;
  Slice slice;
};

std::vector<LayerSlice> LayersOf(const ParameterLayout& layout) {
  std::vector<LayerSlice> layers;
  for (const TensorInfo& tensor : layout.tensors()) {
    const std::string_view name = LayerOf(tensor.name);
    if (layers.empty() || layers.back().name != name) {
      layers.push_back({name, {tensor.offset, tensor.offset}});
    }
    layers.back().slice.end = tensor.offset + tensor.size;
  }
  return layers;
}

// The layer that most of a stripe is of; `from` is that of the stripe before, or one before it.
size_t LayerAt(const std::vector<LayerSlice>& layers, const Slice& stripe, size_t from) {
  size_t best = from;
  uint64_t most = 0;
  for (size_t i = from; i < layers.size() && layers[i].slice.begin < stripe.end; ++i) {
    const uint64_t begin = std::max(stripe.begin, layers[i].slice.begin);
    const uint64_t end = std::min(stripe.end, layers[i].slice.end);
    if (end > begin && end - begin > most) {
      most = end - begin;
      best = i;
    }
  }
  return best;
}

}  // namespace

FragmentMap FragmentMap::Whole(const ShardMap& map) {
  std::vector<std::vector<uint32_t>> of;
  for (uint32_t shard = 0; shard < map.shards(); ++shard) {
    of.emplace_back(map.stripes(shard), 0);
  }
  return FragmentMap(1, std::move(of), map);
}

FragmentMap::FragmentMap(uint32_t count, std::vector<std::vector<uint32_t>> of, const ShardMap& map)
    : count_(count), of_(std::move(of)), runs_(count), slices_(count) {
  for (auto& runs : runs_) {
    runs.resize(map.shards());
  }
  for (uint32_t shard = 0; shard < map.shards(); ++shard) {
    for (uint32_t stripe = 0; stripe < map.stripes(shard); ++stripe) {
      const uint32_t fragment = of_[shard][stripe];
      std::vector<StripeRun>& runs = runs_[fragment][shard];
      if (!runs.empty() && runs.back().end == stripe) {
        ++runs.back().end;
      } else {
        runs.push_back({stripe, stripe + 1});
      }
      const Slice slice = map.stripe(shard, stripe);
      std::vector<Slice>& slices = slices_[fragment];
      if (!slices.empty() && slices.back().end == slice.begin) {
        slices.back().end = slice.end;
      } else {
        slices.push_back(slice);
      }
    }
  }
}

std::vector<uint32_t> FragmentMap::StripesOf(uint32_t fragment, uint32_t shard) const {
  std::vector<uint32_t> stripes;
  for (const StripeRun& run : Runs(fragment, shard)) {
    for (uint32_t stripe = run.first; stripe < run.end; ++stripe) {
      stripes.push_back(stripe);
    }
  }
  return stripes;
}

absl::StatusOr<FragmentMap> FragmentMap::Create(const Fragments& fragments,
                                                const ParameterLayout& layout,
                                                const ShardMap& map) {
  const uint32_t count = fragments.count();
  const bool by_layer = fragments.order() == Fragments::BY_LAYER;
  const std::vector<LayerSlice> layers = by_layer ? LayersOf(layout) : std::vector<LayerSlice>();
  std::vector<std::vector<uint32_t>> of(map.shards());
  std::vector<bool> found(count, false);
  size_t layer = 0;
  uint64_t n = 0;  // of all stripes
  for (uint32_t shard = 0; shard < map.shards(); ++shard) {
    for (uint32_t stripe = 0; stripe < map.stripes(shard); ++stripe, ++n) {
      if (by_layer) {
        layer = LayerAt(layers, map.stripe(shard, stripe), layer);
      }
      of[shard].push_back(static_cast<uint32_t>((by_layer ? layer : n) % count));
      found[of[shard].back()] = true;
    }
  }
  const auto missing = std::ranges::find(found, false);
  if (missing != found.end()) {
    return absl::InvalidArgumentError(
        absl::StrCat("fragment ", missing - found.begin(), " of ", count,
                     " would have no stripe: the model has ",
                     by_layer ? absl::StrCat(layers.size(), " layers and ") : "", n,
                     " stripes of up to ", map.stripe_floats() * sizeof(float),
                     " bytes; take fewer fragments, or a smaller stripe_kib",
                     by_layer ? ", or order BY_STRIPE" : ""));
  }
  return FragmentMap(count, std::move(of), map);
}

}  // namespace monsoon
