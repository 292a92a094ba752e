// Which exchange a replica has, and where its vectors are: in the host's memory, or on the
// device that computes as far as that has room and can do what the job asks for. On a device,
// gradients are added up and move the parameters there, and so many bytes less cross to the
// host: with n_fetch = n_push = n, one vector each way in n rounds.
#pragma once

#include <memory>

#include "worker/downpour/downpour_options.h"
#include "worker/downpour/exchange.h"
#include "worker/downpour/fetch_plan.h"
#include "worker/downpour/local_updater.h"
#include "worker/downpour/statistics_keeper.h"
#include "worker/group/replica_group.h"

namespace monsoon {

// Of a vector of so many floats. `local` may be null where gradients are pushed. The pointers
// must outlive the exchange.
std::unique_ptr<Exchange> MakeExchange(const DownpourRunnerOptions& options, size_t floats,
                                       ReplicaGroup* group, std::unique_ptr<LocalUpdater> local,
                                       const StatisticsKeeper* statistics, FetchPlan* plan);

}  // namespace monsoon
