#include "common/transport/grpc/reset_watch.h"

#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "grpc/grpc.h"
#include "grpc/support/alloc.h"

namespace monsoon {
namespace {

constexpr absl::Duration kPeriod = absl::Milliseconds(100);
constexpr absl::string_view kSocket = "\"socketId\":\"";
constexpr absl::string_view kServer = "\"serverId\":\"";
constexpr absl::string_view kName = "\"name\":\"";

// Takes over what channelz gives; "": nothing.
std::string Text(char* given) {
  const std::string text = given == nullptr ? "" : given;
  gpr_free(given);
  return text;
}

// The parts of a list behind each `key`, which begin with a number.
std::vector<absl::string_view> Entries(absl::string_view list, absl::string_view key) {
  std::vector<absl::string_view> entries;
  for (size_t at = list.find(key); at != absl::string_view::npos;) {
    const size_t begin = at + key.size();
    at = list.find(key, begin);
    entries.push_back(list.substr(begin, at == absl::string_view::npos ? at : at - begin));
  }
  return entries;
}

int64_t Leading(absl::string_view text) {
  int64_t number = 0;
  return absl::SimpleAtoi(text.substr(0, text.find('"')), &number) ? number : 0;
}

// Of a connection: what makes it, and its peer, are its name.
std::string PeerOf(absl::string_view socket) {
  const size_t name = socket.find(kName);
  if (name == absl::string_view::npos) {
    return "";
  }
  const absl::string_view whole = socket.substr(name + kName.size());
  const absl::string_view text = whole.substr(0, whole.find('"'));
  return std::string(text.substr(text.rfind(' ') + 1));
}

}  // namespace

ResetWatch::ResetWatch(Tell tell) : tell_(std::move(tell)), thread_([this] { Run(); }) {}

ResetWatch::~ResetWatch() {
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
  }
  changed_.NotifyAll();
  thread_.join();
}

uint64_t ResetWatch::NumberOf(absl::string_view text, absl::string_view name) {
  const std::string key = absl::StrCat("\"", name, "\":\"");
  const size_t at = text.find(key);
  return at == absl::string_view::npos ? 0 : Leading(text.substr(at + key.size()));
}

void ResetWatch::Run() {
  while (true) {
    {
      MutexLock lock(&mutex_);
      changed_.WaitFor(&mutex_, kPeriod, [this] {
        mutex_.AssertHeld();
        return stopping_;
      });
      if (stopping_) {
        return;
      }
    }
    Look();
  }
}

void ResetWatch::Look() {
  absl::flat_hash_map<int64_t, uint64_t> seen;
  const std::string servers = Text(grpc_channelz_get_servers(0));
  for (const absl::string_view server : Entries(servers, kServer)) {
    int64_t next = 0;
    for (bool more = true; more;) {
      const std::string list =
          Text(grpc_channelz_get_server_sockets(Leading(server), next, /*max_results=*/0));
      const std::vector<absl::string_view> sockets = Entries(list, kSocket);
      for (const absl::string_view socket : sockets) {
        const int64_t id = Leading(socket);
        // The list has each name before its number, that of the next one behind it.
        const std::string whole = Text(grpc_channelz_get_socket(id));
        const uint64_t failed = NumberOf(whole, "streamsFailed");
        const auto told = told_.find(id);
        const uint64_t before = told == told_.end() ? 0 : told->second;
        seen[id] = failed;
        next = id + 1;
        if (failed > before) {
          tell_(PeerOf(whole), failed - before);
        }
      }
      more = !sockets.empty() && list.find("\"end\":true") == std::string::npos;
    }
  }
  told_ = std::move(seen);
}

}  // namespace monsoon
