#include "coordinator/compare/comparison_svg.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace monsoon {
namespace {

constexpr int kWidth = 860;
constexpr int kLeastHeight = 460;  // more where the legend needs it
constexpr double kLeft = 64;
constexpr double kRight = 640;  // the legend stands behind it
constexpr double kTop = 40;
constexpr double kBottom = 410;
constexpr double kLegendLine = 20;
constexpr int kTicks = 5;
// More points than that are a line without dots.
constexpr size_t kMostDots = 40;
// Told apart also by those who see fewer colours (Okabe and Ito), dark enough on white.
constexpr const char* kColours[] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                    "#56b4e9", "#8a6d00", "#000000", "#e69f00"};
// Of the lines for which there is no further colour.
constexpr const char* kDashes[] = {"none", "8 4", "2 3"};

std::string Escaped(absl::string_view text) {
  std::string escaped;
  for (const char c : text) {
    switch (c) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      case '"':
        escaped += "&quot;";
        break;
      default:
        // XML has no other control characters.
        escaped += static_cast<unsigned char>(c) < ' ' ? ' ' : c;
    }
  }
  return escaped;
}

// 1, 2 or 5 times a power of ten, so that about kTicks of them are `span`.
double TickOf(double span) {
  const double raw = span / kTicks;
  const double power = std::pow(10, std::floor(std::log10(raw)));
  for (const double step : {1.0, 2.0, 5.0}) {
    if (step * power >= raw) {
      return step * power;
    }
  }
  return 10 * power;
}

struct Range {
  double low = 0;
  double high = 1;
  double tick = 0.2;

  // Ends at ticks.
  static Range Around(double low, double high) {
    if (!(high > low)) {
      const double some = std::max(std::abs(low) * 0.1, 1e-3);
      low -= some;
      high += some;
    }
    const double tick = TickOf(high - low);
    return {std::floor(low / tick) * tick, std::ceil(high / tick) * tick, tick};
  }
  int ticks() const { return static_cast<int>(std::lround((high - low) / tick)); }
  double at(int i) const { return low + i * tick; }
};

struct Line {
  std::string mode;
  std::vector<CurvePoint> points;
};

class Picture {
 public:
  Picture(const Comparison& comparison, std::vector<Line> lines)
      : comparison_(comparison), lines_(std::move(lines)) {
    double last = 0;
    std::vector<double> values;
    for (const Line& line : lines_) {
      for (const CurvePoint& point : line.points) {
        last = std::max(last, point.elapsed_s);
        values.push_back(point.value);
      }
    }
    if (values.empty()) {
      return;
    }
    if (comparison.to.has_value()) {
      values.push_back(*comparison.to);
    }
    x_ = Range::Around(0, last);
    x_.low = 0;
    y_ = Range::Around(*std::ranges::min_element(values), *std::ranges::max_element(values));
  }

  std::string Draw() {
    const int height = std::max(
        kLeastHeight, static_cast<int>(kTop + kLegendLine * static_cast<double>(lines_.size())));
    absl::StrAppendFormat(
        &text_,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d "
        "%d\" font-family=\"sans-serif\" font-size=\"12\" fill=\"#222222\">\n"
        "<rect width=\"%d\" height=\"%d\" fill=\"#ffffff\"/>\n",
        kWidth, height, kWidth, height, kWidth, height);
    Text(kLeft, 24, "start", absl::StrCat(comparison_.name, ": ", What(), Medians()),
         " font-size=\"14\"");
    Axes();
    for (size_t i = 0; i < lines_.size(); ++i) {
      DrawLine(i);
    }
    return absl::StrCat(text_, "</svg>\n");
  }

 private:
  double X(double seconds) const {
    return kLeft + (kRight - kLeft) * (seconds - x_.low) / (x_.high - x_.low);
  }
  double Y(double value) const {
    return kBottom - (kBottom - kTop) * (value - y_.low) / (y_.high - y_.low);
  }

  const char* What() const {
    switch (comparison_.curve_of) {
      case CurveOf::kTestAccuracy:
        return "test accuracy";
      case CurveOf::kTestLoss:
        return "test loss";
      case CurveOf::kTrainingLoss:
        return "training loss";
    }
    return "";
  }

  std::string Medians() const {
    return comparison_.seeds.size() > 1
               ? absl::StrCat(", medians of ", comparison_.seeds.size(), " seeds")
               : "";
  }

  void Text(double x, double y, const char* anchor, absl::string_view text,
            absl::string_view attributes = "") {
    absl::StrAppendFormat(&text_, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\"%s>%s</text>\n", x,
                          y, anchor, attributes, Escaped(text));
  }

  void Axes() {
    for (int i = 0; i <= y_.ticks(); ++i) {
      const double y = Y(y_.at(i));
      absl::StrAppendFormat(&text_, "<path d=\"M%.1f %.1fH%.1f\" stroke=\"#dddddd\"/>\n", kLeft, y,
                            kRight);
      Text(kLeft - 6, y + 4, "end", absl::StrFormat("%.4g", y_.at(i)));
    }
    for (int i = 0; i <= x_.ticks(); ++i) {
      Text(X(x_.at(i)), kBottom + 18, "middle", absl::StrFormat("%.4g", x_.at(i)));
    }
    Text((kLeft + kRight) / 2, kBottom + 38, "middle", "seconds");
    if (comparison_.to.has_value()) {
      absl::StrAppendFormat(
          &text_, "<path d=\"M%.1f %.1fH%.1f\" stroke=\"#222222\" stroke-dasharray=\"4 4\"/>\n",
          kLeft, Y(*comparison_.to), kRight);
    }
  }

  void DrawLine(size_t index) {
    const Line& line = lines_[index];
    const char* const colour = kColours[index % std::size(kColours)];
    const char* const dashes = kDashes[index / std::size(kColours) % std::size(kDashes)];
    const std::string stroke = absl::StrFormat(
        "fill=\"none\" stroke=\"%s\" stroke-width=\"2\" stroke-dasharray=\"%s\"", colour, dashes);
    std::string path;
    for (const CurvePoint& point : line.points) {
      absl::StrAppendFormat(&path, "%s%.1f %.1f", path.empty() ? "M" : "L", X(point.elapsed_s),
                            Y(point.value));
    }
    if (!path.empty()) {
      absl::StrAppend(&text_, "<path d=\"", path, "\" ", stroke, "/>\n");
    }
    for (const CurvePoint& point : line.points) {
      if (line.points.size() <= kMostDots) {
        absl::StrAppendFormat(&text_, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"2.5\" fill=\"%s\"/>\n",
                              X(point.elapsed_s), Y(point.value), colour);
      }
    }
    const double y = kTop + kLegendLine * static_cast<double>(index);
    absl::StrAppendFormat(&text_, "<path d=\"M%.1f %.1fH%.1f\" %s/>\n", kRight + 16, y, kRight + 40,
                          stroke);
    const std::string value = line.points.empty()
                                  ? "nothing measured"
                                  : absl::StrFormat("%.4f", line.points.back().value);
    Text(kRight + 46, y + 4, "start", absl::StrCat(line.mode, "  ", value));
  }

  const Comparison& comparison_;
  const std::vector<Line> lines_;
  Range x_;
  Range y_;
  std::string text_;
};

}  // namespace

std::string ComparisonSvg(const Comparison& comparison) {
  std::vector<Line> lines;
  for (const ModeResult& mode : comparison.modes) {
    lines.push_back({mode.mode, MedianCurve(mode)});
  }
  return Picture(comparison, std::move(lines)).Draw();
}

}  // namespace monsoon
