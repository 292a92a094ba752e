// FlagSet: the command-line flags of one program. Unlike Abseil's flags it has
// no globals, returns errors, and leaves the exit code to the caller (`--help`
// is 0 and a bad flag is 2 everywhere in Monsoon).
//
//   std::string cluster;
//   FlagSet flags("ps_server --cluster=FILE --task=N");
//   flags.Add("cluster", &cluster, "the cluster file");
//   ASSIGN_OR_RETURN(std::vector<std::string> positional, flags.Parse(args));
//
// Takes --name=value, --name value, and for bool --name and --no-name. What
// follows `--` is positional.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace monsoon {

class FlagSet {
 public:
  explicit FlagSet(std::string usage) : usage_(std::move(usage)) {}

  // `target` holds the default and outlives the set.
  void Add(std::string name, std::string* target, std::string help);
  void Add(std::string name, bool* target, std::string help);
  void Add(std::string name, uint32_t* target, std::string help);
  void Add(std::string name, uint64_t* target, std::string help);
  void Add(std::string name, double* target, std::string help);
  // May be given several times; collects the values.
  void Add(std::string name, std::vector<std::string>* target, std::string help);

  // Called with an unknown flag's name and the known ones; what it returns, if
  // anything, ends the error in place of the list of all flags.
  using Suggest =
      std::function<std::string(const std::string& name, const std::vector<std::string>& known)>;
  void SetSuggest(Suggest suggest) { suggest_ = std::move(suggest); }

  // Sets the targets and gives what is not a flag. InvalidArgument names the
  // flag and, for an unknown one, those that exist. "--help" makes
  // help_wanted() true and ends the parsing.
  absl::StatusOr<std::vector<std::string>> Parse(std::span<const char* const> args);

  bool help_wanted() const { return help_wanted_; }
  // Usage and a line per flag.
  std::string Help() const;

 private:
  using Target =
      std::variant<std::string*, bool*, uint32_t*, uint64_t*, double*, std::vector<std::string>*>;
  struct Flag {
    std::string name;
    Target target;
    std::string help;
  };

  const Flag* Find(absl::string_view name) const;
  absl::Status Set(const Flag& flag, absl::string_view value) const;
  absl::Status Unknown(absl::string_view name) const;

  const std::string usage_;
  std::vector<Flag> flags_;
  Suggest suggest_;
  bool help_wanted_ = false;
};

}  // namespace monsoon
