#include "coordinator/compare/comparison_report.h"

#include <string>
#include <vector>

#include "coordinator/compare/comparison_svg.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace monsoon {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

RunResult RunOf(uint64_t seed, double accuracy, std::optional<double> to_s) {
  RunResult run{.seed = seed, .job = "tiny-1", .state = "SUCCEEDED"};
  run.figures.final_test_accuracy = accuracy;
  run.figures.elapsed_s = 12;
  run.figures.bytes_pushed = 2.5e6;
  run.figures.to_s = to_s;
  run.curve = {{1, accuracy / 2}, {12, accuracy}};
  return run;
}

Comparison Two() {
  Comparison comparison{.name = "tiny",
                        .seeds = {5, 6},
                        .to = 0.88,
                        .tested = true,
                        .curve_of = CurveOf::kTestAccuracy,
                        .complete = true};
  comparison.modes = {
      {.mode = "single", .summary = "alone", .runs = {RunOf(5, 0.9, 3), RunOf(6, 0.8, {})}},
      {.mode = "local:5", .summary = "<local> & \"far\"", .notes = {"a note"}}};
  return comparison;
}

// The text is XML whose elements are closed in order; no more of XML than our pictures have.
bool IsWellFormed(const std::string& text) {
  std::vector<std::string> open;
  for (size_t at = 0; at < text.size(); ++at) {
    if (text[at] == '&') {
      const size_t end = text.find(';', at);
      if (end == std::string::npos || end - at > 6) {
        return false;
      }
    }
    if (text[at] == '>') {
      return false;
    }
    if (text[at] != '<') {
      continue;
    }
    const size_t end = text.find('>', at);
    const std::string tag = text.substr(at + 1, end - at - 1);
    if (end == std::string::npos || tag.find('<') != std::string::npos) {
      return false;
    }
    const std::string name = tag.substr(0, tag.find(' '));
    if (tag[0] == '/') {
      if (open.empty() || open.back() != tag.substr(1)) {
        return false;
      }
      open.pop_back();
    } else if (tag.back() != '/') {
      open.push_back(name);
    }
    at = end;
  }
  return open.empty();
}

TEST(ComparisonTextTest, HasALineARunAndTheMedians) {
  EXPECT_EQ(ComparisonText(Two()),
            "mode    seed    accuracy  loss  seconds  s to 0.88  samples to 0.88  samples  steps  "
            "MB down  MB up  stale p50  p99  max\n"
            "single  5         0.9000     -     12.0        3.0                -        -      -  "
            "      -    2.5          -    -    -\n"
            "single  6         0.8000     -     12.0          -                -        -      -  "
            "      -    2.5          -    -    -\n"
            "single  median    0.8500     -     12.0          -                -        -      -  "
            "      -    2.5          -    -    -\n"
            "local:5: a note\n");
}

TEST(ComparisonTextTest, SaysWhatBecameOfRunsAndRates) {
  Comparison comparison = Two();
  comparison.to.reset();
  comparison.grid_epochs = 1;
  comparison.kill_task = "worker/1";
  comparison.kill_share = 0.3;
  comparison.complete = false;
  ModeResult& mode = comparison.modes[0];
  mode.rate = 0.03;
  mode.grid = {{.rate = 0.03, .job = "g-1", .state = "SUCCEEDED"},
               {.rate = 1, .job = "g-2", .state = "FAILED", .reason = "diverged: loss"}};
  mode.runs[0].death = DeathResult{.job = "k-1", .state = "FAILED", .reason = "no worker"};
  mode.runs[1].state = "CANCELLED";
  mode.runs[1].figures.bound_wait_ms = 2500;
  const std::string text = ComparisonText(comparison);
  EXPECT_THAT(text, Not(HasSubstr("s to ")));
  EXPECT_THAT(text, HasSubstr("max  s waited  samples again  s more  back after s"));
  EXPECT_THAT(text, HasSubstr("the last three: of the same run in which worker/1 was killed when "
                              "0.3 was done"));
  EXPECT_THAT(text, HasSubstr("single: rate 0.03, the best of 0.03, 1 after 1 epochs of seed 5\n"));
  EXPECT_THAT(text, HasSubstr("single: g-2 is FAILED: diverged: loss\n"));
  EXPECT_THAT(text, HasSubstr("single: k-1 had ended before worker/1 could be killed\n"));
  EXPECT_THAT(text, HasSubstr("single: k-1 is FAILED: no worker\n"));
  EXPECT_THAT(text, HasSubstr("single: tiny-1 is CANCELLED\n"));
  EXPECT_THAT(text, HasSubstr("not all runs were made\n"));
  mode.rate.reset();
  EXPECT_THAT(ComparisonText(comparison), HasSubstr("no rate of 0.03, 1 has come to a result"));
}

TEST(ComparisonTextTest, WithoutATestSetThereIsTheLossAlone) {
  Comparison comparison = Two();
  comparison.to.reset();
  comparison.tested = false;
  comparison.curve_of = CurveOf::kTrainingLoss;
  const std::string text = ComparisonText(comparison);
  EXPECT_THAT(text, HasSubstr("train loss"));
  EXPECT_THAT(text, Not(HasSubstr("accuracy")));
}

