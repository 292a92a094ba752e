#include "common/data/data_context.h"

#include "proto/job.pb.h"
#include "proto/model.pb.h"

namespace monsoon {

DataContext TrainingContext(const Job& job, const DataAccess& access) {
  const auto& shape = job.model().input_shape();
  DataContext context;
  context.access = access;
  context.input_shape = {shape.begin(), shape.end()};
  context.targets_are_shares = job.model().loss() == BINARY_CROSS_ENTROPY;
  for (const Layer& layer : job.model().layer()) {
    const uint64_t rows = layer.embedding().rows();
    if (layer.has_embedding() && (context.id_limit == 0 || rows < context.id_limit)) {
      context.id_limit = rows;
    }
  }
  return context;
}

DataContext TestContext(const Job& job, const DataAccess& access) {
  DataContext context = TrainingContext(job, access);
  if (job.has_train()) {
    context.training = job.train();
  }
  return context;
}

}  // namespace monsoon
