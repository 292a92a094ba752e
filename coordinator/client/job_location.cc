#include "coordinator/client/job_location.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "common/base/status.h"
#include "common/model/table_info.h"

namespace monsoon {

absl::StatusOr<ShardMap> ShardMapOf(const JobLocation& location, const ParameterLayout& layout) {
  return ShardMap::Create(layout.size(), static_cast<uint32_t>(location.address_size()),
                          location.max_stripe_bytes());
}

absl::StatusOr<ParameterClientOptions> ReadOnlyOptions(const JobLocation& location,
                                                       const ParameterLayout& layout) {
  ParameterClientOptions options;
  ASSIGN_OR_RETURN(options.map, ShardMapOf(location, layout));
  ASSIGN_OR_RETURN(options.tables, TableMaps(layout.tables(), options.map.shards()));
  options.job = location.job();
  options.job_term = location.job_term();
  options.layout_hash = location.layout_hash();
  options.addresses = {location.address().begin(), location.address().end()};
  options.connections = std::max(1u, location.connections());
  options.read_only = true;
  return options;
}

}  // namespace monsoon
