// CallTable: the unary calls that a server answers, by their names on the wire, each a function
// from a request to its answer. It knows messages and statuses; gRPC's types stay in
// call_service.cc.
//
//   CallTable calls;
//   calls.Add<JobRequest>("/monsoon.JobService/Start", faults,
//                         [&](const JobRequest& request) { return core.Start(request.job()); });
//
// A function that asks who calls takes a const Caller& before the request.
//
// Thread safe once it is filled.
#pragma once

#include <functional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/base/status.h"
#include "common/security/caller.h"
#include "common/transport/frame/fault.h"
#include "common/transport/frame/faulty_call.h"
#include "common/transport/grpc/request_limits.h"

namespace monsoon {

class CallTable {
 public:
  // Answers the bytes of a request with the bytes of a reply. It may block; one thread of few
  // (call_threads.h) is its own meanwhile.
  using Serve =
      std::function<absl::StatusOr<std::string>(const Caller& caller, absl::string_view request)>;

  // `method` is "/package.Service/Method" and is added once.
  void AddBytes(std::string method, Serve serve);

  // A request whose texts are too long (CheckRequestLimits) is refused before.
  // `serve` takes a Request, or a Caller and a Request, and gives absl::StatusOr of its reply, or
  // absl::Status where the reply is empty. `faults`, which outlives the table, may lose a call at
  // either end.
  template <typename Request, typename Function>
  void Add(std::string method, FaultInjector* faults, Function serve);

  struct Call {
    std::string method;
    Serve serve;
  };
  const std::vector<Call>& calls() const { return calls_; }

 private:
  std::vector<Call> calls_;
};

template <typename Request, typename Function>
void CallTable::Add(std::string method, FaultInjector* faults, Function serve) {
  AddBytes(std::move(method),
           [faults, serve](const Caller& caller,
                           absl::string_view bytes) -> absl::StatusOr<std::string> {
             Request request;
             if (!request.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
               return absl::InternalError(
                   "the request cannot be read: it is of another version, or a text in it is not "
                   "UTF-8");
             }
             RETURN_IF_ERROR(CheckRequestLimits(request));
             auto reply = CallWithFaults(faults, [&] {
               if constexpr (std::is_invocable_v<Function, const Caller&, const Request&>) {
                 return serve(caller, request);
               } else {
                 return serve(request);
               }
             });
             if constexpr (std::is_same_v<decltype(reply), absl::Status>) {
               return reply.ok() ? absl::StatusOr<std::string>("") : reply;
             } else {
               return reply.ok() ? absl::StatusOr<std::string>(reply->SerializeAsString())
                                 : reply.status();
             }
           });
}

}  // namespace monsoon
