// What is wrong with an optimizer of a job file, beside the ranges of its numbers.
#pragma once

#include <optional>
#include <string>

#include "common/config/reporter.h"
#include "common/model/parameter_layout.h"
#include "proto/downpour.pb.h"
#include "proto/job.pb.h"
#include "proto/model.pb.h"
#include "proto/optimizer.pb.h"

namespace monsoon {

// `path` is where it stands in the file, `layout` the model's; nothing: that has errors of its
// own. `stop` tells what shares of a schedule are of.
void CheckOptimizer(const Optimizer& optimizer, const std::string& path, const Stop& stop,
                    const std::optional<ParameterLayout>& layout, Reporter* reporter);

// Whether Optimizer.muon stands where whole matrices are, and there are some: in local.inner, of
// `model`, which `layout` is of.
void CheckMuon(const Downpour& downpour, const Model& model,
               const std::optional<ParameterLayout>& layout, Reporter* reporter);

}  // namespace monsoon
