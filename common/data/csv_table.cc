#include "common/data/csv_table.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <span>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/shorten.h"
#include "common/base/status.h"
#include "common/data/class_words.h"
#include "common/data/csv_parser.h"
#include "common/data/file_prefix.h"
#include "common/data/number_text.h"

namespace monsoon {
namespace {

using Fields = std::span<const absl::string_view>;

// Bytes of a list of names.
constexpr size_t kShown = 200;

bool IsBlank(absl::string_view text) {
  return text.find_first_not_of(" \t") == absl::string_view::npos;
}

absl::Status ErrorAt(absl::string_view place, absl::string_view message) {
  return absl::InvalidArgumentError(absl::StrCat(place, ": ", message));
}

// Which column is what.
struct Columns {
  std::vector<size_t> features;
  std::vector<size_t> targets;
  std::optional<size_t> label;
  std::optional<size_t> weight;
};

class CsvTableReader {
 public:
  CsvTableReader(const CsvSource& source, const TableOptions& options)
      : source_(source), options_(options) {}

  absl::Status Read(const std::string& path) {
    path_ = path;
    have_header_ = false;
    CsvParser parser(path, source_.delimiter().empty() ? ',' : source_.delimiter()[0]);
    const auto visit = [this](Fields fields, uint64_t line) { return Row(fields, line); };
    RETURN_IF_ERROR(ReadTextPieces(path, options_.access.roots, [&](absl::string_view piece) {
      return parser.Parse(piece, visit);
    }));
    RETURN_IF_ERROR(parser.Finish(visit));
    return have_header_ ? absl::OkStatus()
                        : ErrorAt(path, "the file is empty; its first line names the columns");
  }

  absl::StatusOr<SampleTable> Finish() &&;

 private:
  std::string Place(uint64_t line) const { return absl::StrCat(path_, ":", line); }
  // A column that only the file has named is told by its number: what stands there may be no
  // header at all.
  std::string Place(uint64_t line, size_t column) const {
    const bool named = quoting() == Quoting::kShow || !use_[column].empty();
    return absl::StrCat(
        path_, ":", line, ": column ",
        named ? absl::StrCat("\"", header_[column], "\"") : absl::StrCat(column + 1));
  }
  Quoting quoting() const { return options_.access.quoting; }

  absl::Status Row(Fields fields, uint64_t line);
  absl::Status Header(Fields fields, uint64_t line);
  absl::Status Resolve(const std::string& place);
  absl::StatusOr<size_t> Column(const std::string& place, const std::string& name,
                                absl::string_view use);
  absl::StatusOr<float> Number(Fields fields, uint64_t line, size_t column) const;
  absl::Status Feature(Fields fields, uint64_t line, size_t feature);
  absl::Status Label(Fields fields, uint64_t line);
  absl::Status Weight(Fields fields, uint64_t line);
  absl::Status FillMissing();

