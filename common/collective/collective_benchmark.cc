// One member of a benchmark of all-reduces: tests/benchmarks/collectives.py starts N of them and
// asks all of them for the same, a line each:
//
//   calibrate                            {"costs": "TREE 80.0 us + 0.800 ns/B, ..."}
//   BYTES ALGORITHM ORDER CALLS          {"seconds": [...], "algorithm": "RING", "correct": true}
//
// ALGORITHM is a name of common/collective/collective.h, ORDER is fixed or by_rank. Each call is
// timed by itself, after one that all wait in; what comes of each is checked, outside of the time.
// The members find each other by files in --folder. Ends with its standard input.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/check.h"
#include "common/base/clock.h"
#include "common/base/flags.h"
#include "common/collective/communicator.h"
#include "common/memory/aligned_floats.h"
#include "common/process/die_with_parent.h"
#include "common/transport/frame_listener.h"

namespace monsoon {
namespace {

constexpr Algorithm kAlgorithms[] = {Algorithm::kAuto, Algorithm::kNaive,  Algorithm::kTree,
                                     Algorithm::kRing, Algorithm::kDirect, Algorithm::kExchange};

struct Settings {
  std::string folder;
  std::string transport = "shared_memory";
  uint32_t rank = 0;
  uint32_t members = 2;
  uint32_t part_kib = 0;  // 0: the default
};

struct Place {
  std::string address;
  SharedMemoryOffer offer;
};

void Publish(const Settings& settings, const FrameListener& listener) {
  const std::string path = absl::StrCat(settings.folder, "/", settings.rank);
  const SharedMemoryOffer offer = listener.offer();
  std::ofstream(path + ".tmp") << listener.address() << '\n'
                               << offer.socket() << '\n'
                               << offer.host() << '\n';
  CHECK_EQ(std::rename((path + ".tmp").c_str(), path.c_str()), 0);
}

std::vector<Place> FindAll(const Settings& settings) {
  std::vector<Place> places(settings.members);
  for (uint32_t rank = 0; rank < settings.members; ++rank) {
    const std::string path = absl::StrCat(settings.folder, "/", rank);
    std::ifstream file(path);
    while (!file.is_open()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      file.open(path);
    }
    std::string socket, host;
    std::getline(file, places[rank].address);
    std::getline(file, socket);
    std::getline(file, host);
    places[rank].offer.set_socket(socket);
    places[rank].offer.set_host(host);
  }
  return places;
}

float ValueOf(uint32_t rank, size_t i) { return static_cast<float>((rank + 1) * (i % 251)); }

struct Answer {
  std::vector<double> seconds;
  bool correct = true;
};

absl::Status Measure(Communicator* communicator, const Settings& settings, size_t floats, int calls,
                     const CallOptions& options, Answer* answer) {
  AlignedFloats values = AlignedFloats::Uninitialized(floats);
  const float ranks = static_cast<float>(settings.members * (settings.members + 1) / 2);
  for (int call = 0; call < calls; ++call) {
    for (size_t i = 0; i < floats; ++i) {
      values.data()[i] = ValueOf(settings.rank, i);
    }
    float together = 1;
    const absl::Status met = communicator->AllReduce({&together, 1}, options);
    if (!met.ok()) {
      return met;
    }
    const absl::Duration start = Clock::Real()->Now();
    if (const absl::Status status = communicator->AllReduce(values.span(), options); !status.ok()) {
      return status;
    }
    answer->seconds.push_back(absl::ToDoubleSeconds(Clock::Real()->Now() - start));
    for (size_t i = 0; i < floats; ++i) {
      answer->correct = answer->correct && values.data()[i] == ranks * static_cast<float>(i % 251);
    }
  }
  return absl::OkStatus();
}

absl::Status Serve(Communicator* communicator, const Settings& settings) {
  std::string line;
  while (std::getline(std::cin, line)) {
    if (line == "calibrate") {
      if (const absl::Status status = communicator->Calibrate(); !status.ok()) {
        return status;
      }
      std::cout << "{\"costs\": \"" << communicator->costs().Describe() << "\"}" << std::endl;
      continue;
    }
    std::istringstream words(line);
    size_t bytes = 0;
    std::string name, order;
    int calls = 0;
    words >> bytes >> name >> order >> calls;
    const auto* const algorithm = std::ranges::find_if(
        kAlgorithms, [&](Algorithm algorithm) { return Name(algorithm) == name; });
    if (!words || algorithm == std::end(kAlgorithms)) {
      return absl::InvalidArgumentError(absl::StrCat("no request: ", line));
    }
    CallOptions options;
    options.algorithm = *algorithm;
    options.order = order == "by_rank" ? SumOrder::kByRank : SumOrder::kFixed;
    Answer answer;
    const absl::Status status =
        Measure(communicator, settings, bytes / sizeof(float), calls, options, &answer);
    if (!status.ok()) {
      return status;
    }
    const Algorithm chosen = options.algorithm == Algorithm::kAuto
                                 ? communicator->costs().Choose(options.order, bytes)
                                 : options.algorithm;
    std::cout << "{\"seconds\": [" << absl::StrJoin(answer.seconds, ", ") << "], \"algorithm\": \""
              << Name(chosen) << "\", \"correct\": " << (answer.correct ? "true" : "false") << "}"
              << std::endl;
  }
  return absl::OkStatus();
}

absl::Status Run(const Settings& settings) {
  PeerMailbox mailbox;
  FrameListener listener(&mailbox, {});
  const absl::Status listens = listener.Listen({.address = "localhost:0", .insecure = true}, {});
  if (!listens.ok()) {
    return listens;
  }
  Publish(settings, listener);
  const std::vector<Place> places = FindAll(settings);
  Group group{1, settings.rank, {}};
  std::vector<std::string> addresses;
  for (const Place& place : places) {
    addresses.push_back(place.address);
    group.names.push_back(absl::StrCat("worker/", group.names.size(), " at ", place.address));
  }
  CommunicatorOptions options;
  options.transport = settings.transport == "grpc" ? Transport::GRPC : Transport::SHARED_MEMORY;
  options.offer = [&](uint32_t peer, absl::Duration) { return places[peer].offer; };
  if (settings.part_kib > 0) {
    options.part_floats = settings.part_kib * 256;
  }
  auto communicator = Communicator::Open(&mailbox, std::move(group), addresses, options);
  if (!communicator.ok()) {
    return communicator.status();
  }
  return Serve(communicator->get(), settings);
}

int Main(std::span<const char* const> args) {
  DieWithParent();
  Settings settings;
  FlagSet flags("collective_benchmark --folder=DIR --rank=N --members=N [--transport=grpc]");
  flags.Add("folder", &settings.folder, "where members find each other");
  flags.Add("transport", &settings.transport, "shared_memory or grpc");
  flags.Add("rank", &settings.rank, "of this member");
  flags.Add("members", &settings.members, "in all");
  flags.Add("part_kib", &settings.part_kib, "the longest payload; 0: the default");
  absl::Status status = flags.Parse(args).status();
  if (status.ok()) {
    status = Run(settings);
  }
  if (!status.ok()) {
    std::cerr << "collective_benchmark: " << status << '\n';
    return 1;
  }
  return 0;
}

}  // namespace
}  // namespace monsoon

int main(int argc, char** argv) { return monsoon::Main({argv + 1, static_cast<size_t>(argc) - 1}); }