TEST(ComparisonJsonTest, HasFiguresAndNullWhereThereIsNone) {
  Comparison comparison = Two();
  comparison.modes.pop_back();
  comparison.modes[0].runs.pop_back();
  comparison.seeds.pop_back();
  EXPECT_EQ(
      ComparisonJson(comparison),
      R"({"schema_version":1,"name":"tiny","complete":true,"seeds":[5],"to_test_accuracy":0.88,)"
      R"("curve_of":"test_accuracy","grid_epochs":null,"kill":null,"modes":[{"mode":"single",)"
      R"("summary":"alone","notes":[],"rate":null,"grid":[],"runs":[{"seed":5,"job":"tiny-1",)"
      R"("state":"SUCCEEDED","reason":"","final_test_accuracy":0.9,"final_loss":null,)"
      R"("training_loss":null,"elapsed_s":12,"to_s":3,"to_examples":null,"examples":null,)"
      R"("steps":null,"bytes_fetched":null,"bytes_pushed":2500000,"staleness_p50":null,)"
      R"("staleness_p99":null,"staleness_max":null,"bound_wait_ms":null,"dropped":null,)"
      R"("death_examples_again":null,)"
      R"("death_extra_s":null,"death_back_after_s":null,"curve":[[1,0.45],[12,0.9]],"death":null}],)"
      R"("median":{"final_test_accuracy":0.9,"final_loss":null,"training_loss":null,)"
      R"("elapsed_s":12,"to_s":3,"to_examples":null,"examples":null,"steps":null,)"
      R"("bytes_fetched":null,"bytes_pushed":2500000,"staleness_p50":null,"staleness_p99":null,)"
      R"("staleness_max":null,"bound_wait_ms":null,"dropped":null,)"
      R"("death_examples_again":null,"death_extra_s":null,)"
      R"("death_back_after_s":null}}]})");
}

TEST(ComparisonJsonTest, ADeathIsTold) {
  Comparison comparison = Two();
  comparison.kill_task = "ps/0";
  comparison.kill_share = 0.5;
  comparison.modes[0].runs[0].death =
      DeathResult{.job = "k-1", .state = "SUCCEEDED", .at_s = 3.5, .pid = 77, .back_after_s = 1.25};
  const std::string json = ComparisonJson(comparison);
  EXPECT_THAT(json, HasSubstr(R"("kill":{"task":"ps/0","share":0.5})"));
  EXPECT_THAT(json, HasSubstr(R"("death":{"job":"k-1","state":"SUCCEEDED","reason":"","pid":77,)"
                              R"("at_s":3.5,"back_after_s":1.25,"final_test_accuracy":null)"));
}

TEST(ComparisonSvgTest, IsWellFormedAndHasALineAMode) {
  Comparison comparison = Two();
  comparison.modes[1].mode = "<b>&\"\x01";
  const std::string svg = ComparisonSvg(comparison);
  EXPECT_TRUE(IsWellFormed(svg)) << svg;
  EXPECT_THAT(svg, HasSubstr("tiny: test accuracy, medians of 2 seeds"));
  EXPECT_THAT(svg, HasSubstr(">single  0.8500<"));
  EXPECT_THAT(svg, HasSubstr("&lt;b&gt;&amp;&quot;   nothing measured"));
  EXPECT_THAT(svg, Not(HasSubstr("<script")));
  EXPECT_THAT(svg, Not(HasSubstr("nan")));
  EXPECT_THAT(svg, Not(HasSubstr("inf")));
}

TEST(ComparisonSvgTest, NothingAndOnePointAreDrawnToo) {
  Comparison comparison;
  EXPECT_TRUE(IsWellFormed(ComparisonSvg(comparison)));
  comparison.modes.resize(40);
  comparison.modes[3].runs = {RunOf(1, 0.5, {})};
  comparison.modes[3].runs[0].curve = {{0, 0}};
  const std::string svg = ComparisonSvg(comparison);
  EXPECT_TRUE(IsWellFormed(svg)) << svg;
  EXPECT_THAT(svg, HasSubstr("height=\"840\""));
  EXPECT_THAT(svg, Not(HasSubstr("nan")));
}

TEST(ComparisonSvgTest, TheEndsOfTheAxesHoldAllPoints) {
  Comparison comparison = Two();
  comparison.to = 0.95;
  const std::string svg = ComparisonSvg(comparison);
  EXPECT_THAT(svg, HasSubstr("stroke-dasharray=\"4 4\""));
  // From 0.425 to the line at 0.95, over 12 seconds.
  EXPECT_THAT(svg, HasSubstr("text-anchor=\"end\">0.4<"));
  EXPECT_THAT(svg, HasSubstr("text-anchor=\"end\">1<"));
  EXPECT_THAT(svg, HasSubstr("text-anchor=\"middle\">15<"));
}

}  // namespace
}  // namespace monsoon
