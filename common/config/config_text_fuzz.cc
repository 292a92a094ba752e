// A configuration file: the first byte says which kind. Every mistake has a place
// and a message, and what is understood can be judged.
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "common/base/check.h"
#include "common/config/cluster.h"
#include "common/config/diagnostics.h"
#include "common/config/job.h"
#include "common/config/location_map.h"
#include "common/config/text_parser.h"
#include "common/model/parameter_layout.h"

namespace {

template <typename Message, typename Judge>
void Parse(const std::string& text, Judge judge) {
  Message message;
  monsoon::LocationMap locations;
  std::vector<monsoon::Diagnostic> diagnostics;
  const bool understood =
      monsoon::ParseText({"fuzz", text, ""}, &message, &locations, &diagnostics);
  CHECK(understood || !diagnostics.empty());
  for (const monsoon::Diagnostic& diagnostic : diagnostics) {
    CHECK_GE(diagnostic.line, 1);
    CHECK_GE(diagnostic.column, 1);
    CHECK(!diagnostic.message.empty());
    CHECK(!monsoon::FormatDiagnostic(diagnostic).empty());
  }
  if (understood) {
    judge(message);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) {
    return 0;
  }
  const std::string text(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0] % 3) {
    case 0:
      Parse<monsoon::Cluster>(text, [](monsoon::Cluster& cluster) {
        if (monsoon::ValidateCluster(cluster).ok()) {
          monsoon::FillClusterDefaults(&cluster);
          CHECK(monsoon::ValidateCluster(cluster).ok());
        }
      });
      break;
    case 1:
      Parse<monsoon::Job>(text, [](monsoon::Job& job) {
        if (monsoon::ValidateJob(job).ok()) {
          monsoon::FillJobDefaults(&job);
          CHECK(monsoon::ValidateJob(job).ok());
        }
      });
      break;
    default:
      Parse<monsoon::Model>(text, [](monsoon::Model& model) {
        monsoon::ParameterLayout::Create(model).IgnoreError();
      });
      break;
  }
  return 0;
}
