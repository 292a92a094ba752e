#include "common/base/flags.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "common/base/status.h"

namespace monsoon {
namespace {

absl::Status ValueError(absl::string_view name, absl::string_view value, absl::string_view want) {
  return absl::InvalidArgumentError(
      absl::StrCat("--", name, "=", value, ": the value must be ", want));
}

}  // namespace

void FlagSet::Add(std::string name, std::string* target, std::string help) {
  flags_.push_back({std::move(name), target, std::move(help)});
}
void FlagSet::Add(std::string name, bool* target, std::string help) {
  flags_.push_back({std::move(name), target, std::move(help)});
}
void FlagSet::Add(std::string name, uint32_t* target, std::string help) {
  flags_.push_back({std::move(name), target, std::move(help)});
}
void FlagSet::Add(std::string name, uint64_t* target, std::string help) {
  flags_.push_back({std::move(name), target, std::move(help)});
}
void FlagSet::Add(std::string name, double* target, std::string help) {
  flags_.push_back({std::move(name), target, std::move(help)});
}
void FlagSet::Add(std::string name, std::vector<std::string>* target, std::string help) {
  flags_.push_back({std::move(name), target, std::move(help)});
}

const FlagSet::Flag* FlagSet::Find(absl::string_view name) const {
  for (const Flag& flag : flags_) {
    if (flag.name == name) {
      return &flag;
    }
  }
  return nullptr;
}

absl::Status FlagSet::Set(const Flag& flag, absl::string_view value) const {
  bool ok = true;
  absl::string_view want;
  if (auto* text = std::get_if<std::string*>(&flag.target)) {
    **text = std::string(value);
  } else if (auto* truth = std::get_if<bool*>(&flag.target)) {
    ok = absl::SimpleAtob(value, *truth);
    want = "true or false";
  } else if (auto* number = std::get_if<uint32_t*>(&flag.target)) {
    ok = absl::SimpleAtoi(value, *number);
    want = "a whole number from 0 to 4294967295";
  } else if (auto* large = std::get_if<uint64_t*>(&flag.target)) {
    ok = absl::SimpleAtoi(value, *large);
    want = "a whole number, at least 0";
  } else if (auto* list = std::get_if<std::vector<std::string>*>(&flag.target)) {
    (*list)->emplace_back(value);
  } else {
    ok = absl::SimpleAtod(value, std::get<double*>(flag.target));
    want = "a number";
  }
  return ok ? absl::OkStatus() : ValueError(flag.name, value, want);
}

absl::Status FlagSet::Unknown(absl::string_view name) const {
  if (suggest_) {
    std::vector<std::string> names = {"help"};
    for (const Flag& flag : flags_) {
      names.push_back(flag.name);
    }
    if (const std::string hint = suggest_(std::string(name), names); !hint.empty()) {
      return absl::InvalidArgumentError(absl::StrCat("unknown flag --", name, "; ", hint));
    }
  }
  const std::string known = absl::StrJoin(flags_, ", ", [](std::string* out, const Flag& flag) {
    absl::StrAppend(out, "--", flag.name);
  });
  return absl::InvalidArgumentError(
      absl::StrCat("unknown flag --", name, "; there are ", known, " and --help"));
}

absl::StatusOr<std::vector<std::string>> FlagSet::Parse(std::span<const char* const> args) {
  std::vector<std::string> positional;
  for (size_t i = 0; i < args.size(); ++i) {
    absl::string_view arg = args[i];
    if (arg == "--") {
      positional.insert(positional.end(), args.begin() + i + 1, args.end());
      break;
    }
    if (arg == "--help" || arg == "-h") {
      help_wanted_ = true;
      break;
    }
    if (!absl::ConsumePrefix(&arg, "--")) {
      positional.emplace_back(arg);
      continue;
    }
    const size_t equals = arg.find('=');
    const absl::string_view name = arg.substr(0, equals);
    const Flag* flag = Find(name);
    const bool is_bool = flag != nullptr && std::holds_alternative<bool*>(flag->target);
    if (flag == nullptr) {
      absl::string_view positive = name;
      const Flag* negated = absl::ConsumePrefix(&positive, "no-") ? Find(positive) : nullptr;
      if (negated == nullptr || equals != absl::string_view::npos ||
          !std::holds_alternative<bool*>(negated->target)) {
        return Unknown(name);
      }
      RETURN_IF_ERROR(Set(*negated, "false"));
    } else if (equals != absl::string_view::npos) {
      RETURN_IF_ERROR(Set(*flag, arg.substr(equals + 1)));
    } else if (is_bool) {
      RETURN_IF_ERROR(Set(*flag, "true"));
    } else if (i + 1 < args.size()) {
      RETURN_IF_ERROR(Set(*flag, args[++i]));
    } else {
      return absl::InvalidArgumentError(absl::StrCat("--", name, " needs a value"));
    }
  }
  return positional;
}

std::string FlagSet::Help() const {
  std::string text = absl::StrCat("usage: ", usage_, "\n\n");
  for (const Flag& flag : flags_) {
    const bool is_bool = std::holds_alternative<bool*>(flag.target);
    absl::StrAppend(&text, "  --", flag.name, is_bool ? "" : "=...", "\n      ", flag.help, "\n");
  }
  return text;
}

}  // namespace monsoon
