// transfer_client --address=HOST:PORT [--mib=16] [--connections=1,2,4] [--rounds=5]: fetches and
// pushes of one parameter vector from and to a parameter server that listens at an address, by so
// many connections each in turns. Prints one JSON object with the seconds of each. A wrong result
// ends it with 1. It is the coordinator of its job too, so the server runs with --insecure.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/clock.h"
#include "common/base/flags.h"
#include "common/base/status.h"
#include "common/json/json_writer.h"
#include "ps_server/client/parameter_client.h"
#include "ps_server/client/shard_control.h"
#include "ps_server/testing/test_shards.h"

namespace monsoon {
namespace {

constexpr absl::Duration kDeadline = absl::Seconds(120);
constexpr uint32_t kLineFloats = 256;  // 1 KiB
constexpr float kRate = 0.5f;          // powers of two, so that sums are exact
constexpr float kGradient = 0.25f;

struct Options {
  std::string address;
  uint32_t mib = 16;
  std::vector<uint32_t> connections;
  uint32_t rounds = 5;
};

// By one number of connections.
struct Way {
  uint32_t connections = 0;
  std::unique_ptr<ParameterClient> client;
  std::vector<double> fetch_seconds;
  std::vector<double> push_seconds;
};

absl::StatusOr<TestJob> CreateJob(const Options& options, ShardControl* control) {
  TestJob job;
  job.name = "transfer-1";
  const Model model = TestModel(kLineFloats, options.mib << 10);
  ASSIGN_OR_RETURN(job.layout, ParameterLayout::Create(model));
  ASSIGN_OR_RETURN(job.map, ShardMap::Create(job.layout.size(), /*shards=*/1));
  CreateShardJobRequest request;
  request.set_job(job.name);
  *request.mutable_model() = model;
  *request.mutable_optimizer() = TestSgd(kRate);
  request.set_shards(1);
  request.set_max_stripe_bytes(kMaxStripeBytes);
  request.set_layout_hash(job.layout.Hash());
  RETURN_IF_ERROR(control->CreateJob(request).status());
  return job;
}

absl::StatusOr<Way> Join(const Options& options, const TestJob& job, uint32_t connections,
                         ShardControl* control) {
  ParameterClientOptions client;
  client.job = job.name;
  client.worker = connections;
  client.incarnation = 1;
  client.layout_hash = job.layout.Hash();
  client.map = job.map;
  client.addresses = {options.address};
  client.connections = connections;
  client.deadline = kDeadline;
  client.transport = Transport::GRPC;
  SessionKey session;
  session.set_job(job.name);
  session.set_worker(client.worker);
  session.set_incarnation(client.incarnation);
  ASSIGN_OR_RETURN(const OpenSessionReply reply, control->OpenSession(session));
  client.shard_epochs = {reply.shard_epoch()};
  Way way;
  way.connections = connections;
  ASSIGN_OR_RETURN(way.client, ParameterClient::Create(std::move(client)));
  return way;
}

// One push and one fetch, which must give `parameters` less the push; `timed`: they are noted.
absl::Status Take(Way* way, bool timed, std::vector<float>* parameters) {
  const Clock* const clock = Clock::Real();
  const std::vector<float> gradient(parameters->size(), kGradient);
  const absl::Duration began = clock->Now();
  ASSIGN_OR_RETURN(const auto pushed, way->client->Push(gradient, {}));
  const absl::Duration between = clock->Now();
  std::vector<float> fetched(parameters->size());
  RETURN_IF_ERROR(way->client->Fetch(fetched, nullptr, nullptr));
  const absl::Duration over = clock->Now();
  std::ranges::for_each(*parameters, [](float& value) { value -= kRate * kGradient; });
  if (fetched != *parameters || pushed.duplicates + pushed.refused_invalid != 0) {
    return absl::DataLossError(absl::StrCat("by ", way->connections, " connections: a wrong sum"));
  }
  if (timed) {
    way->push_seconds.push_back(absl::ToDoubleSeconds(between - began));
    way->fetch_seconds.push_back(absl::ToDoubleSeconds(over - between));
  }
  return absl::OkStatus();
}

void WriteSeconds(const char* name, const std::vector<double>& seconds, JsonWriter* json) {
  json->Key(name).BeginArray();
  for (const double value : seconds) {
    json->Value(value);
  }
  json->EndArray();
}

absl::StatusOr<std::string> Run(const Options& options) {
  const auto control = ShardControl::Create(options.address, kDeadline);
  ASSIGN_OR_RETURN(const TestJob job, CreateJob(options, control.get()));
  std::vector<Way> ways;
  for (const uint32_t connections : options.connections) {
    ASSIGN_OR_RETURN(ways.emplace_back(), Join(options, job, connections, control.get()));
  }
  std::vector<float> parameters(job.map.size());
  RETURN_IF_ERROR(ways.front().client->Fetch(parameters, nullptr, nullptr));
  for (uint32_t round = 0; round <= options.rounds; ++round) {
    for (size_t i = 0; i < ways.size(); ++i) {
      // The first round connects. Each way comes first in some round.
      RETURN_IF_ERROR(Take(&ways[(round + i) % ways.size()], /*timed=*/round > 0, &parameters));
    }
  }
  RETURN_IF_ERROR(control->DeleteJob(job.name));
  JsonWriter json;
  json.BeginObject().Member("mib", options.mib).Key("ways").BeginArray();
  for (const Way& way : ways) {
    json.BeginObject().Member("connections", way.connections);
    WriteSeconds("fetch_s", way.fetch_seconds, &json);
    WriteSeconds("push_s", way.push_seconds, &json);
    json.EndObject();
  }
  return json.EndArray().EndObject().text();
}

absl::StatusOr<Options> ReadOptions(std::span<const char* const> args) {
  Options options;
  std::string connections = "1,2,4";
  FlagSet flags("transfer_client --address=HOST:PORT [flags]");
  flags.Add("address", &options.address, "where the parameter server listens");
  flags.Add("mib", &options.mib, "MiB of parameters");
  flags.Add("connections", &connections, "numbers of connections, joined by ','");
  flags.Add("rounds", &options.rounds, "how often each takes a turn");
  ASSIGN_OR_RETURN(const std::vector<std::string> rest, flags.Parse(args));
  for (const absl::string_view text : absl::StrSplit(connections, ',')) {
    if (!absl::SimpleAtoi(text, &options.connections.emplace_back())) {
      return absl::InvalidArgumentError(absl::StrCat("--connections: \"", text, "\""));
    }
  }
  if (!rest.empty() || options.address.empty()) {
    return absl::InvalidArgumentError(flags.Help());
  }
  return options;
}

int Main(std::span<const char* const> args) {
  const absl::StatusOr<Options> options = ReadOptions(args);
  const absl::StatusOr<std::string> result =
      options.ok() ? Run(*options) : absl::StatusOr<std::string>(options.status());
  if (!result.ok()) {
    std::fprintf(stderr, "transfer_client: %s\n", result.status().ToString().c_str());
    return 1;
  }
  std::printf("%s\n", result->c_str());
  return 0;
}

}  // namespace
}  // namespace monsoon

int main(int argc, char** argv) {
  return monsoon::Main(std::span<const char* const>(argv + 1, argv + argc));
}
