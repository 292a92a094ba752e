#include "common/transport/grpc/call_table.h"

#include "common/base/check.h"

namespace monsoon {

void CallTable::AddBytes(std::string method, Serve serve) {
  for (const Call& call : calls_) {
    CHECK_NE(call.method, method);
  }
  calls_.push_back({std::move(method), std::move(serve)});
}

}  // namespace monsoon
