#include "coordinator/compare/rates.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include "common/base/check.h"
#include "proto/downpour.pb.h"
#include "proto/optimizer.pb.h"

namespace monsoon {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

const Optimizer& SteppingOf(const Job& job) {
  const Downpour& downpour = job.downpour();
  return downpour.local().has_inner() ? downpour.local().inner() : downpour.optimizer();
}

// The field of the optimizer that holds its kind; null: none is chosen.
const FieldDescriptor* KindOf(const Optimizer& optimizer) {
  const auto* const kinds = Optimizer::descriptor()->FindOneofByName("kind");
  return optimizer.GetReflection()->GetOneofFieldDescriptor(optimizer, kinds);
}

const FieldDescriptor& RateField(const Message& kind) {
  const FieldDescriptor* const field = kind.GetDescriptor()->FindFieldByName("rate");
  CHECK(field != nullptr && field->cpp_type() == FieldDescriptor::CPPTYPE_DOUBLE);
  return *field;
}

}  // namespace

std::optional<double> RateOf(const Job& job) {
  if (!job.has_downpour()) {
    return std::nullopt;
  }
  const Optimizer& optimizer = SteppingOf(job);
  const FieldDescriptor* const kind = KindOf(optimizer);
  if (kind == nullptr) {
    return std::nullopt;
  }
  const Message& settings = optimizer.GetReflection()->GetMessage(optimizer, kind);
  return settings.GetReflection()->GetDouble(settings, &RateField(settings));
}

void SetRate(double rate, Job* job) {
  const std::optional<double> before = RateOf(*job);
  CHECK(before.has_value());
  const double factor = rate / *before;
  Downpour* const downpour = job->mutable_downpour();
  Optimizer* const optimizer = downpour->local().has_inner()
                                   ? downpour->mutable_local()->mutable_inner()
                                   : downpour->mutable_optimizer();
  Message* const kind = optimizer->GetReflection()->MutableMessage(optimizer, KindOf(*optimizer));
  kind->GetReflection()->SetDouble(kind, &RateField(*kind), rate);
  for (OptimizerGroup& group : *optimizer->mutable_group()) {
    if (group.has_rate()) {
      group.set_rate(group.rate() * factor);
    }
  }
  if (optimizer->has_muon()) {
    optimizer->mutable_muon()->set_rate(optimizer->muon().rate() * factor);
  }
  LocalUpdate* const update = downpour->mutable_local_update();
  if (update->has_sgd_rate()) {
    update->set_sgd_rate(update->sgd_rate() * factor);
  } else if (update->has_adagrad_rate()) {
    update->set_adagrad_rate(update->adagrad_rate() * factor);
  }
}

}  // namespace monsoon
