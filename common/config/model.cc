#include "common/config/model.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/config/load_text.h"
#include "common/config/range_check.h"

namespace monsoon {
namespace {

constexpr size_t kMaxNameBytes = 64;
constexpr int kMaxLayers = 1000;

class ModelCheck {
 public:
  ModelCheck(const std::string& path, Reporter* reporter) : path_(path), reporter_(reporter) {}

  std::optional<ParameterLayout> Run(const Model& model) {
    const int errors_before = reporter_->errors();
    CheckRanges(model, path_, reporter_);
    CheckName(model.name(), JoinPath(path_, "name"), reporter_);
    CheckInputShape(model);
    if (model.layer_size() == 0) {
      Error("layer", "a model needs at least one layer", "add layer { dense { units: 10 } }");
    } else if (model.layer_size() > kMaxLayers) {
      Error(absl::StrCat("layer[", kMaxLayers, "]"),
            absl::StrCat(model.layer_size(), " layers are more than ", kMaxLayers));
    }
    std::map<std::string, int> named;
    for (int i = 0; i < std::min(model.layer_size(), kMaxLayers); ++i) {
      const std::string field = absl::StrCat("layer[", i, "]");
      const std::string& name = model.layer(i).name();
      CheckName(name, JoinPath(path_, field + ".name"), reporter_);
      if (const auto [first, is_new] = named.try_emplace(name, i); !is_new && IsValidName(name)) {
        Error(field + ".name",
              absl::StrCat("\"", name, "\" is the name of layer[", first->second, "] too"),
              "give each layer its own name");
      }
      if (model.layer(i).kind_case() == Layer::KIND_NOT_SET) {
        Error(field, "the layer has no kind", "as in layer { dense { units: 10 } }");
      }
    }
    // The chain of shapes only where each link is right.
    return reporter_->errors() == errors_before ? CheckChain(model) : std::nullopt;
  }

 private:
  void Error(const std::string& field, const std::string& message,
             const std::string& suggestion = "") {
    reporter_->Error(JoinPath(path_, field), message, suggestion);
  }

  void CheckInputShape(const Model& model) {
    if (model.input_shape_size() == 0) {
      Error("input_shape", "the shape of a sample is not set",
            "as in input_shape: [1, 28, 28] for images or input_shape: [784]");
    }
    for (int i = 0; i < model.input_shape_size(); ++i) {
      if (model.input_shape(i) == 0) {
        Error(absl::StrCat("input_shape[", i, "]"), "must be at least 1");
      }
    }
  }

  // ParameterLayout tells the first layer that does not fit, by name; the
  // shortest refused chain tells its index.
  std::optional<ParameterLayout> CheckChain(const Model& model) {
    absl::StatusOr<ParameterLayout> layout = ParameterLayout::Create(model);
    if (layout.ok()) {
      return *std::move(layout);
    }
    Model prefix;
    *prefix.mutable_input_shape() = model.input_shape();
    std::string field = JoinPath(path_, "input_shape");
    for (int i = -1; i < model.layer_size(); ++i) {
      if (i >= 0) {
        *prefix.add_layer() = model.layer(i);
        field = JoinPath(path_, absl::StrCat("layer[", i, "]"));
      }
      Model closed = prefix;  // ends as every model must
      closed.add_layer()->mutable_flatten();
      closed.add_layer()->mutable_dense()->set_units(1);
      closed.mutable_layer(closed.layer_size() - 2)->set_name("monsoon flatten");
      closed.mutable_layer(closed.layer_size() - 1)->set_name("monsoon dense");
      if (const auto status = ParameterLayout::Create(closed).status(); !status.ok()) {
        reporter_->Error(field, std::string(status.message()));
        return std::nullopt;
      }
    }
    reporter_->Error(field, std::string(layout.status().message()));
    return std::nullopt;
  }

  const std::string path_;
  Reporter* reporter_;
};

}  // namespace

std::optional<ParameterLayout> CheckModel(const Model& model, const std::string& path,
                                          Reporter* reporter) {
  return ModelCheck(path, reporter).Run(model);
}

void CheckName(const std::string& name, const std::string& field, Reporter* reporter) {
  if (!name.empty() && !IsValidName(name)) {
    reporter->Error(field, absl::StrCat("\"", name, "\" is not a name"),
                    "use up to 64 letters, digits, '_' and '-'");
  }
}

bool IsValidName(const std::string& name) {
  return !name.empty() && name.size() <= kMaxNameBytes &&
         std::all_of(name.begin(), name.end(), [](unsigned char c) {
           return absl::ascii_isalnum(c) || c == '_' || c == '-';
         });
}

std::string NameFromPath(const std::string& path) {
  std::string name = path.substr(path.find_last_of('/') + 1);
  name = name.substr(0, std::min(name.find('.'), kMaxNameBytes));
  for (char& c : name) {
    if (!IsValidName(std::string(1, c))) {
      c = '-';
    }
  }
  return name;
}

absl::StatusOr<Model> LoadModel(const std::string& path, std::vector<Diagnostic>* diagnostics) {
  Model model;
  RETURN_IF_ERROR(LoadText(
      path, &model, [&](Reporter* reporter) { CheckModel(model, "", reporter); }, diagnostics));
  if (model.name().empty()) {
    model.set_name(NameFromPath(path));
  }
  return model;
}

}  // namespace monsoon
