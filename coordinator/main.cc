// The coordinator's binary: `coordinator serve` and the commands for people.

#include <span>
#include <vector>

#include "common/process/die_with_parent.h"
#include "coordinator/cli/cli.h"
#include "coordinator/cli/serve_command.h"
#include "coordinator/cli/system_environment.h"

namespace {

constexpr monsoon::Command kServe = {
    "serve", "[flags]", "run the coordinator of a cluster",
    "  coordinator serve --cluster=configs/cluster/localhost.textproto\n"
    "  coordinator serve --address=127.0.0.1:0 --port_file=/tmp/port\n",
    monsoon::RunServe};

}  // namespace

int main(int argc, char** argv) {
  // First of all: until then a dead parent would leave an orphan.
  if (monsoon::WantsToDieWithParent(argc, argv)) {
    monsoon::DieWithParent();
  }
  std::vector<monsoon::Command> commands = {kServe};
  const std::span<const monsoon::Command> client = monsoon::ClientCommands();
  commands.insert(commands.end(), client.begin(), client.end());
  monsoon::SystemEnvironment environment(argc > 0 ? argv[0] : "coordinator");
  return monsoon::RunCli(commands, std::span<const char* const>(argv + 1, argv + argc),
                         environment.get());
}
