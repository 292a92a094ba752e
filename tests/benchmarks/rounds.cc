#include "tests/benchmarks/rounds.h"

#include <algorithm>
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/json/json_writer.h"
#include "tests/benchmarks/meters.h"

namespace monsoon {
namespace {

struct CpuTimes {
  double client = 0;
  double server = 0;
};

CpuTimes ReadCpu(const Contender& contender) {
  return {CpuSeconds(0), contender.server == 0 ? 0 : CpuSeconds(contender.server)};
}

double Median(std::vector<double> values) {
  const size_t middle = values.size() / 2;
  std::nth_element(values.begin(), values.begin() + static_cast<ptrdiff_t>(middle), values.end());
  const double upper = values[middle];
  if (values.size() % 2 == 1) {
    return upper;
  }
  return (*std::max_element(values.begin(), values.begin() + static_cast<ptrdiff_t>(middle)) +
          upper) /
         2;
}

// One operation; its seconds.
absl::StatusOr<double> Operate(const Contender& contender, CpuTimes* cpu) {
  if (contender.prepare) {
    RETURN_IF_ERROR(contender.prepare());
  }
  const CpuTimes before = ReadCpu(contender);
  const double begin = NowSeconds();
  RETURN_IF_ERROR(contender.operate());
  const double seconds = NowSeconds() - begin;
  const CpuTimes after = ReadCpu(contender);
  cpu->client += after.client - before.client;
  cpu->server += after.server - before.server;
  if (contender.check) {
    RETURN_IF_ERROR(contender.check());
  }
  return seconds;
}

absl::StatusOr<Measurement> RunTurn(const Turn& turn, const Contender& contender) {
  std::vector<double> times;
  CpuTimes cpu;
  double total = 0;
  while (times.size() < turn.operations || total < turn.seconds) {
    ASSIGN_OR_RETURN(const double seconds, Operate(contender, &cpu));
    times.push_back(seconds);
    total += seconds;
  }
  if (contender.finish) {
    RETURN_IF_ERROR(contender.finish());
  }
  const double calls = static_cast<double>(times.size()) * turn.operations_per_call;
  return Measurement{Median(std::move(times)) / turn.operations_per_call, cpu.client / calls,
                     cpu.server / calls};
}

absl::Status Named(const Contender& contender, const absl::Status& status) {
  return absl::Status(status.code(), absl::StrCat(contender.name, ": ", status.message()));
}

void WriteWorkload(const Workload& workload, JsonWriter* json) {
  json->BeginObject();
  json->Member("name", workload.name);
  json->Member("bytes", workload.bytes);
  json->Key("contenders").BeginObject();
  for (const auto& [name, measurements] : workload.contenders) {
    json->Key(name).BeginObject();
    const auto column = [&](const char* key, double Measurement::*field) {
      json->Key(key).BeginArray();
      for (const Measurement& measurement : measurements) {
        json->Value(measurement.*field);
      }
      json->EndArray();
    };
    column("seconds", &Measurement::seconds);
    column("client_cpu", &Measurement::client_cpu);
    column("server_cpu", &Measurement::server_cpu);
    json->EndObject();
  }
  json->EndObject();
  json->Key("absent").BeginObject();
  for (const auto& [name, why] : workload.absent) {
    json->Member(name, why);
  }
  json->EndObject();
  json->Key("facts").BeginObject();
  for (const auto& [name, value] : workload.facts) {
    json->Member(name, value);
  }
  json->EndObject().EndObject();
}

}  // namespace

absl::Status RunRounds(uint32_t rounds, const Turn& turn, const std::vector<Contender>& contenders,
                       Workload* workload) {
  for (const Contender& contender : contenders) {
    CpuTimes ignored;
    if (const auto warm = Operate(contender, &ignored); !warm.ok()) {
      return Named(contender, warm.status());
    }
  }
  for (uint32_t round = 0; round < rounds; ++round) {
    for (size_t i = 0; i < contenders.size(); ++i) {
      // Everybody comes first, second, ... equally often.
      const Contender& contender = contenders[(i + round) % contenders.size()];
      const absl::StatusOr<Measurement> measurement = RunTurn(turn, contender);
      if (!measurement.ok()) {
        return Named(contender, measurement.status());
      }
      workload->contenders[contender.name].push_back(*measurement);
      std::fprintf(stderr, "%s round %u: %s %.6g s\n", workload->name.c_str(), round + 1,
                   contender.name.c_str(), measurement->seconds);
    }
  }
  return absl::OkStatus();
}

std::string ToJson(const std::vector<Workload>& workloads) {
  JsonWriter json;
  json.BeginObject().Key("workloads").BeginArray();
  for (const Workload& workload : workloads) {
    WriteWorkload(workload, &json);
  }
  json.EndArray().EndObject();
  return json.text();
}

}  // namespace monsoon
