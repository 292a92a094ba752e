// Rows of a large table through a real server: rows a second and core (client and server
// together), and bytes a row as the network's device counts them, IP and TCP included.
//
//   bazel run -c opt //ps_server:rows_benchmark -- [--rows=N] [--columns=N] [--step=ROWS]
//
// What is fetched is checked against a scalar model while it is timed. Needs the loopback
// device for itself: other traffic on it counts, too.
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "common/base/check.h"
#include "common/model/parameter_layout.h"
#include "common/model/shard_map.h"
#include "common/model/table_info.h"
#include "proto/optimizer.pb.h"
#include "ps_server/client/parameter_client.h"
#include "ps_server/client/shard_control.h"
#include "ps_server/testing/ps_process.h"

namespace monsoon {
namespace {

struct Settings {
  uint64_t rows = 10'000'000;
  uint64_t columns = 16;
  uint64_t step = 1000;
  uint64_t steps = 2000;
};

// Of this process and of the server's.
double CpuSeconds(int server) {
  rusage own{};
  getrusage(RUSAGE_SELF, &own);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  std::ifstream file(absl::StrCat("/proc/", server, "/stat"));
  std::string stat((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  stat = stat.substr(stat.rfind(')') + 2);
  uint64_t ticks = 0;
  std::string field;
  size_t at = 0;
  for (int i = 3; i <= 15; ++i) {  // 14 and 15: utime, stime
    const size_t end = stat.find(' ', at);
    uint64_t value = 0;
    if (i >= 14 && absl::SimpleAtoi(stat.substr(at, end - at), &value)) {
      ticks += value;
    }
    at = end + 1;
  }
  return seconds(own.ru_utime) + seconds(own.ru_stime) +
         static_cast<double>(ticks) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

// What the loopback device has carried, one way.
uint64_t LoopbackBytes() {
  std::ifstream file("/sys/class/net/lo/statistics/tx_bytes");
  uint64_t bytes = 0;
  file >> bytes;
  return bytes;
}

class Run {
 public:
  Run(const Settings& settings, Transport transport) : settings_(settings) {
    const char* const temporary = std::getenv("TMPDIR");
    std::string folder = absl::StrCat(temporary == nullptr ? "/tmp" : temporary, "/rows.XXXXXX");
    CHECK(mkdtemp(folder.data()) != nullptr);
    server_.emplace(*StartPsProcess(folder, "memory_limit_mib: 16384", {"--verbosity=warning"}));
    CreateShardJobRequest create;
    create.set_job("rows-1");
    ModelTensor* const tensor = create.mutable_model()->add_tensor();
    tensor->set_name("w");
    tensor->add_shape(16);
    Table* const table = create.mutable_model()->add_table();
    table->set_name("items");
    table->set_rows(settings.rows);
    table->set_columns(static_cast<uint32_t>(settings.columns));
    create.mutable_optimizer()->mutable_sgd()->set_rate(0.1);
    create.set_seed(1);
    create.set_shards(1);
    create.set_max_stripe_bytes(kMaxStripeBytes);
    layout_ = *ParameterLayout::Create(create.model());
    create.set_layout_hash(layout_.Hash());
    const auto control = ShardControl::Create(server_->address, absl::Seconds(60), {});
    CHECK_OK(control->CreateJob(create).status());
    SessionKey session;
    session.set_job("rows-1");
    session.set_worker(0);
    session.set_incarnation(1);
    const auto opened = control->OpenSession(session);
    CHECK_OK(opened.status());
    ParameterClientOptions options;
    options.job = "rows-1";
    options.incarnation = 1;
    options.layout_hash = layout_.Hash();
    options.map = *ShardMap::Create(layout_.size(), 1);
    options.tables = *TableMaps(layout_.tables(), 1);
    options.addresses = {server_->address};
    options.shard_epochs = {opened->shard_epoch()};
    options.deadline = absl::Seconds(60);
    options.transport = transport;
    client_ = *ParameterClient::Create(std::move(options));
    dense_.assign(layout_.size(), 0.0f);
    std::printf("%llu x %llu in %u stripes, %llu rows a step, over %s\n",
                static_cast<unsigned long long>(settings.rows),
                static_cast<unsigned long long>(settings.columns),
                TableMaps(layout_.tables(), 1)->front().stripes_of(0),
                static_cast<unsigned long long>(settings.step),
                transport == Transport::GRPC ? "gRPC on TCP" : "shared memory");
  }

  void Measure() {
    std::mt19937_64 random(7);
    std::vector<std::vector<uint64_t>> steps(settings_.steps);
    for (std::vector<uint64_t>& rows : steps) {
      while (rows.size() < settings_.step) {
        rows.resize(settings_.step);
        std::ranges::generate(rows, [&] { return random() % settings_.rows; });
        std::ranges::sort(rows);
        rows.erase(std::ranges::unique(rows).begin(), rows.end());
      }
    }
    values_.assign(settings_.step * settings_.columns, 0.25f);
    std::vector<uint64_t> one_a_stripe;
    const uint32_t stripe_rows = TableMaps(layout_.tables(), 1)->front().stripe_rows();
    for (uint64_t row = 0; row < settings_.rows; row += stripe_rows) {
      one_a_stripe.push_back(row);
    }
    const absl::Time begin = absl::Now();
    Push(one_a_stripe, std::vector<float>(one_a_stripe.size() * settings_.columns, 1.0f));
    std::printf("  first touch of all stripes %.2f s\n",
                absl::ToDoubleSeconds(absl::Now() - begin));
    Time("push ", steps, [&](const std::vector<uint64_t>& rows) { Push(rows, values_); });
    for (const std::vector<uint64_t>& rows : steps) {
      for (const uint64_t row : rows) ++pushed_[row];
    }
    std::vector<float> out(settings_.step * settings_.columns);
    Time("fetch", steps, [&](const std::vector<uint64_t>& rows) {
      const std::vector<RowRequest> wanted{{0, rows, out}};
      CHECK_OK(client_->FetchRows(wanted, nullptr));
      Check(rows.front(), out.data());
      Check(rows.back(), &out[(rows.size() - 1) * settings_.columns]);
    });
  }

 private:
  template <typename Step>
  void Time(const char* name, const std::vector<std::vector<uint64_t>>& steps, Step step) {
    const int server = server_->process.pid();
    const uint64_t bytes = LoopbackBytes();
    const double cpu = CpuSeconds(server);
    const absl::Time begin = absl::Now();
    for (const std::vector<uint64_t>& rows : steps) {
      step(rows);
    }
    const double wall = absl::ToDoubleSeconds(absl::Now() - begin);
    const double used = CpuSeconds(server) - cpu;
    const double rows = static_cast<double>(steps.size() * settings_.step);
    const double a_row = static_cast<double>(LoopbackBytes() - bytes) / rows;
    std::printf("  %s %.2f M rows/s and core, %.2f M rows/s, %.1f bytes a row (%.3f of %llu)\n",
                name, rows / used * 1e-6, rows / wall * 1e-6, a_row,
                a_row / static_cast<double>(4 + 4 * settings_.columns),
                static_cast<unsigned long long>(4 + 4 * settings_.columns));
  }
  void Push(const std::vector<uint64_t>& rows, const std::vector<float>& values) {
    const std::vector<RowGradient> gradients{{0, rows, values}};
    GradientView view(dense_);
    view.rows = gradients;
    const auto result = client_->Push(view, {});
    CHECK_OK(result.status());
    CHECK_EQ(result->duplicates, 0u);
  }
  void Check(uint64_t row, const float* values) const {
    std::vector<float> first(settings_.columns);
    InitializeRows(layout_.tables()[0], 0, 1, row, first);
    const uint32_t stripe_rows = TableMaps(layout_.tables(), 1)->front().stripe_rows();
    double sum = row % stripe_rows == 0 ? 1 : 0;
    double moved = row % stripe_rows == 0 ? 0.01 : 0;
    for (int i = 0; i < pushed_.at(row); ++i) {
      sum += 0.0625;
      moved += 0.01 * 0.25 / std::sqrt(sum);
    }
    for (size_t i = 0; i < first.size(); ++i) {
      CHECK(std::abs(first[i] - moved - values[i]) < 1e-5);
    }
  }

  const Settings settings_;
  std::optional<PsProcess> server_;
  ParameterLayout layout_;
  std::unique_ptr<ParameterClient> client_;
  std::vector<float> dense_, values_;
  std::map<uint64_t, int> pushed_;
};

int Main(int argc, char** argv) {
  Settings settings;
  for (int i = 1; i < argc; ++i) {
    absl::string_view flag = argv[i];
    bool known = false;
    for (const auto& [name, value] : {std::pair{"--rows=", &settings.rows},
                                      {"--columns=", &settings.columns},
                                      {"--step=", &settings.step},
                                      {"--steps=", &settings.steps}}) {
      known = known || (absl::ConsumePrefix(&flag, name) && absl::SimpleAtoi(flag, value));
    }
    if (!known) {
      std::fprintf(stderr, "%s: it is none of --rows=N --columns=N --step=N --steps=N\n", argv[i]);
      return 2;
    }
  }
  for (const Transport transport : {Transport::GRPC, Transport::SHARED_MEMORY}) {
    Run(settings, transport).Measure();
  }
  return 0;
}

}  // namespace
}  // namespace monsoon

int main(int argc, char** argv) { return monsoon::Main(argc, argv); }
