#include "common/config/test_figures_check.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/downpour.pb.h"
#include "proto/optimizer.pb.h"

namespace monsoon {
namespace {

// How many classes the loss tells apart; 0: none.
uint64_t ClassesOf(const Model& model, uint64_t outputs) {
  switch (model.loss()) {
    case BINARY_CROSS_ENTROPY:
      return outputs == 1 ? 2 : outputs;
    case MEAN_SQUARED_ERROR:
      return 0;
    default:
      return outputs;
  }
}

class FiguresCheck {
 public:
  FiguresCheck(const Job& job, const std::optional<ParameterLayout>& layout, Reporter* reporter)
      : job_(job), reporter_(reporter) {
    if (layout && job.model().layer_size() > 0) {
      classes_ = ClassesOf(job.model(), layout->output_units());
    }
  }

  void Run() {
    if (job_.model().layer_size() > 0) {
      if (job_.model().loss() == MEAN_SQUARED_ERROR) {
        RefuseAccuracies(job_, "MEAN_SQUARED_ERROR tells no accuracy", reporter_);
      }
      CheckClassNames("train", job_.train());
      CheckClassNames("test", job_.test());
      CheckSameNames();
    }
    CheckPlateau();
    CheckEarlyStop();
  }

 private:
  void Error(const std::string& field, const std::string& message,
             const std::string& suggestion = "") {
    reporter_->Error(field, message, suggestion);
  }

  void CheckClassNames(const std::string& set, const Dataset& data) {
    const auto& names = data.class_name();
    if (names.empty()) {
      return;
    }
    if (classes_ && static_cast<uint64_t>(names.size()) != *classes_) {
      Error(set + ".class_name",
            absl::StrCat("has ", names.size(), names.size() == 1 ? " name" : " names",
                         *classes_ == 0 ? ", the loss tells no classes apart"
                                        : absl::StrCat(", the model has ", *classes_, " classes")));
    }
    std::set<std::string> seen;
    for (const std::string& name : names) {
      if (name.empty() || !seen.insert(name).second) {
        Error(set + ".class_name",
              name.empty() ? "a name is empty" : absl::StrCat("\"", name, "\" is there twice"));
        break;
      }
    }
  }

  void CheckSameNames() {
    const auto& train = job_.train().class_name();
    const auto& test = job_.test().class_name();
    if (!train.empty() && !test.empty() &&
        !std::equal(train.begin(), train.end(), test.begin(), test.end())) {
      Error("test.class_name", "its names are others than those of train",
            "leave them out of one of the two");
    }
  }

  // Both count runs over the test set before the end.
  void CheckRuns(const std::string& field) {
    if (!job_.has_test()) {
      Error(field, "it needs test data to go by", "add test { idx { ... } }");
    } else if (job_.evaluation().every_epochs() == 0.0 && job_.stop().target_accuracy() == 0.0) {
      Error(field, "it never takes effect: evaluation is only at the end",
            "add evaluation { every_epochs: 1 }");
    }
  }

  void CheckPlateau() {
    if (job_.downpour().local().inner().schedule().has_plateau()) {
      Error("downpour.local.inner.schedule.plateau",
            "replicas do not see the test set's figures; it is of downpour.optimizer alone");
    }
    if (!job_.downpour().optimizer().schedule().has_plateau()) {
      return;
    }
    CheckRuns("downpour.optimizer.schedule.plateau");
  }

  void CheckEarlyStop() {
    if (!job_.stop().has_early() || !(job_.has_downpour() || job_.model().tensor_size() > 0)) {
      return;
    }
    const EarlyStop& early = job_.stop().early();
    CheckRuns("stop.early");
    if (early.metric() != TEST_LOSS && early.metric() != TEST_ACCURACY) {
      Error("stop.early.metric", "says which figure is to become better",
            "write TEST_LOSS or TEST_ACCURACY");
    }
    if (early.patience() == 0) {
      Error("stop.early.patience", "must be at least 1", "as in patience: 5");
    }
  }

  const Job& job_;
  std::optional<uint64_t> classes_;
  Reporter* const reporter_;
};

}  // namespace

void RefuseAccuracies(const Job& job, absl::string_view why, Reporter* reporter) {
  const Schedule& schedule = job.downpour().optimizer().schedule();
  for (const auto& [field, asked] :
       {std::pair("stop.target_accuracy", job.stop().target_accuracy() != 0.0),
        std::pair("stop.early.metric", job.stop().early().metric() == TEST_ACCURACY),
        std::pair("checkpoint.keep_best", job.checkpoint().keep_best() == TEST_ACCURACY),
        std::pair("downpour.optimizer.schedule.plateau.by_accuracy",
                  schedule.plateau().by_accuracy()),
        std::pair("sandblaster.target_accuracy", job.sandblaster().target_accuracy() != 0.0)}) {
    if (asked) {
      reporter->Error(field, std::string(why), "go by the test loss");
    }
  }
}

void CheckTestFigures(const Job& job, const std::optional<ParameterLayout>& layout,
                      Reporter* reporter) {
  FiguresCheck(job, layout, reporter).Run();
}

}  // namespace monsoon
