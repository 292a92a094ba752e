#include "ps_server/client/client_transport.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/transport/frame/fault_transport.h"
#include "ps_server/client/shard_control.h"

namespace monsoon {
namespace {

absl::StatusOr<SharedMemoryOffer> AskForSharedMemory(const std::string& address,
                                                     const std::shared_ptr<Tls>& tls,
                                                     absl::Duration deadline) {
  ASSIGN_OR_RETURN(ShardStatusReply status,
                   ShardControl::Create(address, deadline, {}, tls)->GetStatus(""));
  if (!status.has_shared_memory()) {
    return absl::FailedPreconditionError("the shard does not offer shared memory");
  }
  return std::move(*status.mutable_shared_memory());
}

std::unique_ptr<ChoosingTransport> MakeOne(const ParameterClientOptions& options,
                                           TransportReport* report) {
  return ChoosingTransport::Create(
      options.transport, options.addresses, options.tls, options.connections, options.deadline,
      [addresses = options.addresses, tls = options.tls](uint32_t shard, absl::Duration deadline) {
        return AskForSharedMemory(addresses[shard], tls, deadline);
      },
      report);
}

std::unique_ptr<FrameTransport> AddFaults(const ParameterClientOptions& options,
                                          std::unique_ptr<FrameTransport> transport) {
  return options.fault.enabled()
             ? MakeFaultTransport(std::move(transport), options.fault, Clock::Real())
             : std::move(transport);
}

}  // namespace

std::vector<std::string> TaskNames(uint32_t shards) {
  std::vector<std::string> names;
  for (uint32_t shard = 0; shard < shards; ++shard) {
    names.push_back(absl::StrCat("ps/", shard));
  }
  return names;
}

std::vector<std::string> ShardNames(const std::vector<std::string>& addresses) {
  std::vector<std::string> names = TaskNames(static_cast<uint32_t>(addresses.size()));
  for (size_t shard = 0; shard < addresses.size(); ++shard) {
    absl::StrAppend(&names[shard], " at ", addresses[shard]);
  }
  return names;
}

ClientTransports MakeClientTransports(const ParameterClientOptions& options,
                                      TransportReport* report) {
  if (options.make_transport) {
    return {options.make_transport(), options.make_transport()};
  }
  std::unique_ptr<ChoosingTransport> fetch = MakeOne(options, report);
  // Faults are of frames, so there every fetch is one.
  ChoosingTransport* const reader = options.fault.enabled() ? nullptr : fetch.get();
  return {AddFaults(options, std::move(fetch)), AddFaults(options, MakeOne(options, report)),
          reader};
}

}  // namespace monsoon