  const CsvSource& source_;
  const TableOptions& options_;
  std::string path_;         // of the file that is read
  std::string first_place_;  // of the first header
  bool have_header_ = false;
  std::vector<std::string> header_;  // of the first file
  absl::flat_hash_map<std::string, size_t> column_of_;
  std::vector<std::string> use_;  // of each column that is taken, or ""
  Columns columns_;
  SampleTable table_;
  ClassWords words_;
  std::vector<uint64_t> missing_;  // places in the values
  std::vector<double> sums_;       // of each feature's values that are there
  std::vector<uint64_t> counts_;
};

absl::Status CsvTableReader::Row(Fields fields, uint64_t line) {
  if (!have_header_) {
    have_header_ = true;
    return Header(fields, line);
  }
  if (header_.size() > 1 && fields.size() == 1 && fields[0].empty()) {
    return absl::OkStatus();  // an empty line, as often at the end
  }
  if (fields.size() != header_.size()) {
    return ErrorAt(Place(line), absl::StrCat("the row has ", fields.size(),
                                             fields.size() == 1 ? " field" : " fields",
                                             ", the header ", header_.size()));
  }
  if (options_.limit != 0 && table_.examples == options_.limit) {
    return absl::OkStatus();
  }
  for (size_t i = 0; i < columns_.features.size(); ++i) {
    RETURN_IF_ERROR(Feature(fields, line, i));
  }
  for (const size_t column : columns_.targets) {
    ASSIGN_OR_RETURN(const float target, Number(fields, line, column));
    if (const absl::Status status = options_.CheckTarget(target); !status.ok()) {
      return ErrorAt(Place(line, column), status.message());
    }
    table_.targets.push_back(target);
  }
  if (columns_.label) {
    RETURN_IF_ERROR(Label(fields, line));
  }
  if (columns_.weight) {
    RETURN_IF_ERROR(Weight(fields, line));
  }
  ++table_.examples;
  return absl::OkStatus();
}

absl::Status CsvTableReader::Header(Fields fields, uint64_t line) {
  if (!header_.empty()) {
    if (!std::equal(fields.begin(), fields.end(), header_.begin(), header_.end())) {
      return ErrorAt(Place(line),
                     absl::StrCat("the header is not that of ", first_place_, ": ",
                                  Content(absl::StrJoin(fields, ","), quoting()), " and ",
                                  Content(absl::StrJoin(header_, ","), quoting())));
    }
    return absl::OkStatus();
  }
  first_place_ = Place(line);
  for (const absl::string_view field : fields) {
    header_.emplace_back(field);
  }
  use_.assign(header_.size(), "");
  if (std::all_of(fields.begin(), fields.end(),
                  [](absl::string_view field) { return IsFloat(field); })) {
    return ErrorAt(first_place_, "these are numbers; the first line names the columns");
  }
  for (size_t i = 0; i < header_.size(); ++i) {
    if (!column_of_.emplace(header_[i], i).second && !header_[i].empty()) {
      return ErrorAt(first_place_,
                     absl::StrCat("two columns are called ", Content(header_[i], quoting())));
    }
  }
  return Resolve(first_place_);
}

absl::Status CsvTableReader::Resolve(const std::string& place) {
  if (!source_.label().empty()) {
    ASSIGN_OR_RETURN(columns_.label, Column(place, source_.label(), "label"));
  }
  for (const std::string& name : source_.target()) {
    ASSIGN_OR_RETURN(const size_t column, Column(place, name, "target"));
    columns_.targets.push_back(column);
  }
  if (!source_.weight().empty()) {
    ASSIGN_OR_RETURN(columns_.weight, Column(place, source_.weight(), "weight"));
  }
  std::vector<std::string> names(source_.feature().begin(), source_.feature().end());
  if (names.empty() && options_.train != nullptr) {
    names = options_.train->features;
  }
  if (options_.train != nullptr && names != options_.train->features) {
    return ErrorAt(place,
                   absl::StrCat("feature differs from the training set's columns ",
                                Shorten(absl::StrJoin(options_.train->features, ", "), kShown),
                                "; leave it out"));
  }
  for (const std::string& name : names) {
    ASSIGN_OR_RETURN(const size_t column, Column(place, name, "feature"));
    columns_.features.push_back(column);
  }
  for (size_t i = 0; names.empty() && i < header_.size(); ++i) {
    if (!use_[i].empty()) {
      continue;
    }
    if (header_[i].empty()) {
      return ErrorAt(place, absl::StrCat("column ", i + 1,
                                         " has no name; leave it out (pandas: "
                                         "index=False), or list the features: feature: [...]"));
    }
    columns_.features.push_back(i);
  }
  if (columns_.features.empty()) {
    return ErrorAt(place, "no column is left for the features");
  }
  for (const size_t column : columns_.features) {
    table_.facts.features.push_back(header_[column]);
  }
  sums_.assign(columns_.features.size(), 0.0);
  counts_.assign(columns_.features.size(), 0);
  table_.features = columns_.features.size();
  table_.targets_per_example = columns_.targets.size();
  return absl::OkStatus();
}

absl::StatusOr<size_t> CsvTableReader::Column(const std::string& place, const std::string& name,
                                              absl::string_view use) {
  const auto found = column_of_.find(name);
  if (found == column_of_.end()) {
    const std::string all = absl::StrJoin(header_, ", ");
    const size_t other = header_.size() == 1 ? all.find_first_of(",;\t|") : all.npos;
    return ErrorAt(
        place, absl::StrCat("no column is called ", Quoted(name), " (", use, "); there are ",
                            quoting() == Quoting::kShow ? Shorten(all, kShown)
                                                        : absl::StrCat(header_.size(), " columns"),
                            other == all.npos ? "" : "; is the delimiter another one, ",
                            other == all.npos ? "" : Quoted(all.substr(other, 1)),
                            other == all.npos ? "" : "?"));
  }
  std::string& other = use_[found->second];
  if (!other.empty()) {
    return ErrorAt(place, absl::StrCat("column ", Quoted(name), " is taken twice: as ", other,
                                       " and as ", use));
  }
  other = std::string(use);
  return found->second;
}

absl::StatusOr<float> CsvTableReader::Number(Fields fields, uint64_t line, size_t column) const {
  if (IsBlank(fields[column])) {
    return ErrorAt(Place(line, column), "the field is empty");
  }
  absl::StatusOr<float> number = ParseFloat(fields[column], quoting());
  return number.ok() ? number : ErrorAt(Place(line, column), number.status().message());
}

absl::Status CsvTableReader::Feature(Fields fields, uint64_t line, size_t feature) {
  const size_t column = columns_.features[feature];
  float value = 0;
  if (!IsBlank(fields[column])) {
    ASSIGN_OR_RETURN(value, Number(fields, line, column));
    sums_[feature] += static_cast<double>(value);
    ++counts_[feature];
  } else if (source_.has_missing_value()) {
    value = static_cast<float>(source_.missing_value());
  } else if (!source_.missing_mean()) {
    return ErrorAt(Place(line, column),
                   "the field is empty; missing_value: 0 or missing_mean: true would fill it");
  } else if (options_.id_limit != 0) {
    return ErrorAt(Place(line, column), "the field is empty, and a mean is no id");
  } else if (options_.keep_values) {
    missing_.push_back(table_.values.size());
  }
  if (const absl::Status status = options_.CheckFeature(value); !status.ok()) {
    return ErrorAt(Place(line, column), status.message());
  }
  if (options_.keep_values) {
    table_.values.push_back(value);
  }
  return absl::OkStatus();
}

absl::Status CsvTableReader::Label(Fields fields, uint64_t line) {
  const absl::string_view word = absl::StripAsciiWhitespace(fields[*columns_.label]);
  if (IsBlank(word)) {
    return ErrorAt(Place(line, *columns_.label), "the label is empty");
  }
  words_.Add(word, [&] { return Place(line, *columns_.label); });
  return absl::OkStatus();
}

absl::Status CsvTableReader::Weight(Fields fields, uint64_t line) {
  ASSIGN_OR_RETURN(const float weight, Number(fields, line, *columns_.weight));
  if (weight < 0) {
    return ErrorAt(Place(line, *columns_.weight),
                   absl::StrCat(ContentNumber(weight, quoting()), " is no weight: it is below 0"));
  }
  table_.weights.push_back(weight);
  return absl::OkStatus();
}

absl::Status CsvTableReader::FillMissing() {
  std::vector<double>& means = table_.facts.means;
  for (size_t i = 0; i < table_.features; ++i) {
    if (counts_[i] == 0 && source_.missing_mean() && options_.train == nullptr) {
      return ErrorAt(first_place_, absl::StrCat("column \"", table_.facts.features[i],
                                                "\" has no value at all, so no mean"));
    }
    means.push_back(counts_[i] == 0 ? source_.missing_value()
                                    : sums_[i] / static_cast<double>(counts_[i]));
  }
  if (options_.train != nullptr) {
    means = options_.train->means;
  }
  for (const uint64_t at : missing_) {
    table_.values[at] = static_cast<float>(means[at % table_.features]);
  }
  return absl::OkStatus();
}

absl::StatusOr<SampleTable> CsvTableReader::Finish() && {
  if (table_.examples == 0) {
    return ErrorAt(first_place_, "no row follows the header");
  }
  RETURN_IF_ERROR(FillMissing());
  if (columns_.label) {
    const std::vector<std::string> none;
    const std::vector<std::string>& of_train =
        options_.train != nullptr ? options_.train->class_names : none;
    if (!of_train.empty() && !options_.class_names.empty() && options_.class_names != of_train) {
      return ErrorAt(first_place_,
                     absl::StrCat("class_name differs from the training set's classes ",
                                  Shorten(absl::StrJoin(of_train, ", "), kShown),
                                  "; leave it out, or give it to train too"));
    }
    ASSIGN_OR_RETURN(ClassWords::Numbered numbered,
                     std::move(words_).Number(
                         of_train.empty() ? options_.class_names : of_train,
                         {.take_numbers = of_train.empty() || options_.names_are_given,
                          .only_numbers = options_.only_numbers || options_.train != nullptr,
                          .order_is_told = options_.order_is_told,
                          .quoting = quoting()}));
    table_.labels = std::move(numbered.labels);
    table_.classes = numbered.classes;
    table_.facts.class_names = std::move(numbered.names);
  }
  return std::move(table_);
}

}  // namespace

absl::StatusOr<SampleTable> ReadCsvTable(const CsvSource& source,
                                         const std::vector<std::string>& files,
                                         const TableOptions& options) {
  CsvTableReader reader(source, options);
  for (const std::string& file : files) {
    RETURN_IF_ERROR(reader.Read(file));
  }
  return std::move(reader).Finish();
}

}  // namespace monsoon
