#include "common/config/model.h"

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/config/load_text.h"
#include "common/config/range_check.h"
#include "common/model/layer_design.h"
#include "common/model/table_info.h"

namespace monsoon {
namespace {

constexpr size_t kMaxNameBytes = 64;
constexpr int kMaxLayers = 1000;
// Of a mended layer: what comes behind it must not be refused for its size.
constexpr uint32_t kSafeExtent = 1024;

bool InRange(const Layer& layer) {
  return CheckWithoutFile([&](Reporter* reporter) { CheckRanges(layer, "", reporter); }).ok();
}

class ModelCheck {
 public:
  ModelCheck(const std::string& path, Reporter* reporter) : path_(path), reporter_(reporter) {}

  std::optional<ParameterLayout> Run(const Model& model) {
    const int errors_before = reporter_->errors();
    CheckRanges(model, path_, reporter_);
    CheckName(model.name(), JoinPath(path_, "name"), reporter_);
    if (model.tensor_size() > 0) {
      return CheckTensors(model, errors_before);
    }
    if (const absl::Status tables = ReadTables(model).status(); !tables.ok()) {
      Error("table", std::string(tables.message()),
            model.layer_size() > 0 ? "leave one of them out"
                                   : "as in tensor { name: \"w\" shape: [8] }");
      return std::nullopt;  // nobody knows which was meant
    }
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
      if (!InRange(model.layer(i))) {
        wrong_.insert(i);
      }
      CheckName(name, JoinPath(path_, field + ".name"), reporter_);
      if (const auto [first, is_new] = named.try_emplace(name, i); !is_new && IsValidName(name)) {
        Error(field + ".name",
              absl::StrCat("\"", name, "\" is the name of layer[", first->second, "] too"),
              "give each layer its own name");
        wrong_.insert(i);
      }
      if (model.layer(i).kind_case() == Layer::KIND_NOT_SET) {
        Error(field, "the layer has no kind", "as in layer { dense { units: 10 } }");
      }
    }
    // The chain of shapes needs a first link.
    if (ParameterLayout::CheckInput(model).ok()) {
      std::optional<ParameterLayout> layout = CheckChain(model);
      if (layout.has_value()) {
        CheckLoss(model, *layout);
      }
      return reporter_->errors() == errors_before ? std::move(layout) : std::nullopt;
    }
    if (reporter_->errors() == errors_before) {
      Error("input_shape", std::string(ParameterLayout::CheckInput(model).message()));
    }
    return std::nullopt;
  }

 private:
  void Error(const std::string& field, const std::string& message,
             const std::string& suggestion = "") {
    reporter_->Error(JoinPath(path_, field), message, suggestion);
  }

