// Reporter: collects what a file means wrongly, after its syntax was read.
#pragma once

#include <string>
#include <vector>

#include "common/config/diagnostics.h"
#include "common/config/location_map.h"

namespace monsoon {

// Puts locations on semantic errors and keeps quiet about fields whose syntax
// was already refused: a misspelt field must not also be "missing". Not
// thread-safe; all pointers outlive it.
class Reporter {
 public:
  // `diagnostics` holds the file's syntax errors and receives what is found.
  Reporter(std::string file, const LocationMap* locations, std::vector<Diagnostic>* diagnostics)
      : file_(std::move(file)),
        locations_(locations),
        diagnostics_(diagnostics),
        syntax_errors_(diagnostics->size()) {}

  void Error(const std::string& field, const std::string& message,
             const std::string& suggestion = "");

  // Whether the field's own syntax was refused, or it is missing beside an
  // unknown one: its value says nothing.
  bool Refused(const std::string& field) const;

  // Errors told so far by this reporter, the silenced ones included.
  int errors() const { return errors_; }

 private:
  std::string file_;
  const LocationMap* locations_;
  std::vector<Diagnostic>* diagnostics_;
  size_t syntax_errors_;
  int errors_ = 0;
};

}  // namespace monsoon
