#include "common/data/table_source.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/data/csv_table.h"
#include "common/data/file_pattern.h"
#include "common/data/libsvm_table.h"
#include "common/data/source_kind.h"
#include "common/data/training_classes.h"

namespace monsoon {
namespace {

TableOptions OptionsOf(const Dataset& dataset, const DataContext& context) {
  TableOptions options;
  options.id_limit = context.id_limit;
  options.access = context.access;
  options.targets_are_shares = context.targets_are_shares && !context.unlabelled;
  options.limit = dataset.limit();
  options.order_is_told = dataset.class_order() != Dataset::UNTOLD;
  options.class_names.assign(dataset.class_name().begin(), dataset.class_name().end());
  return options;
}

// What is wrong with the fields of a source, and which one.
std::optional<DatasetError> WrongField(const Dataset& dataset, const DataContext& context) {
  const auto error = [](const std::string& field, absl::string_view message) {
    return DatasetError{field, absl::InvalidArgumentError(message)};
  };
  if (dataset.residence() == Dataset::ON_DISK) {
    return error("residence", "text does not say where a sample begins: it is kept in memory");
  }
  if (dataset.has_libsvm()) {
    if (dataset.libsvm().file().empty()) {
      return error("libsvm.file", "no file is named");
    }
    if (dataset.libsvm().features() == 0 && context.input_values() == 0) {
      return error("libsvm.features", "must be at least 1");
    }
    return std::nullopt;
  }
  const CsvSource& csv = dataset.csv();
  if (csv.file().empty()) {
    return error("csv.file", "no file is named");
  }
  if (csv.delimiter().size() > 1 || csv.delimiter() == "\"" || csv.delimiter() == "\n" ||
      csv.delimiter() == "\r") {
    return error("csv.delimiter", "must be one character, no quote and no line break");
  }
  if (!csv.label().empty() && csv.target_size() > 0) {
    return error("csv.target", "there is a label too: a sample has a class or targets");
  }
  if (csv.label().empty() && csv.target_size() == 0 && !context.unlabelled) {
    return error("csv.label",
                 "is not set: name the class's column in label, or columns of "
                 "numbers in target");
  }
  return std::nullopt;
}

absl::StatusOr<SampleTable> ReadCsv(const Dataset& dataset, const DataContext& context,
                                    TableOptions options) {
  std::optional<TableFacts> train;
  if (context.training && context.training->has_csv()) {
    DataContext of_training = context;
    of_training.training.reset();
    of_training.unlabelled = false;
    ASSIGN_OR_RETURN(SampleTable table,
                     ReadTable(*context.training, of_training, /*keep_values=*/false));
    train = std::move(table.facts);
    options.train = &*train;
    options.names_are_given = context.training->class_name_size() > 0;
  }
  if (!context.unlabelled && !dataset.csv().label().empty()) {
    ASSIGN_OR_RETURN(const auto classes, TrainingClasses(dataset, context));
    if (classes && !classes->empty()) {
      options.class_names = *classes;
    }
    options.only_numbers = classes.has_value();
  }
  CsvSource source = dataset.csv();
  if (context.unlabelled) {
    source.clear_label();
    source.clear_target();
    source.clear_weight();
  }
  ASSIGN_OR_RETURN(const std::vector<std::string> files,
                   FilesOf(source.file(), context.access.roots));
  return ReadCsvTable(source, files, options);
}

absl::StatusOr<SampleTable> ReadLibsvm(const Dataset& dataset, const DataContext& context,
                                       const TableOptions& options) {
  LibsvmSource source = dataset.libsvm();
  if (source.features() == 0) {
    source.set_features(static_cast<uint32_t>(context.input_values()));
  }
  // Its lines begin with a label, whether anybody knows it or not.
  if (context.unlabelled) {
    source.set_regression(true);
  }
  ASSIGN_OR_RETURN(const std::vector<std::string> files,
                   FilesOf(source.file(), context.access.roots));
  ASSIGN_OR_RETURN(SampleTable table, ReadLibsvmTable(source, files, options));
  if (context.unlabelled) {
    table.targets.clear();
    table.targets_per_example = 0;
  }
  return table;
}

DatasetInfo Describe(const Dataset& dataset, const DataContext& context, Problems* problems) {
  DatasetInfo info;
  if (const std::optional<DatasetError> wrong = WrongField(dataset, context)) {
    problems->Add(wrong->field, wrong->status);
    return info;
  }
  const absl::StatusOr<SampleTable> table = ReadTable(dataset, context, /*keep_values=*/false);
  if (!table.ok()) {
    problems->Add(dataset.has_csv() ? "csv.file" : "libsvm.file", table.status());
    return info;
  }
  info.examples = table->examples;
  info.sample_shape = {table->features};
  info.classes = table->classes;
  info.class_names = table->facts.class_names;
  info.feature_names = table->facts.features;
  info.bytes = table->examples * table->features * sizeof(float);
  info.type = ElementType::kFloat32;
  info.labels = table->targets_per_example > 0 ? 0 : 1;
  info.targets = table->targets_per_example;
  info.weighted = !table->weights.empty();
  return info;
}

absl::StatusOr<uint64_t> CountTableClasses(const Dataset& dataset, const DataContext& context) {
  ASSIGN_OR_RETURN(const SampleTable table, ReadTable(dataset, context, /*keep_values=*/false));
  return table.classes;
}

absl::Status FirstValues(const Dataset& dataset, const DataContext& context, uint64_t samples,
                         absl::FunctionRef<void(double)> look) {
  Dataset first = dataset;
  first.set_limit(dataset.limit() == 0 ? samples : std::min(dataset.limit(), samples));
  ASSIGN_OR_RETURN(const SampleTable table, ReadTable(first, context, /*keep_values=*/true));
  for (const float value : table.values) {
    look(value);
  }
  return absl::OkStatus();
}

void VisitCsv(Dataset* dataset, absl::FunctionRef<void(std::string*)> visit) {
  visit(dataset->mutable_csv()->mutable_file());
}

void VisitLibsvm(Dataset* dataset, absl::FunctionRef<void(std::string*)> visit) {
  visit(dataset->mutable_libsvm()->mutable_file());
}

}  // namespace

absl::StatusOr<SampleTable> ReadTable(const Dataset& dataset, const DataContext& context,
                                      bool keep_values) {
  if (const std::optional<DatasetError> wrong = WrongField(dataset, context)) {
    return absl::InvalidArgumentError(absl::StrCat(wrong->field, ": ", wrong->status.message()));
  }
  TableOptions options = OptionsOf(dataset, context);
  options.keep_values = keep_values;
  return dataset.has_csv() ? ReadCsv(dataset, context, options)
                           : ReadLibsvm(dataset, context, options);
}

const SourceKind kCsvSourceKind = {.source = Dataset::kCsv,
                                   .name = "csv",
                                   .samples = "file",
                                   .labels = "file",
                                   .describe = &Describe,
                                   .count_classes = &CountTableClasses,
                                   .first_values = &FirstValues,
                                   .visit_paths = &VisitCsv};

const SourceKind kLibsvmSourceKind = {.source = Dataset::kLibsvm,
                                      .name = "libsvm",
                                      .samples = "file",
                                      .labels = "file",
                                      .describe = &Describe,
                                      .count_classes = &CountTableClasses,
                                      .first_values = &FirstValues,
                                      .visit_paths = &VisitLibsvm};

}  // namespace monsoon