  std::optional<ParameterLayout> CheckTensors(const Model& model, int errors_before) {
    if (const absl::Status tables = ReadTables(model).status(); !tables.ok()) {
      if (reporter_->errors() == errors_before) {
        Error("table", std::string(tables.message()));
      }
      return std::nullopt;
    }
    absl::StatusOr<ParameterLayout> layout = ParameterLayout::Create(model);
    if (!layout.ok()) {
      Error("tensor", std::string(layout.status().message()));
    }
    return reporter_->errors() == errors_before ? std::optional(*std::move(layout)) : std::nullopt;
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

  void CheckLoss(const Model& model, const ParameterLayout& layout) {
    const LossSettings& settings = model.loss_settings();
    const bool binary = model.loss() == BINARY_CROSS_ENTROPY;
    if (settings.label_smoothing() != 0 && !binary && model.loss() != SOFTMAX_CROSS_ENTROPY) {
      Error("loss_settings.label_smoothing",
            absl::StrCat("means nothing for ", Loss_Name(model.loss())), "leave it out");
    }
    for (int i = 0; i < settings.class_weight_size(); ++i) {
      if (!(settings.class_weight(i) >= 0 &&
            settings.class_weight(i) <= std::numeric_limits<float>::max())) {
        Error(absl::StrCat("loss_settings.class_weight[", i, "]"),
              absl::StrCat(settings.class_weight(i), " is not a finite float32 of at least 0"));
      }
    }
    const int classes = binary ? 2 : static_cast<int>(layout.output_units());
    if (settings.class_weight_size() == 0) {
      return;
    }
    if (model.loss() == MEAN_SQUARED_ERROR) {
      Error("loss_settings.class_weight", "means nothing for MEAN_SQUARED_ERROR", "leave it out");
    } else if (binary && layout.output_units() > 1) {
      Error("loss_settings.class_weight",
            absl::StrCat("means nothing for BINARY_CROSS_ENTROPY of ", layout.output_units(),
                         " outputs: each output is a yes or no of its own in every sample, "
                         "whatever its label"),
            "leave it out, or take SOFTMAX_CROSS_ENTROPY or ONE_VERSUS_ALL_LOGISTIC");
    } else if (settings.class_weight_size() != classes) {
      Error("loss_settings.class_weight",
            absl::StrCat(settings.class_weight_size(), " weights for ", classes, " classes"),
            "give one for each class");
    }
  }

  // ParameterLayout tells the first layer that does not fit. Each such layer is
  // mended as little as it takes, so that those behind it are judged too.
  std::optional<ParameterLayout> CheckChain(const Model& model) {
    absl::StatusOr<ParameterLayout> layout = ParameterLayout::Create(model);
    if (layout.ok()) {
      return *std::move(layout);
    }
    const int errors_before = reporter_->errors();
    Model prefix;
    *prefix.mutable_input_shape() = model.input_shape();
    std::map<Layer::KindCase, int> count_of_kind;
    for (int i = 0; i < std::min(model.layer_size(), kMaxLayers); ++i) {
      Layer layer = model.layer(i);
      const int number = ++count_of_kind[layer.kind_case()];
      if (layer.name().empty() && layer.kind_case() != Layer::KIND_NOT_SET) {
        // What stands for it may be of another kind.
        layer.set_name(absl::StrCat(Name(KindOf(layer)), number));
      }
      if (layer.kind_case() == Layer::KIND_NOT_SET ||
          reporter_->Refused(JoinPath(path_, absl::StrCat("layer[", i, "]")))) {
        return std::nullopt;  // told; what comes out of it is anybody's guess
      }
      if (const absl::Status status = Append(layer, &prefix); !status.ok()) {
        if (!wrong_.contains(i)) {
          Error(absl::StrCat("layer[", i, "]"), std::string(status.message()));
        }
        AppendMended(layer, i, &prefix);
      }
    }
    if (reporter_->errors() == errors_before && wrong_.empty()) {
      // Each layer fits: the whole does not, for what it names a layer of.
      int at = model.layer_size() - 1;
      for (int i = 0; i < prefix.layer_size(); ++i) {
        const std::string begin = absl::StrCat("layer \"", prefix.layer(i).name(), "\":");
        at = layout.status().message().rfind(begin, 0) == 0 ? i : at;
      }
      Error(at >= 0 ? absl::StrCat("layer[", at, "]") : "layer",
            std::string(layout.status().message()));
    }
    return std::nullopt;
  }

  // Whether `layer` fits behind `model`, and if so puts it there.
  static absl::Status Append(const Layer& layer, Model* model) {
    *model->add_layer() = layer;
    const absl::Status status = ParameterLayout::CheckLayers(*model);
    if (!status.ok()) {
      model->mutable_layer()->RemoveLast();
    }
    return status;
  }

  // What stands for a layer that does not fit: one of its name that does, as much like it as may
  // be.
  static void AppendMended(const Layer& layer, int index, Model* model) {
    Layer mended = layer;
    const auto same_name = [&](const Layer& other) { return other.name() == layer.name(); };
    if (std::ranges::any_of(model->layer(), same_name)) {
      mended.set_name(absl::StrCat("monsoon ", index));
    }
    if (mended.has_dense()) {
      mended.mutable_dense()->Clear();
      mended.mutable_dense()->set_units(std::clamp(layer.dense().units(), 1u, kSafeExtent));
    } else if (mended.has_conv2d()) {
      mended.mutable_conv2d()->Clear();
      mended.mutable_conv2d()->set_kernel(1);
      mended.mutable_conv2d()->set_filters(std::clamp(layer.conv2d().filters(), 1u, kSafeExtent));
    } else if (mended.has_average_pool2d()) {
      mended.mutable_average_pool2d()->Clear();
      mended.mutable_average_pool2d()->set_window(1);
    } else if (mended.has_max_pool2d()) {
      mended.mutable_max_pool2d()->Clear();
      mended.mutable_max_pool2d()->set_window(1);
    } else {
      mended.mutable_dropout()->set_rate(0);
    }
    Layer chained = mended;
    chained.clear_input();
    if (Append(mended, model).ok() || Append(chained, model).ok()) {
      return;
    }
    Layer flatten;
    flatten.set_name(absl::StrCat("monsoon flatten ", index));
    *flatten.mutable_input() = mended.input();
    flatten.mutable_flatten();
    Model flat = *model;
    if (Append(flatten, &flat).ok() && Append(chained, &flat).ok()) {
      *model = flat;
      return;
    }
    // An image's layer of what is none: those behind it see that, flat, by the layer's name.
    flatten.set_name(mended.name());
    Append(flatten, model).IgnoreError();
  }

  const std::string path_;
  Reporter* reporter_;
  std::set<int> wrong_;  // layers of which something was told that the chain would repeat
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

absl::StatusOr<Model> LoadModel(const std::string& path, std::vector<Diagnostic>* diagnostics,
                                const std::string* contents) {
  Model model;
  RETURN_IF_ERROR(LoadText(
      path, &model, [&](Reporter* reporter) { CheckModel(model, "", reporter); }, diagnostics,
      contents));
  if (model.name().empty()) {
    model.set_name(NameFromPath(path));
  }
  return model;
}

}  // namespace monsoon
